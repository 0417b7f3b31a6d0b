"""All noted facts of a host in a single command; each role still reads its own typed answer.

pyinfra spends 5.7 ms of CPU on a fact, and a finished host was asked 27 (3.10.0, 2026-11-22). A fact is noted when a
role makes its `CachedFact`, before the first fact is asked. The first asked fact brings the answers of all noted ones.
An answer is valid for at most FRESH_SECONDS, within one phase of pyinfra, and until the run changes the host.

The first answers include the host's uptime at their beginning. If no other run held the host since (lock.py), the
answers of a host without changes are valid in the next phase too: it is asked once, not twice.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any
from weakref import WeakKeyDictionary

from gevent.lock import BoundedSemaphore
from pyinfra.api import FactBase, Host, StringCommand
from pyinfra.api.exceptions import FactProcessError
from pyinfra.context import ctx_host

from roles._pyinfra.answers import MALFORMED
from roles._pyinfra.hold import now

FRESH_SECONDS = 30
LONGEST_SCRIPT = 90_000
"""Bytes of a command: Linux accepts 131,072 in one word, and quoting makes the command longer."""
END = "@enginehouse-answer"
_ENDS = re.compile(END + r" ([0-9]{1,4}) ([0-9]{1,3})")
BEGAN = "@enginehouse-began"
_BEGINS = re.compile(BEGAN + r" ([0-9]{1,12}[.][0-9]{1,9})")
UPTIME = -1
"""Number of the answer with the uptime, which no fact has: seconds since boot at the command's beginning."""


@dataclass(frozen=True)
class FactCall:
    """A fact with its arguments."""

    fact: Any
    arguments: Mapping[str, Any]

    @property
    def command(self) -> str:
        """The shell command that asks only this fact, in the shell that it needs."""
        fact = self.fact()
        return f"{fact.shell_executable or 'sh'} -c {quote(str(fact.command(**self.arguments)))}"

    def read(self, lines: list[str]) -> Any:
        """The answer in the lines that the host printed; the fact's default if the host printed no line."""
        fact = self.fact()
        return fact.process(lines) if lines else fact.default()


class Script(StringCommand):
    """A bash command that asks `calls` in parallel and prints the answers in their order.

    The words `prefix` precede every command except the first.
    """

    def __init__(self, calls: Sequence[FactCall], prefix: str = "") -> None:
        self.calls, self.prefix = calls, prefix
        commands = (
            # The mark follows a line end, because some answers do not end with one.
            f"exec {{a{number}}}< <({prefix if number else ''}{call.command} </dev/null;"
            f" printf '\\n{END} %s %s\\n' {number} $?)"
            for number, call in enumerate(calls)
        )
        answers = (f"/dev/fd/$a{number}" for number in range(len(calls)))
        begin = f"read -r up _ </proc/uptime; echo {BEGAN} $up"
        super().__init__("; ".join([begin, *commands, f"exec cat {' '.join(answers)}"]))


@dataclass(frozen=True)
class Batch:
    """Facts that one command asks together. Its text is short, because pyinfra's log prints the arguments of a fact."""

    calls: tuple[FactCall, ...]
    prefix: str = ""

    def __str__(self) -> str:
        return f"{len(self.calls)} questions"


class Together(FactBase[dict[int, list[str]]]):
    """The printed lines of each fact, by its number; failed facts are left out."""

    default = dict
    shell_executable = "bash"  # every Debian and Ubuntu has bash, and the lock needs it too

    def command(self, batch: Batch) -> Script:
        return Script(batch.calls, batch.prefix)

    def process(self, output: list[str]) -> dict[int, list[str]]:
        """The output of each fact, split at the marks between them."""
        answers, lines = dict[int, list[str]](), list[str]()
        for line in output:
            if not answers and not lines and (begins := _BEGINS.fullmatch(line)):
                answers[UPTIME] = [begins[1]]
                continue
            if not (ended := _ENDS.fullmatch(line)):
                lines.append(line)
                continue
            if ended[2] == "0":
                answers[int(ended[1])] = lines[:-1] if lines[-1:] == [""] else lines
            lines = []
        return answers


