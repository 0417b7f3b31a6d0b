"""The output of `enginehouse check`: findings, notes and the corrected text; for people and for programs."""

from dataclasses import dataclass

from deploy.linter.findings import NEW_LINE, Finding
from deploy.linter.release import CHECKED, Target
from deploy.refusals import Refusal

WIDTH = 78
"""A right command longer than this goes over several lines."""

UNJUDGED = frozenset(["unknown-program", "unknown-file", "program-unread", "release-unread"])
"""Findings about a text that cannot be judged otherwise."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A command or file: its line, the findings, and the corrected lines."""

    where: str
    target: Target
    findings: tuple[Finding, ...] = ()
    right: tuple[str, ...] = ()
    is_file: bool = False

    @property
    def right_text(self) -> str:
        """The corrected text for pasting; empty if no correction exists."""
        if self.is_file:
            return "\n".join(self.right)
        on_one_line = " ".join(word for word in self.right if word != NEW_LINE)
        return on_one_line if len(on_one_line) <= WIDTH else " \\\n  ".join(_grouped(self.right))


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything about the pasted text; `passed_over` lists programs that the linter has no checks for."""

    target: Target
    checked: tuple[Checked, ...]
    passed_over: tuple[str, ...] = ()

    @property
    def is_fine(self) -> bool:
        return not any(finding.is_wrong for checked in self.checked for finding in checked.findings)

    @property
    def is_judged(self) -> bool:
        """True if the text has a program or a file that a judge knows, in a known release."""
        kinds = [{finding.kind for finding in checked.findings} for checked in self.checked]
        return not all(kinds_of_text & UNJUDGED for kinds_of_text in kinds)

    def __str__(self) -> str:
        findings = [(checked, finding) for checked in self.checked for finding in checked.findings]
        wrong = [str(refusal_of(*pair)) for pair in findings if pair[1].is_wrong]
        notes = [str(refusal_of(*pair)) for pair in findings if not pair[1].is_wrong]
        blocks = [self._summary(len(wrong)), *wrong]
        blocks += ["worth knowing", *notes] if notes else []
        blocks += [_right(checked) for checked in self.checked if any(row.is_wrong for row in checked.findings)]
        if self.passed_over:
            blocks.append(f"not judged: {', '.join(self.passed_over)}")
        return "\n\n".join(block for block in blocks if block) + "\n"

    def _summary(self, wrong: int) -> str:
        places = {checked.target.in_words: None for checked in self.checked} or {self.target.in_words: None}
        if not wrong and not self.is_judged:
            return "nothing was judged"
        count = {0: "nothing is wrong", 1: "1 thing is wrong"}.get(wrong, f"{wrong} things are wrong")
        return f"{count}; judged for {' and '.join(places)}"

    def to_json(self) -> dict[str, object]:
        return {
            "is_fine": self.is_fine,
            "release": self.target.name,
            "tensorrt_llm": self.target.trtllm,
            "checked": [
                {
                    "where": checked.where,
                    "release": checked.target.name,
                    "tensorrt_llm": checked.target.trtllm,
                    "findings": [
                        {**refusal_of(checked, finding).to_json(), "is_wrong": finding.is_wrong}
                        for finding in checked.findings
                    ],
                    "right": checked.right_text,
                }
                for checked in self.checked
            ],
            "passed_over": list(self.passed_over),
        }


def refusal_of(checked: Checked, finding: Finding) -> Refusal:
    """`finding` as a Refusal, with the place of its command or file."""
    facts = {"where": checked.where, "seen": finding.seen, "wanted": finding.wanted}
    return Refusal(finding.problem, facts=facts, attempt=finding.attempt, state=CHECKED, kind=finding.kind)


def _right(checked: Checked) -> str:
    head = f"right, for {checked.where}:"
    if not checked.right:
        return f"{head} there is no command with this effect; see above"
    return head + "\n" + "\n".join(f"  {line}".rstrip() for line in checked.right_text.split("\n"))


def _grouped(words: tuple[str, ...]) -> list[str]:
    """The command and its first words on one line, then one line for each option with its values."""
    lines: list[str] = []
    starts = True
    for word in words:
        if word == NEW_LINE:
            starts = True
        elif starts or word.startswith("-"):
            lines.append(word)
            starts = False
        else:
            lines[-1] += f" {word}"
    return lines
