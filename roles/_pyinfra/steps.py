"""The operation of most roles: it turns a fact and the wanted state into the commands for the difference.

pyinfra asks the facts of every stock operation again, in prepare and in execute: forty operations on a finished host
are some two hundred round trips without a result. Here a role asks one fact (`CachedFact`), pure functions turn the
answer into commands, and `step` runs them. So a finished host costs all roles one round trip per phase (fact_batch.py),
its steps can be left out (quiet.py), and the decisions are tested without pyinfra. Two properties of stock operations
are kept: a step without commands counts as unchanged, and `--dry` is correct.
"""

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

from pyinfra import host, logger, state
from pyinfra.api import FunctionCommand, Host, QuoteString, State, StringCommand, operation
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.operation import OperationMeta
from pyinfra.context import ctx_host

from deploy.refusals import Refusal
from roles._pyinfra import fact_batch
from roles._pyinfra.answers import MALFORMED, unanswered, unreadable

T = TypeVar("T")
Answer = TypeVar("Answer", covariant=True)
Command: TypeAlias = str | PyinfraCommand
ANSWER_SECONDS = 300
"""Seconds for a host's answer to one question. Every question takes seconds at most, because long work runs in units
(units.py)."""


before_acting: WeakKeyDictionary[Host, PyinfraCommand] = WeakKeyDictionary()
"""Action before the first command of a host's steps; a gate sets the action (roles.rollout). If the host may not act
now, the action fails, and the step's commands do not run. Hosts without commands skip the action."""


class Fact(Protocol[Answer]):
    """Members of a pyinfra fact, typed by its answer: mypy sees `FactBase[T]` as Any.

    `default` is missing, because it is a class in some facts and a static method in others, and a protocol can declare
    only one.
    """

    name: str

    def process(self, output: list[str]) -> Answer: ...


class Answers(Protocol[Answer]):
    """Source of a step's answers: a `CachedFact`, or an object with the same two methods."""

    def now(self) -> Answer:
        """The answer, no older than the last change made through this object."""
        ...

    def forget(self) -> None: ...


def ask(target: Host, fact: type[Fact[T]], **arguments: Any) -> T:
    """The answer of a fact on a host; the fact's default without an answer in time, and then only that host fails.

    pyinfra would wait for ever, with all other hosts: a process that hangs in the driver (state D) keeps its connection
    alive. pyinfra also continues to prepare a host that has failed, and all others wait for it, so it gets no further
    facts.
    """
    executing = bool(target.state.is_executing)
    return cast(T, fact_batch.of(target).answer(fact_batch.FactCall(fact, arguments), executing, partial(load, target)))


def load(target: Host, fact: type[Fact[T]], **arguments: Any) -> T:
    """The answer, asked over the connection even if the host has answered before. An unreadable answer fails the
    host."""
    if has_failed(target):
        return cast(T, cast(Any, fact).default())
    began = time.monotonic()
    try:
        return cast(T, target.get_fact(fact, _timeout=ANSWER_SECONDS, **arguments))
    except MALFORMED as error:
        Refuse(unreadable(str(fact.name), error, bool(target.state.is_executing))).log(target)
        target.state.fail_hosts({target.state.inventory.get_host(target.name)})
        return cast(T, cast(Any, fact).default())
    finally:  # `fail_hosts` raises if no host is left
        if has_failed(target) and time.monotonic() - began >= ANSWER_SECONDS:
            Refuse(unanswered(fact, ANSWER_SECONDS, bool(target.state.is_executing))).log(target)


def has_failed(target: Host) -> bool:
    """True if pyinfra has given up this host: its answers are then defaults, on which no step may act."""
    return target in target.state.failed_hosts


@dataclass
class CachedFact(Generic[T]):
    """The answer of a fact on this host: asked at first use in each phase, and again after a step with a change."""

    fact: type[Fact[T]]
    arguments: dict[str, Any] = field(default_factory=dict)
    _answer: T | None = None
    _was_executing: bool | None = None

    def __post_init__(self) -> None:
        fact_batch.note(self.fact, **self.arguments)

    def now(self) -> T:
        """The answer, no older than the last change made through this object."""
        executing = bool(state.is_executing)
        if self._was_executing != executing:
            self._answer = ask(host, self.fact, **self.arguments)
            self._was_executing = executing
        return cast(T, self._answer)

    def forget(self) -> None:
        self._was_executing = None


def step(
    fact: Answers[T],
    decide: Callable[[T], Iterable[Command]],
    after: Sequence[OperationMeta] = (),
    only_after: Sequence[OperationMeta] = (),
    *,
    name: str,
) -> OperationMeta:
    """The commands that `decide` returns for the answer of `fact`; no command means no change.

    `after`: steps whose effect `decide` must see. Before they run its result may be premature, so `--dry` reports a
    change if one of them would change. `only_after`: act only if one of these did change; unlike with `_if`, `--dry` is
    correct. Both are read when the step runs, so a list must not grow afterwards: a step in its own `after` would
    recurse for ever.
    """
    return _kept(_step(fact, decide, after, only_after, name=name))


