"""The MIG role on hosts in every state, a data file for each; commands are compared whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles import mig
from tests.roles.cases import Case, cases, play

CASES = cases(Path(__file__).parent)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_exactly_these_commands_run(case: Case) -> None:
    assert play(case, mig.apply).commands == tuple(case.content["commands"])


@every_case
def test_only_these_operations_report_a_change(case: Case) -> None:
    assert play(case, mig.apply).changed == tuple(case.content["changed"])


@every_case
def test_without_change_detection_the_same_commands_run(case: Case) -> None:
    assert play(case, mig.apply, detect_changes=False).commands == tuple(case.content["commands"])


@every_case
def test_dry_foresees_every_change(case: Case) -> None:
    assert set(case.content["changed"]) <= set(play(case, mig.apply, dry=True).would_change)


@pytest.mark.parametrize("case", [case for case in CASES if case.name.startswith("done")], ids=lambda case: case.name)
def test_dry_foresees_nothing_on_a_finished_host(case: Case) -> None:
    assert play(case, mig.apply, dry=True).would_change == ()


@pytest.mark.parametrize("case", [case for case in CASES if case.name.startswith("done")], ids=lambda case: case.name)
def test_a_finished_host_is_asked_once_in_each_phase(case: Case) -> None:
    assert [heard.executing for heard in play(case, mig.apply).shell["host"]] == [False, True]


@pytest.mark.parametrize("case", [case for case in CASES if "told" in case.content], ids=lambda case: case.name)
def test_a_refusal_fails_the_host_with_this_message(case: Case) -> None:
    ran = play(case, mig.apply)
    assert (ran.failed_hosts, f"[@fake/host] {case.content['told']}" in ran.log) == (("host",), True)


@every_case
def test_only_cases_with_a_refusal_fail(case: Case) -> None:
    assert play(case, mig.apply).failed_hosts == (("host",) if "told" in case.content else ())
