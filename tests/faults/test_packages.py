"""Faults of apt and dpkg: each run has to install a missing package in spite of one."""

from __future__ import annotations

import threading

import pytest

from rehearsal.faults.packages import NEEDED, AptLock
from tests.faults.scene import WELL, Scene, named

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

PATIENT = "/usr/local/lib/enginehouse/patient-apt"


def state_of(scene: Scene, package: str) -> str:
    """The state of a package, as dpkg's three letters."""
    return scene.machine.run(f"dpkg-query -W -f '${{db:Status-Abbrev}}' {package}; true").stdout.strip()


def test_a_held_lock_is_waited_for_and_the_run_goes_on(scene: Scene) -> None:
    lock = AptLock()
    with lock.on(scene.machine), scene.polled() as polls:
        assert scene.diagnosed() >= {*lock.finds}
        freed = threading.Timer(15, lock.undo, [scene.machine])
        run = scene.deploy(at="Base | Install tools", strike=freed.start)
        freed.join()
    assert (run.code, lock.says in run.output, state_of(scene, NEEDED), polls.missed) == (0, True, "ii", [])
    assert scene.ends_well() == WELL


def test_a_lock_that_is_never_released_is_reported_with_its_file(scene: Scene) -> None:
    with AptLock().on(scene.machine):
        ran = scene.machine.run(f"ENGINEHOUSE_APT_WAIT_SECONDS=3 {PATIENT} install {NEEDED}", check=False)
    assert ran.returncode == 100
    assert "Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend)" in ran.stderr
    assert scene.ends_well() == WELL


def test_a_package_that_was_unpacked_only_is_configured(scene: Scene) -> None:
    with (fault := named("half-configured")).on(scene.machine), scene.polled() as polls:
        assert (state_of(scene, NEEDED), scene.diagnosed() >= {*fault.finds}) == ("iU", True)
        run = scene.deploy()
    assert (run.code, state_of(scene, NEEDED), polls.missed) == (0, "ii", [])
    assert scene.ends_well() == WELL


def test_a_run_finishes_the_installation_of_a_killed_dpkg(scene: Scene) -> None:
    with (fault := named("dpkg-interrupted")).on(scene.machine), scene.polled() as polls:
        assert scene.diagnosed() >= {*fault.finds}
        refused = scene.machine.run(f"apt-get install -y {NEEDED}", check=False).stderr
        run = scene.deploy()
        states = [state_of(scene, package) for package in (NEEDED, "rehearsal-slow")]
    assert "dpkg was interrupted, you must manually run 'dpkg --configure -a'" in refused
    assert (run.code, states, polls.missed) == (0, ["ii", "ii"], [])
    assert scene.ends_well() == WELL


def test_a_kernel_that_waits_for_its_reboot_changes_nothing(scene: Scene) -> None:
    boot = scene.machine.run("cat /proc/sys/kernel/random/boot_id").stdout
    with (fault := named("kernel-pending")).on(scene.machine), scene.polled() as polls:
        assert scene.diagnosed() >= {*fault.finds}
        run = scene.deploy()
    assert (run.is_silent, polls.missed) == (True, [])
    assert scene.machine.run("cat /proc/sys/kernel/random/boot_id").stdout == boot
