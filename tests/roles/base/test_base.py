"""The base role on hosts in every state, a data file for each; commands are compared whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from roles import base
from roles.base import defaults
from roles.docker import defaults as docker_defaults
from roles.triton.operations import NEEDRESTART_CONTENT as LLMS
from tests.roles.cases import Case, cases, play

REPOSITORY = Path(__file__).parents[3]
CASES = cases(Path(__file__).parent)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_exactly_these_commands_run(case: Case) -> None:
    assert play(case, base.apply).commands == tuple(case.content["commands"])


@every_case
def test_only_these_operations_report_a_change(case: Case) -> None:
    assert play(case, base.apply).changed == tuple(case.content["changed"])


@every_case
def test_without_change_detection_the_same_commands_run(case: Case) -> None:
    assert play(case, base.apply, detect_changes=False).commands == tuple(case.content["commands"])


@every_case
def test_dry_foresees_every_change(case: Case) -> None:
    assert set(case.content["changed"]) <= set(play(case, base.apply, dry=True).would_change)


@pytest.mark.parametrize("case", [case for case in CASES if case.name.startswith("done")], ids=lambda case: case.name)
def test_dry_foresees_nothing_on_a_finished_host(case: Case) -> None:
    assert play(case, base.apply, dry=True).would_change == ()


@pytest.mark.parametrize("case", [case for case in CASES if case.name.startswith("done")], ids=lambda case: case.name)
def test_a_finished_host_is_asked_once_in_each_phase(case: Case) -> None:
    assert [heard.executing for heard in play(case, base.apply).shell["host"]] == [False, True]


@pytest.mark.parametrize("case", [case for case in CASES if "told" in case.content], ids=lambda case: case.name)
def test_a_refusal_fails_the_host_with_this_message(case: Case) -> None:
    ran = play(case, base.apply)
    assert (ran.failed_hosts, f"[@fake/host] {case.content['told']}" in ran.log) == (("host",), True)


@every_case
def test_only_cases_with_a_refusal_fail(case: Case) -> None:
    assert play(case, base.apply).failed_hosts == (("host",) if "told" in case.content else ())


def test_needrestart_restarts_no_unit_that_is_shipped() -> None:
    """An upgraded library must not interrupt a unit's requests or a running swap."""
    contents = defaults.NEEDRESTART_CONTENT + docker_defaults.NEEDRESTART_CONTENT + LLMS
    patterns = re.findall(r"qr\((\S+?)\)}", contents)
    units = [path.name for path in (REPOSITORY / "files/units").glob("*.service")]
    assert len(units) > 10
    assert [unit for unit in units if not any(re.match(pattern, unit) for pattern in patterns)] == []
