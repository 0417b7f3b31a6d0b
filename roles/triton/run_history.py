"""Changes of earlier runs, from the hosts' histories, and the reversal of one run. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from pyinfra.api import FactBase

from deploy.models.files import ROOT
from deploy.planning.plan import Plan
from deploy.refusals import Refusal
from deploy.slices.host import Slice
from roles.triton.facts import TritonState

NOTHING = "nothing was changed on any host"
BEGUN = "reverted changes stay reverted; nothing further happens on this host"
REMEMBERED = 1000
"""Recent swaps of one host that are read."""
SHOWN = 5


@dataclass(frozen=True)
class Change:
    """A swap that brought a release to a server, from a line of history.jsonl."""

    run: str
    server: str
    before: str
    release: str
    wave: int = 0
    who: str = ""
    when: str = ""
    plan: str = ""
    back: str = ""
    """The reverted run: an earlier run, or this run, reverted by its own gate."""

    @classmethod
    def of(cls, line: str) -> Iterator[Change]:
        try:
            record = json.loads(line)
            known = {key.name: record[key.name] for key in fields(cls) if key.name in record}
            change = cls(**{**known, "before": record["from"]})
            texts = [word for name, word in vars(change).items() if name != "wave"]
            is_known = all(isinstance(text, str) for text in texts) and type(change.wave) is int
            if is_known and change.before != change.release and record["result"] == "serves":
                yield change
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return


class Changes(FactBase[tuple[Change, ...]]):
    """The changes in this host's history, oldest first."""

    default = tuple

    def command(self) -> str:
        return f"""grep -F '"result": "serves"' {ROOT}/history.jsonl 2>/dev/null | tail -n {REMEMBERED}; true"""

    def process(self, output: list[str]) -> tuple[Change, ...]:
        return tuple(change for line in output for change in Change.of(line))


@dataclass(frozen=True)
class HostHistory:
    """A host's history, and its servers' state now."""

    changes: tuple[Change, ...] = ()
    serving: TritonState = field(default_factory=TritonState)

    def of(self, run: str) -> dict[str, Change]:
        """Changes by a run, by server: the release before the run's first swap and the release after its last swap, if
        they differ."""
        by_server: dict[str, Change] = {}
        for change in self.changes:
            if change.run == run:
                before = by_server[change.server].before if change.server in by_server else change.before
                by_server[change.server] = Change(run, change.server, before, change.release)
        return {name: change for name, change in by_server.items() if change.before != change.release}


@dataclass(frozen=True)
class Reversal:
    """The reversal of a run: the changes to revert on each host, and the hosts on which it is reverted already."""

    run: str
    changes: Mapping[str, tuple[Change, ...]]
    done: tuple[str, ...]
    known: tuple[str, ...]
    """A line about each of the last runs, newest first."""

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(name for name, changes in self.changes.items() if changes)

    def within(self, plan: Plan) -> Plan:
        """The plan with only the waves of these hosts, in reverse order with canaries last; pools are the fleet's.

        It has only the servers that change on these hosts: a gate does not probe servers that the run did not touch, or
        that no run has brought yet. Gates do not compare the speed of answers either: a slower earlier release is no
        reason to keep the reverted release.
        """
        slices = tuple(self._changing(slice_) if slice_.host in self.hosts else slice_ for slice_ in plan.slices)
        rollout = replace(plan.rollout, slower_percent=0)
        return replace(plan, slices=slices, waves=plan.only(self.hosts).waves[::-1], rollout=rollout)

    def _changing(self, mine: Slice) -> Slice:
        servers = {change.server for change in self.changes[mine.host]}
        return replace(mine, servers=tuple(server for server in mine.servers if server.name in servers))


def planned_reversal(
    run_id: str, histories: Mapping[str, HostHistory], planned: Mapping[str, Collection[str]]
) -> Reversal | list[Refusal]:
    """The reversal of run `run_id` (empty: the last run that was not itself a reversal), or the reasons against it.

    `histories` and `planned` (the servers) are by host.
    """
    runs = lines_of(histories)
    every = [change for history in histories.values() for change in history.changes]
    # A run that rolled back another run, or that its own gate rolled back completely, is not rolled back by default.
    own = {change.run for change in every} - {change.run for change in every if change.back not in ("", change.run)}
    run = run_id or max((run for run in own if any(history.of(run) for history in histories.values())), default="")
    if run not in runs:
        return [unknown(run_id, runs)]
    changes: dict[str, tuple[Change, ...]] = {}
    done, refused = [], list[Refusal]()
    for name, history in histories.items():
        of_run = history.of(run).values()
        left = tuple(change for change in of_run if not history.serving.server(change.server).serves(change.before))
        reasons = ((change, obstacle(change, history, planned[name])) for change in left)
        refused += [cannot_revert(name, change.server, run, why) for change, why in reasons if why]
        changes |= {name: left} if left else {}
        done += [name] if not left and any(change.run == run for change in history.changes) else []
    return refused or Reversal(run, changes, tuple(done), tuple(runs.values()))


def obstacle(change: Change, history: HostHistory, planned: Collection[str]) -> str:
    """The reason why one server cannot go back; empty if it can."""
    if change.server not in planned:
        return "the inventory names no such server"
    if not change.before:
        return "no release served there before that run"
    now = history.serving.server(change.server).current
    if since := changed_since(change, now):
        later = [
            earlier.run for earlier in history.changes if earlier.server == change.server and earlier.release == now
        ]
        return since + (f", which run {later[-1]} brought" if later else "")
    if change.before not in history.serving.releases:
        return f"release {change.before} is no longer on the host"
    return ""


def changed_since(change: Change, current: str) -> str:
    return "" if current in (change.release, change.before) else f"since then {current or 'nothing'} is current"


def lines_of(histories: Mapping[str, HostHistory]) -> dict[str, str]:
    """A line about each run that changed something, newest first."""
    by_run: dict[str, list[tuple[str, Change]]] = {}
    for name, history in histories.items():
        for change in history.changes:
            by_run.setdefault(change.run, []).append((name, change))
    lines = {}
    for run in sorted(by_run, reverse=True):
        hosts, latest = sorted({name for name, _ in by_run[run]}), by_run[run][0][1]
        lines[run] = f"{run}  {latest.who}, {shown(hosts)}" + (
            f"; reverted {latest.back}" if latest.back else f", plan {latest.plan}"
        )
    return lines


def shown(hosts: Sequence[str]) -> str:
    return ", ".join(hosts[:SHOWN]) + (f" and {len(hosts) - SHOWN} more" if len(hosts) > SHOWN else "")


def unknown(run_id: str, runs: Mapping[str, str]) -> Refusal:
    """The refusal of a run that is in no host's history."""
    shown = list(runs.values())[:SHOWN]
    return Refusal(
        f"no host's history has a run {run_id}" if run_id else "no host's history has a run that changed its servers",
        facts={f"run {number}": line for number, line in enumerate(shown, start=1)},
        attempt=f"--data run={next(iter(runs))}" if runs else "deploy.py brings what the inventory names",
        state=NOTHING,
        kind="unknown-run",
    )


def cannot_revert(name: str, server: str, run: str, why: str, state: str = NOTHING) -> Refusal:
    return Refusal(
        f"{name}: run {run} cannot be reverted on {server}",
        facts={"why": why},
        attempt="revert the later run first, or leave the host out (--limit), or change the inventory and deploy",
        state=state,
        kind="no-way-back",
    )