@dataclass
class FactCache:
    """Facts to ask of a host in this run, and its recent answers."""

    wants_nothing: bool = False
    """True if no step would change the host: its facts are then asked together during execution, too."""
    _noted: list[FactCall] = field(default_factory=list)
    _answers: list[tuple[FactCall, Any]] = field(default_factory=list)
    _tried: list[FactCall] = field(default_factory=list)
    _executing: bool = False
    _since: float = 0.0
    _was_asked: bool = False
    _uptime: float | None = None
    """The host's uptime before the oldest of the answers; None if that answer was not part of a batch."""
    _turn: BoundedSemaphore = field(default_factory=BoundedSemaphore)

    def note(self, fact: Any, arguments: Mapping[str, Any]) -> None:
        """Notes a fact for the next batch; a fact with another user or other settings of pyinfra is asked
        separately."""
        call = FactCall(fact, arguments)
        if call not in self._noted and not any(name.startswith("_") for name in arguments):
            self._noted.append(call)

    def forget(self) -> None:
        """Drops the answers after a change of the host; from then on facts are asked one by one."""
        self.wants_nothing, self._uptime = False, None
        self._answers.clear()

    def stand(self, last_ended: float | None) -> None:
        """Keeps the answers of a host without changes while this run executes, if the last run ended before the answers
        began.

        `last_ended` is the host's uptime at the end of that run; None if unknown.
        """
        if last_ended is None or self._uptime is None:
            return
        if self.wants_nothing and last_ended < self._uptime:
            self._executing = True

    def enter(self, first: FactCall, more: Sequence[FactCall], prefix: str, load: Callable[..., Any]) -> Any:
        """The answer to the host's first fact; the answers to `more`, asked after the words `prefix`, are cached."""
        with self._turn:
            self._begin(executing=False)
            return self._ask([first, *more], load, prefix).get(0, first.read([]))

    def answer(self, call: FactCall, executing: bool, load: Callable[..., Any]) -> Any:
        with self._turn:
            self._begin(executing)
            together = self.wants_nothing or not executing
            while together and call in self._noted and not self._known(call) and call not in self._tried:
                self._load(load)
            for known, answer in self._answers:
                if known == call:
                    return answer
            self._was_asked = True
            answer = load(call.fact, **call.arguments)
            if not executing:
                self._answers.append((call, answer))
            return answer

    def _begin(self, executing: bool) -> None:
        if executing != self._executing or now() - self._since > FRESH_SECONDS:
            self._answers.clear()
            self._tried.clear()
            self._executing, self._since = executing, now()
            self._was_asked, self._uptime = False, None

    def _known(self, call: FactCall) -> bool:
        return any(known == call for known, _ in self._answers)

    def _load(self, load: Callable[..., Any]) -> None:
        """Asks as many of the noted facts as one command can hold."""
        batch, size = list[FactCall](), 0
        for call in self._noted:
            if self._known(call) or call in self._tried:
                continue
            size += len(call.command)
            if batch and size > LONGEST_SCRIPT:
                break
            batch.append(call)
        self._tried += batch
        if len(batch) > 1:
            self._ask(batch, load)

    def _ask(self, batch: Sequence[FactCall], load: Callable[..., Any], prefix: str = "") -> dict[int, Any]:
        """The available answers by number; they are cached for later facts."""
        how = {"_sudo": False} if prefix else {}  # the prefix is already a sudo command
        is_first, self._was_asked = not self._was_asked, True
        printed: dict[int, list[str]] = load(Together, batch=Batch(tuple(batch), prefix), **how)
        if (uptime := printed.pop(UPTIME, [])) and is_first:
            self._uptime = float(uptime[0])
        answers = dict[int, Any]()
        for number, call in enumerate(batch):
            try:
                if number in printed:
                    answers[number] = call.read(printed[number])
            except (FactProcessError, *MALFORMED):
                continue  # the fact reports its own error when it is asked alone
        self._answers += [(batch[number], answer) for number, answer in answers.items()]
        return answers


def of(host: Host) -> FactCache:
    return _caches.setdefault(host.state.inventory.get_host(host.name), FactCache())


def note(fact: Any, **arguments: Any) -> None:
    if ctx_host.isset() and not ctx_host.get().state.is_executing:
        of(ctx_host.get()).note(fact, arguments)


def early(fact: Any) -> None:
    """Registers a fact without arguments that serving hosts are asked before their steps can be named."""
    _early.append(fact)


def early_calls() -> list[FactCall]:
    return [FactCall(fact, {}) for fact in _early]


_caches: WeakKeyDictionary[Host, FactCache] = WeakKeyDictionary()
_early: list[Any] = []
