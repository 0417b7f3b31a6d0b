"""A machine that others changed before the first deploy: refused, repaired, deployed to."""

from __future__ import annotations

import pytest

from rehearsal.pyinfra_run import Run
from tests.faults.scene import WELL, Scene, named

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]


Refused = tuple[Run, set[str], list[str]]


@pytest.fixture(scope="module")
def untouched(bare: Scene) -> tuple[set[str], list[str]]:
    """Returns the doctor's findings on a machine in its delivered state, and the files written meanwhile."""
    bare.mark()
    return bare.diagnosed(past=True, typed=True), bare.written()


@pytest.fixture(scope="module")
def runfile(bare: Scene, untouched: tuple[set[str], list[str]]) -> Refused:
    """Returns a run against a driver from the runfile, the doctor's findings, and the files written by both."""
    with (fault := named("foreign-driver")).on(bare.machine):
        bare.mark()
        return bare.deploy(fault=fault), bare.diagnosed(drift=True), bare.written()


@pytest.fixture(scope="module")
def docker(bare: Scene, runfile: Refused) -> tuple[Run, set[str], str]:
    """Returns a run against the distribution's Docker, the doctor's findings, and the Docker packages afterwards."""
    with (fault := named("foreign-docker")).on(bare.machine):
        run, findings = bare.deploy(fault=fault), bare.diagnosed(drift=True)
        installed = r"dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' docker.io docker-ce | grep ^ii"
        return (
            run,
            findings,
            bare.machine.run(f"{installed}; ls /etc/apt/sources.list.d | grep enginehouse; true").stdout,
        )


def test_the_doctor_reports_nothing_deployed_on_a_bare_machine_and_writes_nothing(
    untouched: tuple[set[str], list[str]],
) -> None:
    assert untouched == ({"nothing-deployed"}, [])


def test_a_driver_from_the_runfile_is_refused(runfile: Refused) -> None:
    run, findings, _ = runfile
    assert run.code == 1
    assert "fault: the driver came from NVIDIA's runfile" in run.output
    assert "nvidia-uninstall on the host, and reboot" in run.output, "no driver is loaded that could stay"
    assert findings == {"nothing-deployed", *named("foreign-driver").finds}


def test_a_refused_deploy_changes_nothing(runfile: Refused) -> None:
    run, _, written = runfile
    assert "state   preflight; no host was changed" in run.output
    assert written == []


def test_another_docker_is_refused_before_the_first_change_and_stays(docker: tuple[Run, set[str], str]) -> None:
    run, findings, left = docker
    assert run.code == 1
    assert "fault: another Docker is installed: docker.io" in run.output
    assert "state   preflight; no host was changed" in run.output
    assert (findings, left) == ({"nothing-deployed", *named("foreign-docker").finds}, "ii docker.io\n")


def test_a_deploy_succeeds_once_both_obstacles_are_removed(bare: Scene, docker: tuple[Run, set[str], str]) -> None:
    assert bare.ends_well() == WELL
