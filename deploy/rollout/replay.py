"""Compares a new engine's answers with its checkpoint's, on the control machine, before the engine is signed.

Pure: it compares answers that a host made, greedily and with a fixed seed, with stored answers or with those of the
checkpoint itself. Two engines of one checkpoint may differ in a late token (another kernel, another rounding); an
engine that differs early and everywhere is broken. So the share of equal tokens decides, and the report shows the first
difference.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from deploy.refusals import Refusal
from deploy.slices.host import ReplaySlice

SHOWN = 3
STATE = "the engine is built and not signed, so no server loads it; running servers are not affected"


@dataclass(frozen=True)
class Answer:
    """The answer to one prompt. `kind` is "prompt", or "task" if a regular expression judges the answer."""

    prompt: str
    tokens: tuple[int, ...] = ()
    text: str = ""
    kind: str = "prompt"


@dataclass(frozen=True)
class Compared:
    """A prompt's expected and actual answer, and the position of their first difference, from 0 (None: equal)."""

    wanted: Answer
    answer: Answer

    @property
    def length(self) -> int:
        return max(len(self.wanted.tokens), len(self.answer.tokens))

    @property
    def equal(self) -> int:
        return sum(token == answer for token, answer in zip(self.wanted.tokens, self.answer.tokens, strict=False))

    @property
    def first_difference(self) -> int | None:
        """The position of the first token that differs."""
        pairs = zip(self.wanted.tokens, self.answer.tokens, strict=False)
        differing = next((at for at, (token, answer) in enumerate(pairs) if token != answer), None)
        shorter = min(len(self.wanted.tokens), len(self.answer.tokens))
        return differing if differing is not None else shorter if shorter < self.length else None


@dataclass(frozen=True)
class Task:
    """A prompt whose answer has to match a regular expression."""

    prompt: str
    expected: str
    answer: str

    @property
    def is_met(self) -> bool:
        return re.search(self.expected, self.answer) is not None


@dataclass(frozen=True)
class Verdict:
    """All comparisons, and the shares that have to be equal or met."""

    compared: tuple[Compared, ...]
    tasks: tuple[Task, ...]
    wanted: ReplaySlice

    @property
    def tokens(self) -> int:
        return sum(pair.length for pair in self.compared)

    @property
    def equal_percent(self) -> float:
        return _percent(sum(pair.equal for pair in self.compared), self.tokens)

    @property
    def met_percent(self) -> float:
        return _percent(sum(task.is_met for task in self.tasks), len(self.tasks))

    @property
    def is_good(self) -> bool:
        return self.equal_percent >= self.wanted.equal_percent and self.met_percent >= self.wanted.minimum_percent

    @property
    def sentence(self) -> str:
        """The result in one line."""
        equal = f"{self.equal_percent:.1f} % of {self.tokens:,} tokens equal ({self.wanted.equal_percent:.1f} % wanted)"
        if not self.tasks:
            return equal
        met = sum(task.is_met for task in self.tasks)
        return f"{equal}, {met} of {len(self.tasks)} tasks met ({self.wanted.minimum_percent:.1f} % wanted)"


def judge(wanted: Sequence[Answer], replies: Sequence[Answer], tasks: Sequence[tuple[str, str]], limits: ReplaySlice
          ) -> Verdict:  # fmt: skip
    """The verdict. `tasks` are (prompt, expected); an unanswered prompt counts as an empty answer."""
    prompts = {answer.prompt: answer for answer in replies if answer.kind == "prompt"}
    texts = {answer.prompt: answer.text for answer in replies if answer.kind == "task"}
    return Verdict(
        tuple(Compared(answer, prompts.get(answer.prompt, Answer(answer.prompt))) for answer in wanted),
        tuple(Task(prompt, expected, texts.get(prompt, "")) for prompt, expected in tasks),
        limits,
    )


def answers(text: str) -> list[Answer]:
    """The answers in JSON lines. Raises: ValueError, KeyError or TypeError for a line that is not an answer."""
    records = [json.loads(line) for line in text.splitlines() if line.strip()]
    return [
        Answer(str(record["prompt"]), tuple(int(token) for token in record["tokens"]), str(record.get("text", "")),
               str(record.get("kind", "prompt")))
        for record in records
    ]  # fmt: skip


def prompts(text: str) -> list[str]:
    """The prompts in JSON lines. Raises: ValueError, KeyError or TypeError for a line that is not a prompt."""
    return [str(json.loads(line)["prompt"]) for line in text.splitlines() if line.strip()]


def tasks(text: str) -> list[tuple[str, str]]:
    """(prompt, expected) of every line. Raises like `answers`, and re.error for a wrong pattern."""
    records = [json.loads(line) for line in text.splitlines() if line.strip()]
    return [(str(record["prompt"]), re.compile(str(record["expected"])).pattern) for record in records]


def regression(engine: str, verdict: Verdict) -> Refusal:
    """The refusal to sign an engine: the shares, and the prompts with the earliest differences."""
    parted = [pair for pair in verdict.compared if pair.first_difference is not None]
    worst = sorted(parted, key=lambda pair: pair.first_difference or 0)[:SHOWN]
    unmet = [task for task in verdict.tasks if not task.is_met][:SHOWN]
    facts = {"found": verdict.sentence}
    if verdict.equal_percent < verdict.wanted.equal_percent:
        for number, pair in enumerate(worst, start=1):
            facts |= _difference(number, pair)
    if verdict.met_percent < verdict.wanted.minimum_percent:
        for number, task in enumerate(unmet, start=1):
            facts |= {f"task {number}": _short(task.prompt), f"expects {number}": task.expected}
            facts |= {f"answer {number}": _short(task.answer)}
    return Refusal(
        f"{engine} does not answer as it should",
        facts=facts,
        attempt="another precision or calibration; or, if these answers are as good, new stored answers or a lower "
        "Replay.equal_percent",
        state=STATE,
        kind="replay-regression",
    )


def _difference(number: int, pair: Compared) -> dict[str, str]:
    at = pair.first_difference or 0
    where = f"token {at + 1} of {pair.length} differs first; {pair.equal} equal"
    return {
        f"prompt {number}": f"{_short(pair.wanted.prompt)}: {where}",
        f"wanted {number}": _around(pair.wanted, at),
        f"given {number}": _around(pair.answer, at),
    }


def _around(answer: Answer, at: int) -> str:
    before = " ".join(map(str, answer.tokens[max(0, at - 3) : at]))
    after = " ".join(map(str, answer.tokens[at : at + 5])) or "(ends)"
    tokens = f"{'… ' if at > 3 else ''}{before} [{after}]".strip()
    return f"{tokens}   {_short(answer.text)}" if answer.text else tokens


def _short(text: str, limit: int = 60) -> str:
    line = " ".join(text.split())
    return json.dumps(line if len(line) <= limit else f"{line[: limit - 1]}…", ensure_ascii=False)


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 100.0
