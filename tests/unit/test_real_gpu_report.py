"""A run on a borrowed machine always leaves a report, even if steps raise, are interrupted, or run twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal.real_gpu.report import CUT, STEPS, main, merged, records, step, text

HERE = {"cpu": "a cpu"}
RECORDS = st.builds(
    lambda name, began, ok: {"step": name, "began": began, "seconds": 1.0, "ok": ok, "found": {}, "machine": HERE},
    st.sampled_from([*STEPS[:3], "another"]),
    st.sampled_from(["2026-11-23T10:00:00", "2026-11-23T11:00:00"]),
    st.booleans(),
)
SITTINGS = st.lists(st.lists(RECORDS, max_size=4), max_size=4)


def read(folder: Path, name: str) -> dict[str, Any]:
    """The record of a step."""
    return dict(json.loads((folder / f"step-{name}.json").read_text()))


def test_a_step_records_its_results(tmp_path: Path) -> None:
    with step("deploy", tmp_path, HERE) as figures:
        figures["operations"] = 73
    left = read(tmp_path, "deploy")
    assert (left["ok"], left["found"], left["machine"]) == (True, {"operations": 73}, HERE)
    assert "problem" not in left


def test_a_failing_step_keeps_its_message_and_results(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no card"), step("deploy", tmp_path, HERE) as figures:
        figures["operations"] = 12
        raise ValueError("no card")
    left = read(tmp_path, "deploy")
    assert (left["ok"], left["found"], left["problem"]) == (False, {"operations": 12}, "ValueError: no card")


def test_an_interrupted_step_is_marked_and_keeps_its_results(tmp_path: Path) -> None:
    with step("deploy", tmp_path, HERE) as figures:
        figures["operations"] = 12
        cut = read(tmp_path, "deploy")
    assert (cut["ok"], cut["found"], cut["problem"]) == (False, {"operations": 12}, CUT)


def test_a_step_that_ends_and_has_not_passed_is_not_ok(tmp_path: Path) -> None:
    with step("memory", tmp_path, HERE) as figures:
        figures["passed"] = False
    assert read(tmp_path, "memory")["ok"] is False


def test_the_newer_record_of_a_step_wins_and_the_order_is_that_of_the_run() -> None:
    old = {"step": "deploy", "began": "1", "ok": False}
    new, workspaces = old | {"began": "2", "ok": True}, {"step": "workspaces", "began": "3", "ok": True}
    report = merged([[new], [old, workspaces]], ["workspaces", "deploy", "remove"])
    assert report["steps"] == [workspaces, new]
    assert report["missing"] == ["remove"]


@given(SITTINGS)
def test_neither_order_nor_repetition_of_sittings_matters(sittings: list[list[dict[str, Any]]]) -> None:
    report = merged(sittings)
    assert merged(reversed(sittings)) == report
    assert merged([*sittings, *sittings]) == report
    assert merged([report["steps"], *sittings]) == report


def test_folders_and_an_earlier_report_make_one_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, name in enumerate(STEPS):
        with step(name, tmp_path / str(number % 2), HERE) as figures:
            figures["figure"] = number
    first, both = tmp_path / "first.json", tmp_path / "both.json"
    assert main([str(tmp_path / "0"), "--into", str(first)]) == 1
    assert main([str(first), str(tmp_path / "1"), "--into", str(both)]) == 0
    assert [record["step"] for record in records(both)] == list(STEPS)
    assert "missing: none" in capsys.readouterr().out


def test_the_table_shows_figures_and_problems() -> None:
    good = {"step": "deploy", "ok": True, "seconds": 137.04, "found": {"operations": 73, "stages": {"Driver": 3}}}
    good["found"] |= {"models": [{"model": "bge", "mib": 700, "plan": {}}]}
    bad = {"step": "smoke", "ok": False, "seconds": 1.0, "found": {}, "problem": "ValueError: no card\nand more"}
    assert text({"steps": [good, bad], "missing": ["smoke"]}).splitlines() == [
        "step    ok   seconds  found",
        "deploy  yes    137.0  operations 73",
        "smoke   NO       1.0  ValueError: no card",
        "missing: smoke",
        "deploy, models: model bge, mib 700",
    ]
