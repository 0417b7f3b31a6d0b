"""Reverts one run: reads every host's history, and switches the servers that the run changed back."""

from collections.abc import Iterator, Mapping, Sequence
from weakref import WeakKeyDictionary

import gevent
from gevent.lock import BoundedSemaphore
from gevent.pool import Pool
from pyinfra import host, logger, state
from pyinfra.api import State
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.operation import OperationMeta
from pyinfra.context import ctx_host

from deploy.planning.groups import groups_in_part
from deploy.refusals import Refusal, refuse_all
from deploy.slices.host import Slice
from roles._pyinfra.runs import this_run
from roles._pyinfra.settings import overridden
from roles._pyinfra.steps import CachedFact, Refuse, ask, step
from roles.triton.defaults import Defaults
from roles.triton.facts import TritonServers, TritonState
from roles.triton.operations import Decide
from roles.triton.run_history import (
    BEGUN,
    SHOWN,
    Change,
    Changes,
    HostHistory,
    Reversal,
    cannot_revert,
    changed_since,
    planned_reversal,
    shown,
)
from roles.triton.swapping import Asking, ask_for, swap_seconds
from roles.triton.times import change_seconds

AT_ONCE = 32


def reversal_of(slices: Sequence[Slice], run_id: str) -> Reversal:
    """The reversal of run `run_id` (empty: of the last run with changes) on the hosts of `slices`.

    All hosts are asked once, before the first change. Raises: Refusals for an unknown run, for a run with later ones
    after it, and for a group of which `slices` have only a part.
    """
    with _turn:
        if host.state not in _outcomes:
            histories: dict[str, HostHistory] = {}
            pool = Pool(AT_ONCE)
            here = {peer.name for peer in state.active_hosts}
            reached = [planned.host for planned in slices if planned.host in here]
            gevent.joinall([pool.spawn(_ask, name, histories) for name in reached], raise_error=True)
            planned = {mine.host: [server.name for server in mine.servers] for mine in slices}
            outcome = groups_in_part(slices) or planned_reversal(run_id, dict(sorted(histories.items())), planned)
            _outcomes[host.state] = outcome
            for line in [] if isinstance(outcome, list) else announcement(outcome):
                logger.info(line)
    outcome = _outcomes[host.state]
    if isinstance(outcome, list):
        refuse_all(outcome)
        raise AssertionError("neither a reversal nor a refusal")
    return outcome


def announcement(reversal: Reversal) -> Iterator[str]:
    """Lines for the operator: the coming changes, and the changes that a reversal does not undo."""
    if not reversal.changes:
        yield f"run {reversal.run} is already reverted on {shown(reversal.done)}: there is nothing to do"
        yield "--data run=ID reverts another run:"
        yield from (f"  {line}" for line in reversal.known[:SHOWN])
        return
    alike: dict[str, list[str]] = {}
    for name, changes in reversal.changes.items():
        for change in changes:
            alike.setdefault(f"{change.server} from {change.release} to {change.before}", []).append(name)
    yield from (f"reverts run {reversal.run}: {change} on {shown(names)}" for change, names in alike.items())
    yield "going back changes model repository, settings and start line"
    yield "it does not undo: driver, Docker, container toolkit, weights, pulled images, ports opened elsewhere"
    yield "the next deploy.py brings the inventory's release again; change the inventory to stay"


def revert(mine: Slice, plan: str, reversal: Reversal, wave: int) -> list[OperationMeta]:
    """Switches every server that the run changed on this host back to its earlier release, with a swap's transaction.

    Returns the steps, each of which stops a server if it changes something.
    """
    settings, serving = overridden(host, "triton", Defaults()), CachedFact(TritonServers)
    asking = Asking.of(host.state, plan, wave, reversal.run)
    servers, steps = {server.name: server for server in mine.servers}, list[OperationMeta]()
    for change in host.loop(reversal.changes[mine.host]):
        seconds = swap_seconds(change_seconds(servers[change.server], mine.drain_seconds), settings)
        returned = step(
            serving,
            _returned(change, asking, settings, seconds),
            name=f"Triton | Revert run {reversal.run} on {change.server}",
        )
        steps.append(returned)
    return steps


def restore(mine: Slice, plan: str, wave: int, releases: Mapping[str, str]) -> Iterator[PyinfraCommand]:
    """The commands with which servers return to these releases, by server, when a gate reverts its own run."""
    settings = overridden(host, "triton", Defaults())
    asking = Asking.of(host.state, plan, wave, this_run(host.state).id)
    for server in mine.servers:
        if server.name in releases:
            seconds = swap_seconds(change_seconds(server, mine.drain_seconds), settings)
            yield from ask_for(server.name, releases[server.name], asking, settings, seconds)


def _returned(change: Change, asking: Asking, settings: Defaults, seconds: int) -> Decide:
    def decide(serving: TritonState) -> Iterator[PyinfraCommand]:
        if serving.server(change.server).serves(change.before):
            return
        if why := changed_since(change, serving.server(change.server).current):
            yield Refuse(cannot_revert(host.name, change.server, change.run, why, BEGUN))
            return
        yield from ask_for(change.server, change.before, asking, settings, seconds)

    return decide


def _ask(name: str, histories: dict[str, HostHistory]) -> None:
    target = state.inventory.get_host(name)
    with ctx_host.use(target):
        history = HostHistory(ask(target, Changes), ask(target, TritonServers))
    if target in state.active_hosts:
        histories[name] = history


_outcomes: WeakKeyDictionary[State, Reversal | list[Refusal]] = WeakKeyDictionary()
_turn = BoundedSemaphore()
