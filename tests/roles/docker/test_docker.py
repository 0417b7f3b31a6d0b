"""The docker role on hosts in every state, a data file for each; commands are compared whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from roles import docker
from roles._pyinfra.facts import HostFacts, Installed
from roles.docker.verify import docker_version
from tests.roles.cases import Case, cases, play

CASES = cases(Path(__file__).parent)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_exactly_these_commands_run(case: Case) -> None:
    assert play(case, docker.apply).commands == tuple(case.content["commands"])


@every_case
def test_only_these_operations_report_a_change(case: Case) -> None:
    assert play(case, docker.apply).changed == tuple(case.content["changed"])


@every_case
def test_without_change_detection_the_same_commands_run(case: Case) -> None:
    assert play(case, docker.apply, detect_changes=False).commands == tuple(case.content["commands"])


@every_case
def test_dry_foresees_every_change(case: Case) -> None:
    assert set(case.content["changed"]) <= set(play(case, docker.apply, dry=True).would_change)


@pytest.mark.parametrize("case", [case for case in CASES if case.name.startswith("done")], ids=lambda case: case.name)
def test_dry_foresees_nothing_on_a_finished_host(case: Case) -> None:
    assert play(case, docker.apply, dry=True).would_change == ()


@pytest.mark.parametrize("case", [case for case in CASES if case.name.startswith("done")], ids=lambda case: case.name)
def test_a_finished_host_is_asked_once_in_each_phase(case: Case) -> None:
    assert [heard.executing for heard in play(case, docker.apply).shell["host"]] == [False, True]


@pytest.mark.parametrize("case", [case for case in CASES if "told" in case.content], ids=lambda case: case.name)
def test_a_refusal_fails_the_host_with_this_message(case: Case) -> None:
    ran = play(case, docker.apply)
    assert (ran.failed_hosts, f"[@fake/host] {case.content['told']}" in ran.log) == (("host",), True)


@every_case
def test_only_cases_with_a_refusal_fail(case: Case) -> None:
    assert play(case, docker.apply).failed_hosts == (("host",) if "told" in case.content else ())


@pytest.mark.parametrize(
    ("packages", "daemon_version", "version"),
    [
        ({"docker-ce": "5:28.3.2-1~debian.12~bookworm"}, "", "28.3.2"),
        ({"docker.io": "26.1.5+dfsg1-9+b7"}, "", "26.1.5"),
        ({}, "Docker version 25.0.3, build 4debf41", "25.0.3"),
        ({}, "", ""),
    ],
)
def test_the_version_is_the_packages_or_the_daemons(
    packages: dict[str, str], daemon_version: str, version: str
) -> None:
    seen = HostFacts(
        packages={name: Installed(package_version) for name, package_version in packages.items()},
        values={"docker": daemon_version},
    )
    assert docker_version(seen) == version
