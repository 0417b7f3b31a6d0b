"""A machine that other hands have been at before the first deploy: refused, mended, deployed to."""

from __future__ import annotations

import pytest

from rehearsal.pyinfra_run import Run
from tests.faults.scene import WELL, Scene, named

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]


@pytest.fixture(scope="module")
def runfile(bare: Scene) -> tuple[Run, list[str]]:
    """A run against a driver from the runfile, and what was written."""
    bare.mark()
    with (fault := named("foreign-driver")).on(bare.one):
        bare.mark()
        return bare.deploy(fault=fault), bare.written()


@pytest.fixture(scope="module")
def docker(bare: Scene, runfile: tuple[Run, list[str]]) -> tuple[Run, str]:
    """A run against the distribution's Docker; the Docker packages after it, and what apt knows of this project's."""
    with (fault := named("foreign-docker")).on(bare.one):
        run = bare.deploy(fault=fault)
        installed = r"dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' docker.io docker-ce | grep ^ii"
        return run, bare.one.run(f"{installed}; ls /etc/apt/sources.list.d | grep enginehouse; true").stdout


def test_a_driver_from_the_runfile_is_refused(runfile: tuple[Run, list[str]]) -> None:
    run, _ = runfile
    assert run.code == 1
    assert "fault: the driver came from NVIDIA's runfile" in run.output
    assert "nvidia-uninstall and reboot; or driver = Driver(manage=False) to use it as it is" in run.output


def test_and_nothing_was_touched_as_the_message_says(runfile: tuple[Run, list[str]]) -> None:
    run, written = runfile
    assert "state   preflight; no host was changed" in run.output
    assert written == []


def test_another_docker_is_refused_before_the_first_change_and_stays(docker: tuple[Run, str]) -> None:
    run, left = docker
    assert run.code == 1
    assert "fault: another Docker is installed: docker.io" in run.output
    assert "state   preflight; no host was changed" in run.output
    assert left == "ii docker.io\n"


def test_without_both_a_plain_run_deploys(bare: Scene, docker: tuple[Run, str]) -> None:
    assert bare.ends_well() == WELL
