"""Tokens in lines that no judge reads: exports, units, values of charts, variables of CI jobs."""

import re
from collections.abc import Iterator
from dataclasses import replace

from deploy.linter.findings import HIDDEN, Judged, masked
from deploy.linter.judge import judged as judged_text
from deploy.linter.release import Target
from deploy.linter.report import Checked, Report

KIND = "secret-in-words"
TOKEN = re.compile(
    r"(?<![\w-])(?:hf_[A-Za-z0-9]{20,}|nvapi-[\w-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|sk-[\w-]{32,})"
    r"|(?<=Bearer )[\w.~+/-]{20,}"
)
MOST_REPEATED = 8
"""Most different characters of an example such as hf_xxxxxxxx."""


def check(text: str, release: str = "") -> Report:
    """The report on pasted text: its mistakes, and the corrected text. Raises: a Refusal for an unknown `release`."""
    report = judged_text(text, release)
    if any(finding.kind == KIND for checked in report.checked for finding in checked.findings):
        return report
    secrets = tuple(_typed_secrets(text, report.target))
    known = report.checked if report.is_judged or not secrets else ()
    return replace(report, checked=(*secrets, *known))


def _typed_secrets(text: str, target: Target) -> Iterator[Checked]:
    """A finding for each line with a token of a known form."""
    for number, line in enumerate(text.split("\n"), 1):
        token = TOKEN.search(line)
        if token and len(set(token[0])) > MOST_REPEATED:
            judged = Judged()
            judged.add(
                KIND,
                "a token stands in this text: everyone who reads the file, or a shell's history, has it",
                seen=masked(line.replace(token[0], HIDDEN).strip())[:80],
                wanted="a variable, or a file that only its owner reads",
                attempt=f"take it out of line {number}, and make a new one: this one was seen",
            )
            yield Checked(where=f"line {number}", target=target, findings=tuple(judged.findings))