@operation()
def _step(
    fact: Answers[T],
    decide: Callable[[T], Iterable[Command]],
    after: Sequence[OperationMeta],
    only_after: Sequence[OperationMeta],
) -> Generator[Command, None, None]:
    """The operation of `step`."""
    if only_after and not any_changed(only_after):
        host.noop("nothing it follows has changed")
        return
    if not state.is_executing and any_changed([*after, *only_after]):
        yield "true"  # never run: during prepare it only announces a change
        return
    answer = fact.now()
    if has_failed(host):
        yield from fail_step()
        return
    commands = _read(decide, answer)
    if not commands:
        host.noop("as wanted")
    elif ctx_host.get() in _looked_at:
        yield "true"  # never run: `looking` only asks if the step has changes
        return
    elif state.is_executing and (first := before_acting.pop(ctx_host.get(), None)):
        yield first
    for command in commands:
        if isinstance(command, Refuse) and not state.is_executing:
            command.log(host)
        yield command
    if commands:
        fact.forget()
        fact_batch.of(host).forget()


def check(
    fact: Answers[T], judge: Callable[[T], Iterable[Command]], after: Sequence[OperationMeta] = (), *, name: str
) -> OperationMeta:
    """Refuses if `judge` refuses, and never counts as a change; `--dry` judges only if `after` changes nothing."""
    return _kept(_check(fact, judge, after, name=name))


@operation()
def _check(
    fact: Answers[T], judge: Callable[[T], Iterable[Command]], after: Sequence[OperationMeta]
) -> Generator[Command, None, None]:
    """The operation of `check`."""
    if not state.is_executing and any_changed(after):
        host.noop("is known only after the steps before it")
        return
    answer = fact.now()
    if has_failed(host):
        yield from fail_step()
        return
    problems = _read(judge, answer)
    for problem in problems:
        if isinstance(problem, Refuse) and not state.is_executing and ctx_host.get() not in _looked_at:
            problem.log(host)
        yield problem
    if not problems:
        host.noop("verified")


def _read(decide: Callable[[T], Iterable[Command]], answer: T) -> list[Command]:
    """The commands for an answer; the refusal of an answer that `decide` cannot read."""
    try:
        return list(decide(answer))
    except MALFORMED as error:
        return [Refuse(unreadable(type(answer).__name__, error, bool(state.is_executing)))]


def fail_step() -> Iterator[FunctionCommand]:
    """Fails this host's step; the reason was logged before. Acting on a default could stop a running server."""

    def unanswered(state: State, host: Host) -> bool:
        return False

    yield FunctionCommand(unanswered, (), {})


class Refuse(FunctionCommand):
    """A command that changes nothing and fails only this host, with the refusal as its message; `--dry` shows it too.

    A raised refusal would stop every host, in prepare and in execute (pyinfra 3.10.0).
    """

    def __init__(self, problem: Refusal) -> None:
        self.problem = problem
        super().__init__(self._fail, (), {})

    def log(self, refused: Host) -> None:
        """Logs the message by lines under the host's name; each record also has the whole message, because several
        hosts may log the same."""
        log_line = partial(logger.error, extra={"refusal": str(self.problem)})
        for line in str(self.problem).splitlines():
            refused.log_styled(line, fg="red", log_func=log_line)

    def _fail(self, state: State, host: Host) -> bool:
        self.log(host)
        return False


def any_changed(steps: Iterable[OperationMeta]) -> bool:
    """True if one of `steps` changed this host; in prepare, if one of them would."""
    if state.is_executing:
        finished = (step for step in steps if step.is_complete() or ctx_host.get() not in _looked_at)
        return any(step.did_change() for step in finished)
    return any(step.will_change for step in steps)


def steps_of(prepared: Host) -> dict[str, OperationMeta]:
    return dict(_steps.get(prepared, {}))


@contextlib.contextmanager
def looking(at: Host) -> Iterator[None]:
    """While this context lasts, the host's steps only report whether they have changes: no log, and no acting gate."""
    _looked_at.add(at)
    try:
        yield
    finally:
        _looked_at.discard(at)


def _kept(made: OperationMeta) -> OperationMeta:
    _steps.setdefault(ctx_host.get(), {})[made._hash] = made
    return made


_steps: WeakKeyDictionary[Host, dict[str, OperationMeta]] = WeakKeyDictionary()
_looked_at: WeakSet[Host] = WeakSet()


def write(path: str, content: str, mode: str = "0644", then: str = "") -> StringCommand:
    """The command after which `path` holds `content`, replaced by rename, so that no reader ever sees half of it.

    `then` follows if the file was replaced, also if the control process is killed in between: a separate command would
    be forgotten, because the next run finds the file as wanted.

    The content is on the disk before the rename, because a power cut could otherwise leave an empty file. The content's
    size is checked: if the control process is killed while sending, `cat` succeeds with a part of the content.
    """
    assert content.endswith("\n"), "standard input is sent line by line"
    new = f"{path}.enginehouse-new"
    return StringCommand(
        *("mkdir -p", QuoteString(path.rsplit("/", 1)[0]), "&& cat >", QuoteString(new)),
        *("&& test $(stat -c %s", QuoteString(new), f") = {len(content.encode())}"),
        *("&& chmod", mode, QuoteString(new), "&& sync", QuoteString(new)),
        *("&& mv -T", QuoteString(new), QuoteString(path)),
        *(("&&", then) if then else ()),
        _stdin=content,
    )
