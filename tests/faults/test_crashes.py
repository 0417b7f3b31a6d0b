"""Sudden ends: of the control process, the power, the container, Triton, the GPU."""

from __future__ import annotations

import pytest

from deploy.io.drift import drift_of
from rehearsal.pyinfra_run import Run
from tests.faults.scene import WELL, Scene, answers, named, until

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

OTHER = "tests/faults/inventories/other_release.py"
BACK_SECONDS = 600


def swapped(scene: Scene, name: str, monkeypatch: pytest.MonkeyPatch, batch: int) -> Run:
    """Runs a deploy of another release, with the fault at the swap."""
    monkeypatch.setenv("FAULTS_BATCH", str(batch))
    with (fault := named(name)).on(scene.machine):
        return scene.deploy(inventory=OTHER, fault=fault)


def test_a_killed_control_process_leaves_a_host_that_converges(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    run = swapped(scene, "kill-control", monkeypatch, 16)
    again = scene.deploy(inventory=OTHER)
    findings, silent = scene.diagnosed(), scene.deploy(inventory=OTHER)
    assert (run.code, again.code, silent.is_silent, answers(scene.machine)) == (-9, 0, True, True)
    assert findings == {"release-differs", *named("kill-control").finds}, "from the plan of before, and in nothing else"
    assert scene.ends_well() == WELL


def test_a_second_run_is_refused_and_the_first_continues(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards the host matches the first run's inventory, and no run locks it."""
    monkeypatch.setenv("FAULTS_BATCH", "24")
    seconds: list[Run] = []
    findings = set[str]()

    def strike() -> None:
        findings.update(scene.diagnosed())
        seconds.append(scene.deploy())

    run = scene.deploy(inventory=OTHER, at="Triton | Swap", strike=strike)
    assert "run-at-work" in findings
    assert (run.code, [second.code for second in seconds]) == (0, [1]), run.output[-3000:]
    assert "another run is changing 1 of 1 hosts" in seconds[0].output
    assert "before the first change; every host serves what it served" in seconds[0].output
    drift = drift_of(OTHER)
    assert (drift.exit_code, drift.messages) == (0, {}), drift


def test_after_a_power_cut_in_a_swap_the_host_serves_by_itself(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    before = scene.current()
    run = swapped(scene, "power-cut", monkeypatch, 12)
    assert (run.code, named("power-cut").says in run.output, "internal exception" in run.output) == (1, True, False)
    assert (until(lambda: answers(scene.machine), BACK_SECONDS), scene.current()) == (True, before)
    findings = scene.diagnosed(past=True) - {"unit-starting", "errors-logged", *named("power-cut").finds}
    assert findings <= {"swap-refused"}, "which it is where the swap had begun"
    assert scene.ends_well() == WELL


def kill_swap(scene: Scene) -> None:
    """Kills the host's own swap program after it has begun."""
    begun = "for i in $(seq 300); do [ ! -e /var/lib/enginehouse/servers/main/swap.json ] || break; sleep 0.1; done"
    scene.machine.run(f"{begun}; systemctl kill --kill-who=main --signal=KILL enginehouse-swap@main.service")


def test_a_swap_that_is_killed_on_the_host_is_undone_there(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTS_BATCH", "20")
    before = scene.current()
    run = scene.deploy(inventory=OTHER, at="Triton | Swap", strike=lambda: kill_swap(scene))
    assert (run.code, f"was interrupted; {before} is put back" in run.output) == (1, True), run.output[-3000:]
    assert (until(lambda: answers(scene.machine), BACK_SECONDS), scene.current()) == (True, before)
    assert "swap-refused" in scene.diagnosed(past=True)
    assert scene.ends_well() == WELL


def test_a_killed_container_comes_back_and_a_run_in_between_succeeds(scene: Scene) -> None:
    with (fault := named("container-killed")).on(scene.machine):
        assert until(lambda: scene.says("systemctl is-active triton@main") == "activating", 10)
        findings, run = scene.diagnosed(), scene.deploy()
    assert (run.code, until(lambda: answers(scene.machine), BACK_SECONDS), findings >= {*fault.finds}) == (
        0,
        True,
        True,
    )
    assert scene.ends_well() == WELL


def test_triton_killed_for_want_of_memory_comes_back_by_itself(scene: Scene) -> None:
    with (fault := named("oom-kill")).on(scene.machine):
        assert until(lambda: not answers(scene.machine), 10)
    assert until(lambda: answers(scene.machine), BACK_SECONDS)
    assert scene.diagnosed(past=True) >= {*fault.finds}
    assert "status=137" in scene.machine.run("journalctl -u triton@main.service -n 200 -o cat").stdout
    assert scene.ends_well() == WELL


def test_a_lost_gpu_is_refused_and_the_running_server_continues(scene: Scene) -> None:
    with (fault := named("gpu-gone")).on(scene.machine):
        scene.mark()
        with scene.polled() as polls:
            run, findings, written = scene.deploy(), scene.diagnosed(), scene.written()
    assert (run.code, findings >= {*fault.finds}, written, polls.missed) == (1, True, [], [])
    assert f"fault: {fault.says}" in run.output and "other programs use the GPU" not in run.output
    assert "state   preflight; no host was changed" in run.output
    assert until(lambda: answers(scene.machine), BACK_SECONDS)
    assert scene.ends_well() == WELL
