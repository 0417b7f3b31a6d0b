"""Lines about nothing wrong give no finding, even in the log of a server that failed: tests/unit/harmless_lines.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.doctored import examined, ids
from tests.unit.test_log_lines import caused, in_kernel

_TEXT = Path(__file__).with_name("harmless_lines.txt").read_text("utf-8")
PROGRAMS = {
    title: [line for line in body.splitlines() if line]
    for title, _, body in (part.partition("\n") for part in _TEXT.split("\n### ")[1:])
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_line_about_nothing_wrong_gives_no_finding(program: str) -> None:
    """All harmless lines of a program are examined together."""
    lines = PROGRAMS[program]
    if program == "kernel":
        findings = ids(examined({"kernel-beside": in_kernel(lines)}))
    else:
        findings = [kind for kind in ids(caused("\n".join(lines))) if kind != "unit-failed"]
    assert (findings, len(lines) >= 60) == ([], True)
