"""Gateways that also send to other hosts: hosts that can be reached, and models that are equal."""

import re
from collections.abc import Iterator

from deploy.catalog import HAPROXY_FLOOR, SYSTEMS
from deploy.catalog.names import offer
from deploy.catalog.versions import at_least
from deploy.inventory.fleet import Fleet
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import LLM, Host, Model
from deploy.topology.balancing import address_of, is_reachable
from deploy.topology.gateway import adapter_names
from deploy.topology.monitors import OURS
from deploy.topology.mutual import reached
from deploy.validation.addresses import no_address
from deploy.validation.gateway import name_problems, seen_from_outside, spoken_to
from deploy.validation.ports import free_port, port_twice, taken_with_gateway


def remote_models_problems(fleet: Fleet) -> Iterator[tuple[str, Refusal]]:
    """(host, refusal) for each mistake in a gateway's `others`, and in its models on those hosts."""
    reached_hosts: dict[str, Host] = {}
    for host in fleet.hosts:
        for problem in _names(host, fleet):
            yield host.name, problem
        others = reached(host, fleet.hosts)
        reached_hosts |= {remote.name: remote for remote in others}
        if others and not is_reachable(address_of(host)):
            yield (
                host.name,
                no_address(host, "this host declares no address from which its gateway reaches other hosts"),
            )
        for problem in _models(host, others):
            yield host.name, problem
    for remote in reached_hosts.values():
        for problem in _of_reached(remote, bool(fleet.monitors)):
            yield remote.name, problem
        for server, model in remote.served_models:
            yield from ((remote.name, problem) for problem in spoken_to(server.name, model))


def _names(host: Host, fleet: Fleet) -> Iterator[Refusal]:
    serving = [remote for remote in fleet.hosts if remote.servers and not remote.farm]
    known = sorted({name for remote in serving for name in (remote.name, remote.pool) if name})
    by_address = {address_of(remote): remote.name for remote in serving}
    for name in host.gateway.others if host.gateway else ():
        if name not in known:
            yield refuse(
                "gateway-to-nowhere",
                f"the gateway sends to {name}, and no serving host or pool has that name",
                where="gateway.others",
                seen=repr(name),
                wanted="names of hosts and pools of this inventory",
                attempt=f'others=("{meant}",)'
                if (meant := by_address.get(re.sub(r"^https?://|:[0-9]+/?$|/$", "", name), ""))
                else offer(name, elsewhere)
                if (elsewhere := [target for target in known if target not in (host.name, host.pool)])
                else "leave others out",
            )


def _models(host: Host, others: list[Host]) -> Iterator[Refusal]:
    own = {model.name: (host.name, model) for _, model in host.served_models}
    for remote in others:
        for server, model in remote.served_models:
            if model in server.standalone_llms:
                yield _beside_elsewhere(model, remote, server.name)
                continue
            if isinstance(model, LLM) and model.name not in own and model.weights.path:
                yield _no_tokenizer(model, remote)
                continue
            place, known = own.setdefault(model.name, (remote.name, model))
            if _asked_for(model) != _asked_for(known):
                yield _two_models(model, place, remote, server.name)
    if host.gateway and host.gateway.others:
        yield from name_problems(host.gateway, [*others, host])


def _asked_for(model: Model) -> tuple[object, ...]:
    return (*seen_from_outside(model), *adapter_names(model))


def _beside_elsewhere(model: Model, remote: Host, server: str) -> Refusal:
    return refuse(
        "runtime-of-another-host",
        f"the gateway cannot send to {model.name} of {remote.name}, which listens on loopback on that host",
        where="gateway.others",
        seen=f"{model_at(server, model.name)} of {remote.name} is served beside Triton",
        wanted="hosts whose LLMs are models of Triton",
        attempt=f"take {remote.name} and its pool out of others: clients ask the gateway there",
    )


def _no_tokenizer(model: Model, remote: Host) -> Refusal:
    return refuse(
        "gateway-without-weights",
        f"the gateway cannot read model {model.name} of {remote.name}: only that host has its tokenizer",
        where="gateway.others",
        seen=f'LLM {model.name}, which this host does not serve, from Weights.on_host("{model.weights.path}")',
        wanted="weights of a hub or of the control machine, whose tokenizer the gateway's host gets; or an LLM "
        "that this host serves too",
        attempt=f"Weights.hub(REPOSITORY, REVISION) for {model.name}; or take {remote.name} and its pool out of "
        "gateway.others",
    )


def _two_models(model: Model, place: str, remote: Host, server: str) -> Refusal:
    return refuse(
        "one-name-two-models",
        f"{model.name} is a different model on {place} than on {remote.name}",
        where="gateway.others",
        seen=f"other weights, adapters or another length in {model_at(server, model.name)} of {remote.name}",
        wanted="the same model: the gateway sends a request to either host",
        attempt=f'another name for one of them, "{model.name}-2"; or take {remote.name} and its pool out of others',
    )


def _of_reached(host: Host, is_watched: bool) -> Iterator[Refusal]:
    """Mistakes of a host to which a gateway of another host sends."""
    if not is_reachable(address_of(host)):
        yield no_address(host, "this host declares no address at which a gateway of another host reaches it")
    system = SYSTEMS.get(host.machine.os)
    if system and not at_least(system.haproxy, HAPROXY_FLOOR):
        yield refuse(
            "haproxy-too-old",
            f"HAProxy {system.haproxy} of {host.machine.os} is not known to work before a server of a remote gateway",
            where="machine.os",
            seen=host.machine.os,
            wanted=f"a system with HAProxy {HAPROXY_FLOOR} or newer",
            attempt='"ubuntu-24.04" or a Debian; or a Gateway of its own on this host',
        )
    port = host.traffic.gateways_port
    taken = taken_with_gateway(host)
    taken |= OURS if is_watched else {}
    if port in taken:
        attempt = f"Traffic(gateways_port={free_port(taken, port + 1)})"
        yield port_twice(port, taken[port], "traffic.gateways_port", attempt)
