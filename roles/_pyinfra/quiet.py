"""Leaves the steps of hosts without pending changes out of the run, and adds one operation that rechecks them.

pyinfra spends 1.2 ms of CPU on each operation of a host, whatever it does, and a finished host had some 70 (3.10.0,
2026-11-22). `leave_out_unchanged` comes last in a verb, when each step knows its changes. If no step of a host would
change anything, the host keeps only preflight, lock and gates, and the operations that `recheck` added between them. If
any step would, the host keeps all its steps and no recheck.

A recheck reads the facts again once the run holds the host. If a step has changes by then, because another run or a
person changed the host, the steps of this part of the run are done immediately, each under its own name. Answers
younger than FRESH_SECONDS count, if the lock proves that no other run held the host since (fact_batch.py). Only the
next run notices a person's change within those seconds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from pyinfra import host, state
from pyinfra.api import Host, operation
from pyinfra.api.operations import run_host_op
from pyinfra.api.util import log_operation_start
from pyinfra.context import ctx_host

from roles._pyinfra import fact_batch
from roles._pyinfra.steps import Command, fail_step, has_failed, looking, steps_of


@dataclass
class Part:
    """Steps of a host between two rechecks: pyinfra's entry of each, by its hash. Empty if the steps stay."""

    steps: dict[str, Any] = field(default_factory=dict)


def recheck() -> None:
    """Rechecks the host's steps before this point if they were left out, and runs those that now have changes."""
    part = Part()
    _parts.setdefault(ctx_host.get(), {})[_recheck(part, name="Host | Confirm that no step has changes")._hash] = part


@operation(_set_in_op=False)
def _recheck(part: Part) -> Iterator[Command]:
    """The operation of `recheck`, which changes nothing itself; `part` are the left-out steps."""
    if not (state.is_executing and part.steps):
        host.noop("its steps say so themselves")
        return
    mine = ctx_host.get()
    with looking(mine):
        wanted = any(True for step in part.steps.values() for _ in step.command_generator())
    if has_failed(mine):
        yield from fail_step()
        return
    if wanted:
        yield from _done(mine, part)
    host.noop("as it was read")


def _done(mine: Host, part: Part) -> Iterator[Command]:
    """Runs every step of the part in order; ends this host's run if one of them fails."""
    state.ops[mine].update(part.steps)
    for key in part.steps:
        log_operation_start(state.get_op_meta(key), op_types=["nested"], prefix="")
        if not run_host_op(mine.state, mine, key):
            yield from fail_step()
            return


def when_prepared(callback: Callable[..., None], *arguments: Any) -> None:
    """Makes `leave_out_unchanged` call `callback`, so that its facts join the verb's other facts of the host."""
    _callbacks.setdefault(ctx_host.get(), []).append(partial(callback, *arguments))


def leave_out_unchanged() -> None:
    """Leaves out the host's steps if no step would change the host, else its rechecks. Must come last in a verb."""
    mine = ctx_host.get()
    if state.is_executing or has_failed(mine):
        return
    parts, ours = _parts.get(mine, {}), steps_of(mine)
    with looking(mine):
        wants_nothing = not any(meta.will_change for meta in ours.values())
    if has_failed(mine):
        return
    for callback in _callbacks.pop(mine, []):
        callback()
    if not parts:
        return
    fact_batch.of(mine).wants_nothing = wants_nothing
    if not wants_nothing:
        for key in parts:
            _leave_out(mine, key)
        return
    left_out = dict[str, Any]()
    for key in list(mine.op_hash_order):
        if key in ours:
            left_out[key] = _leave_out(mine, key)
        elif key in parts:
            parts[key].steps, left_out = left_out, {}
    assert not left_out, "a step stands after the last recheck"


def _leave_out(mine: Host, key: str) -> Any:
    """Removes an operation from the host's run; returns pyinfra's entry for the operation."""
    mine.op_hash_order.remove(key)
    counts = mine.state.get_meta_for_host(mine)
    counts.ops, counts.ops_no_change = counts.ops - 1, counts.ops_no_change - 1
    return mine.state.ops[mine].pop(key)


_parts: WeakKeyDictionary[Host, dict[str, Part]] = WeakKeyDictionary()
_callbacks: WeakKeyDictionary[Host, list[Callable[[], None]]] = WeakKeyDictionary()
