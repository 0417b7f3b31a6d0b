"""Events that nobody planned: a timer restarts Docker in a swap, and sudo wants a terminal."""

from __future__ import annotations

import pytest

from tests.faults.scene import WELL, Scene

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

OTHER = "tests/faults/inventories/other_release.py"
SUDOERS, LIFTED = "/etc/sudoers.d/80-night", "/etc/sudoers.d/91-operator"


def test_docker_restarted_by_a_timer_in_a_swap_ends_converged(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run waits for its swap meanwhile. It succeeds, or names the reason and succeeds when it is repeated."""
    monkeypatch.setenv("FAULTS_BATCH", "42")
    timer = "systemd-run --quiet --collect --on-active=2 systemctl restart docker.service"
    scene.deploy(inventory=OTHER, at="Triton | Swap", strike=lambda: scene.machine.run(timer))
    again = scene.deploy(inventory=OTHER)
    assert (again.code, scene.deploy(inventory=OTHER).is_silent) == (0, True), again.output[-3000:]
    assert scene.ends_well() == WELL


def test_a_sudo_that_wants_a_terminal_is_refused_with_a_working_remedy(scene: Scene) -> None:
    scene.machine.run(f"echo 'Defaults requiretty' >{SUDOERS}; chmod 0440 {SUDOERS}")
    try:
        scene.mark()
        refused, written = scene.deploy(), scene.written()
        (hint,) = (line for line in refused.output.splitlines() if line.strip().startswith("try "))
        scene.machine.run(hint.split("try", 1)[1].removesuffix(" as root on the host"))
        hinted = scene.deploy()
    finally:
        scene.machine.run(f"rm -f {SUDOERS} {LIFTED}")
    assert (refused.code, "you must have a tty to run sudo" in refused.output, written) == (1, True, [])
    assert (hinted.code, hinted.is_silent) == (0, True)
    assert scene.ends_well() == WELL
