"""The nvidia_driver role on hosts in every state, a data file for each; commands are compared whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles import nvidia_driver
from roles._pyinfra.facts import Installed
from roles.nvidia_driver.packages import origins
from tests.roles.cases import Case, cases, play

CASES = cases(Path(__file__).parent)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_exactly_these_commands_run(case: Case) -> None:
    assert play(case, nvidia_driver.apply).commands == tuple(case.content["commands"])


@every_case
def test_only_these_operations_report_a_change(case: Case) -> None:
    assert play(case, nvidia_driver.apply).changed == tuple(case.content["changed"])


@every_case
def test_without_change_detection_the_same_commands_run(case: Case) -> None:
    assert play(case, nvidia_driver.apply, detect_changes=False).commands == tuple(case.content["commands"])


@every_case
def test_dry_foresees_every_change(case: Case) -> None:
    assert set(case.content["changed"]) <= set(play(case, nvidia_driver.apply, dry=True).would_change)


@pytest.mark.parametrize("case", [case for case in CASES if case.name.startswith("done")], ids=lambda case: case.name)
def test_dry_foresees_nothing_on_a_finished_host(case: Case) -> None:
    assert play(case, nvidia_driver.apply, dry=True).would_change == ()


@pytest.mark.parametrize("case", [case for case in CASES if case.name.startswith("done")], ids=lambda case: case.name)
def test_a_finished_host_is_asked_once_in_each_phase(case: Case) -> None:
    assert [heard.executing for heard in play(case, nvidia_driver.apply).shell["host"]] == [False, True]


@pytest.mark.parametrize("case", [case for case in CASES if "told" in case.content], ids=lambda case: case.name)
def test_a_refusal_fails_the_host_with_this_message(case: Case) -> None:
    ran = play(case, nvidia_driver.apply)
    assert (ran.failed_hosts, f"[@fake/host] {case.content['told']}" in ran.log) == (("host",), True)


@every_case
def test_only_cases_with_a_refusal_fail(case: Case) -> None:
    assert play(case, nvidia_driver.apply).failed_hosts == (("host",) if "told" in case.content else ())


@pytest.mark.parametrize(
    ("name", "version", "publisher"),
    [
        ("nvidia-dkms-570-open", "570.133.20-0ubuntu0.24.04.1", "canonical"),
        ("nvidia-dkms-570-open", "570.133.20-0ubuntu1", "nvidia"),
        ("nvidia-dkms-570-open", "570.133.20-1ubuntu1", "nvidia"),
        ("nvidia-dkms-open", "595.45.04-1", "nvidia"),
        ("libnvidia-compute-580-server", "580.95.05-0ubuntu0.24.04.2", "canonical"),
    ],
)
def test_a_package_name_of_two_publishers_is_distinguished_by_version(name: str, version: str, publisher: str) -> None:
    """Canonical's desktop drivers have the same names as those of NVIDIA's repository for Ubuntu."""
    assert origins({name: Installed(version)}) == {publisher}
