"""All checks of all hosts in one list. The order of the modules is the order of the report."""

import re
from collections.abc import Iterable, Iterator

from deploy.catalog.versions import version
from deploy.inventory.fleet import Fleet
from deploy.inventory.named_models import with_names
from deploy.models.resolve import image_of, release_row, serve
from deploy.refusals import Refusal, together
from deploy.spec import LLM, Balancer, Host, Https
from deploy.spec.surroundings import Surroundings
from deploy.validation.addresses import address_problems
from deploy.validation.balancers import balancer_problems
from deploy.validation.building import building_problems
from deploy.validation.bundled import bundled_problems, bundled_support_problems
from deploy.validation.cards import own_card
from deploy.validation.certificates import authority_problems, certificate_notice, open_notice
from deploy.validation.consequences import without_consequences
from deploy.validation.contradictions import missing_switches, pair_problems
from deploy.validation.daemon import daemon_problems
from deploy.validation.default_gateway import with_default_gateway
from deploy.validation.disk import disk_problems
from deploy.validation.engine_hosts import engine_host_problems
from deploy.validation.firewall import firewall_problems
from deploy.validation.gateway import gateway_notice, gateway_problems, past_the_gateway, smaller_fallbacks
from deploy.validation.groups import group_notices, group_problems
from deploy.validation.holes import hole_notices, hole_problems
from deploy.validation.https import https_problems
from deploy.validation.machine import machine_problems
from deploy.validation.memory import memory_problems, shared_memory_problems
from deploy.validation.mig import mig_problems
from deploy.validation.models import model_problems
from deploy.validation.monitors import monitor_problems
from deploy.validation.names import double_source_problems, name_problems
from deploy.validation.notices import (
    fp8_gains_and_costs,
    idle_gpus,
    mixed_pools,
    tool_notices,
    unread_settings,
    yes_or_no_notices,
)
from deploy.validation.numbers import number_problems
from deploy.validation.own_models import own_model_problems
from deploy.validation.parallel import slow_links
from deploy.validation.placed_llm import Placed
from deploy.validation.proxies import proxy_problems
from deploy.validation.release import ending_soon, release_problems
from deploy.validation.remote_models import remote_models_problems
from deploy.validation.repair import repair_problems
from deploy.validation.repositories import repository_notices, repository_problems
from deploy.validation.rollout import no_hosts, pool_problems, rollout_problems
from deploy.validation.runtimes import runtime_notices
from deploy.validation.secrets import secret_problems
from deploy.validation.servers import server_problems
from deploy.validation.shapes import shape_problems
from deploy.validation.sharing import sharing_problems
from deploy.validation.sources import source_problems
from deploy.validation.tenants import shared_prefixes, tenant_problems
from deploy.validation.traffic import traffic_problems
from deploy.validation.weights import weights_problems


def judge(fleet: Fleet, surroundings: Surroundings) -> list[Refusal]:
    """Every refusal of every host, each one once."""
    double_sources = list(double_source_problems(fleet, surroundings))
    if double_sources:
        return together([*fleet.unread, *double_sources])
    fleet = with_default_gateway(with_names(fleet, surroundings))
    numbers = list(_numbers_beside_hosts(fleet))
    refusals = [*fleet.unread, *(("", problem) for problem in rollout_problems(fleet.rollout, fleet.hosts))]
    if not fleet.hosts and not fleet.unread:
        refusals.append(("", no_hosts()))
    for host in fleet.hosts:
        strange = list(number_problems(host))
        numbers += [(host.name, problem) for problem in strange]
        refusals += [(host.name, problem) for problem in host_problems(host, fleet, surroundings, strange)]
    refusals += [*balancer_problems(fleet, surroundings), *remote_models_problems(fleet), *monitor_problems(fleet)]
    refusals += [
        *bundled_support_problems(fleet),
        *sharing_problems(fleet),
        *address_problems(fleet),
        *group_problems(fleet),
    ]
    return together(without_consequences([*refusals, *_unrefused(numbers, refusals)]))


def _unrefused(numbers: list[tuple[str, Refusal]], refusals: list[tuple[str, Refusal]]) -> list[tuple[str, Refusal]]:
    """The refusals of numbers by their range, except for fields for which another check has a better reason."""
    places = {(host, problem.facts["where"]) for host, problem in refusals}
    return [
        (host, problem)
        for host, problem in numbers
        if not any((host, place) in places for place in _around(problem.facts["where"]))
    ]


def _numbers_beside_hosts(fleet: Fleet) -> Iterator[tuple[str, Refusal]]:
    """(host, refusal) for each implausible number of rollout, balancers and monitors."""
    declared: list[tuple[str, object, str]] = [("", fleet.rollout, "rollout")]
    for balancer in fleet.balancers:
        declared += [(balancer.name, balancer.balancer, "balancer"), (balancer.name, balancer.firewall, "firewall")]
    for monitor in fleet.monitors:
        declared += [(monitor.name, monitor.monitor, "monitor"), (monitor.name, monitor.firewall, "firewall")]
    for name, value, where in declared:
        yield from ((name, problem) for problem in number_problems(value, where))


