"""The run's lock on all its hosts: no second run can change them at the same time.

A dead run's lock ends by itself (hold.py). A second run is refused before its first change, on all its hosts.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

from pyinfra import host, logger, state
from pyinfra.api import FactBase, FunctionCommand, Host, State, operation

from deploy.refusals import Refusal, Refusals
from roles._pyinfra import fact_batch
from roles._pyinfra.hold import FILE, SILENT_SECONDS, Hold
from roles._pyinfra.runs import this_run
from roles._pyinfra.steps import Refuse, ask

UNTOUCHED = "before the first change; every host serves what it served"
BEGUN = "steps that ended are done; nothing further happens on this host"
SHOWN = 8


@dataclass(frozen=True)
class Holder:
    """The run that holds a host, in the host's own record."""

    run: str = "(unknown)"
    who: str = "(unknown)"
    since: str = "(unknown)"
    plan: str = "(unknown)"

    @classmethod
    def of(cls, text: str) -> Holder:
        try:
            holder = cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return cls()
        return holder if all(isinstance(word, str) for word in vars(holder).values()) else cls()

    def __str__(self) -> str:
        return f"{self.who} since {self.since}, plan {self.plan}"


class HolderNow(FactBase[Holder | None]):
    """The run that holds this host now, if any."""

    def command(self) -> str:
        """Prints the holder's entry under a shared lock, so that two readers do not mistake each other for a run."""
        return f"if [ -e {FILE} ] && ! flock -ns {FILE} true; then echo held; cat {FILE}; fi; true"

    @staticmethod
    def default() -> Holder | None:
        return None

    def process(self, output: list[str]) -> Holder | None:
        return Holder.of("".join(output[1:])) if output[:1] == ["held"] else None


def take(plan: str) -> None:
    """Takes the lock of every host of the run; if another run holds a host, no host is changed, and one report names
    that run.

    `plan` is the digest that other runs read. A dry run takes no lock, and only reports the runs that hold a host.
    """
    _take(plan, name="Lock | Hold the host for this run")
    _confirm(name="Lock | Confirm that no other run holds a host")


@operation()
def _take(plan: str) -> Generator[FunctionCommand, None, None]:
    """Takes the host's lock; changes nothing. `_confirm` reports other holders once every host was asked."""
    if not state.is_executing:
        if holder := ask(host, HolderNow):
            host.log(f"held by {holder}; a run that begins before that one ends is refused", log_func=logger.warning)
        host.noop("a run takes it as it begins")
        return
    held, run = state.inventory.get_host(host.name), this_run(host.state)
    if held not in _holds:
        record = json.dumps({"run": run.id, "who": run.who, "since": run.since, "plan": plan})
        _holds[held] = Hold(held, record, partial(_lost, held))
        word, text = parted(_holds[held].take())
        if word == "mine":
            fact_batch.of(held).stand(_holds[held].last_ended)
        elif word == "held":
            _others.setdefault(host.state, {})[host.name] = Holder.of(text)
        else:
            yield Refuse(not_taken(text, UNTOUCHED))
            return
    host.noop("held by this run, or reported below")


@operation()
def _confirm() -> Generator[FunctionCommand, None, None]:
    """Stops every host if another run holds a host; one report for all hosts is printed."""
    others = _others.get(host.state, {}) if state.is_executing else {}
    if not others:
        host.noop("nobody else")
        return
    if host.state not in _reported:
        _reported[host.state] = True
        for line in str(taken(others, len(host.state.activated_hosts))).splitlines():
            logger.error(line)

    def stop(state: State, host: Host) -> bool:
        return False

    yield FunctionCommand(stop, (), {})


def let_go(held: Host) -> None:
    """Releases a host whose connection is about to end on purpose. The lock is not checked until `take_back`.

    A rebooting host accepts no connection meanwhile, and another run that needs all its hosts waits for the others.
    """
    if held in _holds:
        _holds[held].close()


def take_back(held: Host) -> bool:
    """True if this run holds the host again, or never held it; False, with an event, if another run has taken the
    host."""
    if held not in _holds:
        return True
    reply = _holds[held].take()
    if reply != "mine":
        _lost(held, reply)
    return reply == "mine"


def parted(reply: str) -> tuple[str, str]:
    """Word and text of a reply of `Hold.take`: "mine", "held" or "gone" with the holder; else "" with the problem."""
    word, _, text = reply.partition(" ")
    return (word, text) if word in ("mine", "held", "gone") else ("", reply)


def taken(others: Mapping[str, Holder], size: int) -> Refusal:
    """The refusal if other runs hold some of the `size` hosts; it names these runs and their hosts."""
    runs: dict[Holder, list[str]] = {}
    for name, holder in sorted(others.items()):
        runs.setdefault(holder, []).append(name)
    return Refusals(
        Refusal(
            f"another run is changing {len(names)} of {size} hosts",
            facts={
                "who": holder.who,
                "since": holder.since,
                "run": f"{holder.run}, plan {holder.plan}",
                "hosts": ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""),
            },
            attempt="run again once it has ended; a dead run holds its hosts for two minutes at most",
            state=UNTOUCHED,
            kind="held",
        )
        for holder, names in runs.items()
    )


def not_taken(reply: str, state_then: str) -> Refusal:
    return Refusal(
        "this host cannot be held for the run",
        facts={"said": reply, "wanted": f"{FILE}, bash, flock, and a second session over the same connection"},
        attempt="make sure that MaxSessions of its sshd is 2 or more; then run again",
        state=state_then,
        kind="not-held",
    )


def lost(holder: Holder | None) -> Refusal:
    """The refusal of a run that was silent until another run took its host; `holder` is None if the other run has
    ended."""
    return Refusal(
        "another run took this host while this run was silent",
        facts={"away": f"silent for {SILENT_SECONDS} s, or in a reboot", "came": str(holder or "it has ended since")},
        attempt="see what that run did, then run again",
        state=BEGUN,
        kind="held",
    )


def _lost(held: Host, reply: str) -> None:
    word, text = parted(reply)
    holder = Holder.of(text) if text else None
    Refuse(lost(holder) if word in ("held", "gone") else not_taken(text, BEGUN)).log(held)


_holds: WeakKeyDictionary[Host, Hold] = WeakKeyDictionary()
_others: WeakKeyDictionary[State, dict[str, Holder]] = WeakKeyDictionary()
_reported: WeakKeyDictionary[State, bool] = WeakKeyDictionary()
