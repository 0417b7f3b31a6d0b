"""Mistakes that operators made, each with its right answer: the kinds of its refusals, or a plan with a note.

`operators.txt` and `operators_drawn.txt` hold mistakes, `operators_real.txt` inventories of real operators: a common
beginning, then `=== NAME | MISTAKE | ANSWER` and the rest of each. The drawn mistakes were invented by kind, in
November 2026, before the plan's answers were known: of `g`, 46 of 55 answers were right at first, 4 were poor and 5
mistakes were accepted; of `h`, which came later, 22 of 27, 4 and 1; of `k`, 43 of 90, 42 and 5; of `l`, 33 of 60, 25
and 2; of `t`, 19 of 30, 11 and 0; of `v`, 16 of 20, 4 and 0; of `w`,
15 of 40, 19 and 6; of `y`, 62 of 72, 9 and 0, and one
ended with a traceback; of `z`, 21 of 28, 7 and 0; of `n` and its like, 46 of 51, 5
and 0; of `p`, 24 of 68, 40 and 4; of `q`, 13 of 30, 17 and 0. Those of `u` were accepted before, as a walk over every
field of the spec had shown. Of the right inventories in `s`, 23 of 24 were accepted. ` => ` in an answer is followed
by the hint's beginning. The answer `planned` means that nothing is wrong, or that only a host or a file can show it.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from deploy.cli.knobs import knobs
from deploy.io.inventory import load_plan
from deploy.refusals.errors import Refusal, Refusals
from tests.unit.samples import TODAY

HERE = Path(__file__).parent
BEGINNING, *MISTAKES = (HERE / "operators.txt").read_text("utf-8").split("\n=== ")
_, *REAL = (HERE / "operators_real.txt").read_text("utf-8").split("\n=== ")
DRAWN_BEGINNING, *DRAWN = (HERE / "operators_drawn.txt").read_text("utf-8").split("\n=== ")
CASES = [
    (*section.partition("\n")[0].split(" | ", 2), f"{beginning}\n{section.partition(chr(10))[2]}")
    for beginning, sections in ((BEGINNING, (*MISTAKES, *REAL)), (DRAWN_BEGINNING, DRAWN))
    for section in sections
]


class Today(date):
    """A day before the end of support of the inventories' releases and drivers."""

    @classmethod
    def today(cls) -> Today:
        return cls(TODAY.year, TODAY.month, TODAY.day)


@pytest.mark.parametrize(("name", "mistake", "answer", "text"), CASES, ids=[case[0] for case in CASES])
def test_a_mistake_has_its_right_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mistake: str, answer: str, text: str
) -> None:
    """The inventory is read from a file, as by `enginehouse plan`; every refusal has a text to type."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("deploy.io.local_weights.date", Today)
    for variable in ("GPU_HOST", "PORT"):
        monkeypatch.delenv(variable, raising=False)
    Path(f"{name}.py").write_text(text, "utf-8")
    try:
        plan = load_plan(f"{name}.py", (), (), knobs())
    except Refusal as refusal:
        problems = refusal.problems if isinstance(refusal, Refusals) else (refusal,)
        kinds, _, hint = answer.partition(" => ")
        assert " ".join(dict.fromkeys(problem.kind for problem in problems)) == kinds, mistake
        assert problems[0].attempt.startswith(hint)
        assert all({"where", "seen", "wanted"} <= problem.facts.keys() and problem.attempt for problem in problems)
    else:
        verdict, _, note = answer.partition(": ")
        assert verdict == "planned", f"believed: {mistake}"
        assert note in "\n".join(plan.warnings)