def host_problems(host: Host, fleet: Fleet, surroundings: Surroundings, strange: list[Refusal]) -> Iterator[Refusal]:
    """Every refusal of one readable host, except for `strange`: its implausible numbers.

    The checks that calculate with implausible numbers are left out, because their refusals would be consequences.
    """
    yield from _problems_of_settings(host, fleet, surroundings)
    yield from _problems_of_models(host, fleet, surroundings, strange)


def _around(place: str) -> set[str]:
    return {place, re.sub(r"(\[[^]]*\]|\.(prompt|completion|cached))$", "", place)}


def _problems_of_settings(host: Host, fleet: Fleet, surroundings: Surroundings) -> Iterator[Refusal]:
    yield from machine_problems(host)
    yield from pool_problems(host)
    yield from mig_problems(host)
    yield from repair_problems(host, fleet)
    yield from release_problems(host, surroundings.today)
    yield from hole_problems(host)
    yield from secret_problems(host)
    yield from source_problems(host)
    yield from bundled_problems(host)
    yield from proxy_problems(host)
    yield from authority_problems(host, surroundings)
    yield from daemon_problems(host)
    yield from pair_problems(host)
    yield from shared_memory_problems(host)
    yield from server_problems(host)
    yield from traffic_problems(host)
    yield from gateway_problems(host)
    yield from https_problems(host, surroundings)
    yield from firewall_problems(host, fleet.balancers)
    yield from tenant_problems(host)


def _problems_of_models(
    host: Host, fleet: Fleet, surroundings: Surroundings, strange: Iterable[Refusal]
) -> Iterator[Refusal]:
    """The refusals of a host's models; only the refusals of their shapes if a shape has a number that cannot be a
    divisor."""
    if names := list(name_problems(host, surroundings)):
        yield from names
    elif any(".checkpoint." in problem.facts["where"] for problem in strange):
        yield from (problem for server, model in host.served_models for problem in shape_problems(server, model))
    else:
        yield from known_model_problems(host, fleet, surroundings, is_believed=not strange)


def known_model_problems(
    host: Host, fleet: Fleet, surroundings: Surroundings, is_believed: bool = True
) -> Iterator[Refusal]:
    """Every refusal of models, weights and memory of one host; they can be judged only after every name is known.

    Memory is not calculated from implausible numbers, because its refusals would be consequences.
    """
    yield from model_problems(host, surroundings)
    yield from own_model_problems(host)
    yield from weights_problems(host, surroundings)
    repositories = list(repository_problems(host, surroundings))
    yield from repositories
    if any(problem.kind == "numbers-of-other-files" for problem in repositories):
        return  # memory and disk would be calculated from wrong numbers
    yield from engine_host_problems(host, surroundings)
    if is_believed:
        yield from memory_problems(host, surroundings)
        yield from disk_problems(host, surroundings)
        yield from building_problems(host, fleet, surroundings)


def notices(fleet: Fleet, surroundings: Surroundings) -> Iterator[str]:
    """Sentences that an operator should read although no setting is wrong, each once."""
    sentences = [sentence for host in fleet.hosts for sentence in _host_notices(host, surroundings)]
    https = [host.gateway.https for host in fleet.hosts if host.gateway and host.gateway.https]
    shown: list[Balancer | Https] = [*(balancer.balancer for balancer in fleet.balancers), *https]
    ending = filter(None, (certificate_notice(declared, surroundings) for declared in shown))
    opened = filter(None, map(open_notice, fleet.balancers))
    sentences += mixed_pools(fleet.hosts)
    yield from dict.fromkeys([*sentences, *fleet.remarks, *opened, *ending, *surroundings.missing])


def _host_notices(host: Host, surroundings: Surroundings) -> Iterator[str]:
    soon, row = ending_soon(host, surroundings.today), release_row(host.release)
    if soon:
        yield soon
    if row and version(host.driver.branch)[:1] < version(row.driver)[:1]:
        yield (
            f"release {row.name} bundles driver {row.driver}; branch {host.driver.branch} runs it through CUDA "
            "compatibility, which is proven by a CUDA call inside the image"
        )
    if row and not image_of(host, row).digest:
        yield "the image is not pinned: `enginehouse pin INVENTORY` asks the registry and writes its digest"
    yield from runtime_notices(host)
    yield from filter(None, [own_card(host), missing_switches(host), idle_gpus(host)])
    yield from hole_notices(host, surroundings.today)
    yield from repository_notices(host, surroundings)
    yield from filter(None, (gateway_notice(host), past_the_gateway(host), *smaller_fallbacks(host)))
    yield from tool_notices(host)
    yield from unread_settings(host)
    yield from group_notices(host)
    for server, model in host.served_models:
        served = serve(model, surroundings)
        yield from fp8_gains_and_costs(model)
        yield from yes_or_no_notices(model)
        if served and isinstance(model, LLM) and served.architecture.kind == "llm":
            yield from slow_links(Placed.of(host, server, served, model))
            yield from shared_prefixes(host, served, row.trtllm if row else "")
