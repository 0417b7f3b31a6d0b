"""HAProxy in front of pools, on a separate host: package, certificate, configuration and process.

Hosts join and leave while HAProxy runs; other changes need a reload, which never happens between the first drain and
the last admit, because connections held across a reload can be lost. So the role acts twice in a run. Before the first
wave HAProxy checks no model that only some hosts have; after the last wave, `check_all_models` makes it check all
models of the plan.
"""

from collections.abc import Iterator

from pyinfra.api.operation import OperationMeta

from deploy.slices.traffic import BalancerSlice
from roles._pyinfra import undo
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import CachedFact, Command, step
from roles._shipping import haproxy
from roles.balancer import keys, operations
from roles.balancer.config import Checked, config, everything, until_all_have_them
from roles.balancer.defaults import CONFIG
from roles.balancer.facts import BalancerHost, checked


def apply(mine: BalancerSlice) -> None:
    """Runs HAProxy with the hosts of the plan, with checks of the models that all of them have throughout the run."""
    fact, texts = _look(mine), operations.texts(mine)
    package = step(fact, haproxy.package, name="Balancer | Install HAProxy")
    placed = undo.put_texts("balancer", texts, after=[package], name="Balancer | Place unit, action and certificate")
    sent = step(
        fact, lambda facts: operations.key(facts, mine), after=[placed], name="Balancer | Send the certificate's key"
    )
    keyed = _keyed(mine)
    written = step(
        fact,
        lambda facts: _written(mine, facts, until_all_have_them(mine, checked(facts))),
        after=[package, placed, sent, *keyed],
        name="Balancer | Write the configuration",
    )
    step(fact, operations.in_force, after=[placed, *keyed, written], name="Balancer | Apply the configuration")


def send_keys(mine: BalancerSlice) -> None:
    if keyed := _keyed(mine):
        step(_look(mine), keys.sent, after=keyed, name="Balancer | Apply the keys")


def check_all_models(mine: BalancerSlice) -> None:
    """Makes HAProxy check every model of the plan, after every wave has passed its gate."""

    def decide(facts: HostFacts) -> Iterator[Command]:
        if until_all_have_them(mine, checked(facts)) != everything(mine):  # else `apply` has written this file
            yield from _written(mine, facts, everything(mine))

    fact = _look(mine)
    written = step(fact, decide, name="Balancer | Check every model")
    step(fact, operations.in_force, only_after=[written], name="Balancer | Apply the configuration")


def check_servers_only(mine: BalancerSlice) -> None:
    """Makes HAProxy check only servers, not their models: a previous release may have had other models."""
    fact, nothing = _look(mine), {route.pool: () for route in mine.routes}
    written = step(
        fact, lambda facts: _written(mine, facts, nothing), name="Balancer | Check servers without their models"
    )
    step(fact, operations.in_force, after=[written], name="Balancer | Apply the configuration")


def _keyed(mine: BalancerSlice) -> list[OperationMeta]:
    if not mine.keys:
        return []
    name = "Balancer | Write the keys"
    return [step(keys.map_texts(mine), lambda facts: keys.written(mine, facts), name=name)]


def _look(mine: BalancerSlice) -> CachedFact[HostFacts]:
    return CachedFact(BalancerHost, {"key": f"{operations.certificate_path(mine)}.key"} if mine.certificate else {})


def _written(mine: BalancerSlice, facts: HostFacts, models: Checked) -> Iterator[Command]:
    files = operations.certificate_path(mine), operations.clients_path(mine)
    return haproxy.written(facts, CONFIG, config(mine, models, *files))
