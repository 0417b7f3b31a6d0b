"""Two cells of fake hosts through a local Prefect, in the order of these tests: a failure, a kill, an approval."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

from tests.cells.conftest import ROOT, Scene, end

EAST = ["@fake/east-1", "@fake/east-2", "@fake/east-edge"]
WEST = ["@fake/west-1", "@fake/west-2", "@fake/west-edge"]


def brought(scene: Scene) -> list[str]:
    """Returns the hosts that a deploy reached, sorted."""
    return sorted(scene.read("brought").split())


def approval_of(scene: Scene, log: str) -> str:
    """Returns the run ID that a waiting driver printed; empty if there is none."""
    match = re.search(r"cell west waits for approval: python cells\.py approve (\S+)", scene.read(log))
    return match[1] if match else ""


def test_an_unknown_cell_a_missing_server_and_an_unserved_cell_are_refused(scene: Scene) -> None:
    """The refusal comes before any work, with exit 1. From here on both cells are served."""
    words = [sys.executable, str(ROOT / "cells.py"), "roll", "fleet.py", "east"]
    nowhere = {key: value for key, value in scene.environment.items() if key != "PREFECT_API_URL"}
    for more, environment, message in (
        (["north"], scene.environment, "no group of this inventory is called north"),
        (["west"], nowhere, "PREFECT_API_URL names no Prefect server"),
        (["west"], scene.environment, "no control machine takes over cell west"),
    ):
        done = subprocess.run([*words, *more], cwd=scene.folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 1 and message in done.stderr
    scene.serve("east")
    scene.serve("west")


def test_a_first_cell_that_fails_leaves_the_second_untouched(scene: Scene) -> None:
    """Every host of the cell fails. The driver ends with the output of its deploy and the remaining cells."""
    (scene.folder / "broken").touch()
    driver = scene.roll("first.log")
    scene.until(lambda: driver.poll() is not None, "the driver ends")
    (scene.folder / "broken").unlink()
    log = scene.read("first.log")
    assert driver.returncode == 1
    assert "cell east was not updated" in log and re.search(r"left +west", log)
    assert brought(scene) == [] and "Arrive" not in scene.read("west.log")
    assert "Traceback" not in log


def test_a_driver_killed_during_a_cell_resumes_and_deploys_it_once(scene: Scene) -> None:
    """The cell's own worker continues; the restarted driver follows it, and waits before the second cell."""
    (scene.folder / "gate").touch()
    driver = scene.roll("killed.log")
    scene.until(lambda: "at the gate" in scene.read("east.log"), "east is being brought over")
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    scene.roll("again.log")
    scene.until(lambda: "cell east has its turn" in scene.read("again.log"), "the driver is back")
    assert brought(scene) == []
    (scene.folder / "gate").unlink()
    scene.until(lambda: bool(approval_of(scene, "again.log")), "the driver waits for approval")
    assert brought(scene) == EAST


def test_a_second_cell_waits_for_approval_also_after_its_driver_was_killed(scene: Scene) -> None:
    """The second cell's hosts stay untouched until the approval; the first cell is not changed again."""
    scene.started[-1].kill()
    scene.started[-1].wait()
    driver = scene.roll("waiting.log")
    scene.until(lambda: bool(approval_of(scene, "waiting.log")), "the driver waits for approval")
    assert brought(scene) == EAST and driver.poll() is None
    late = scene.cells("late.log", "approve", approval_of(scene, "again.log"))
    scene.until(lambda: late.poll() is not None, "an approval of the killed driver ends")
    assert late.returncode == 1 and "no rollout waits for approval as" in scene.read("late.log")
    scene.cells("approve.log", "approve", approval_of(scene, "waiting.log"))
    scene.until(lambda: driver.poll() is not None, "the driver ends")
    assert driver.returncode == 0, scene.read("waiting.log")
    assert brought(scene) == EAST + WEST


def test_a_cell_whose_worker_was_killed_fails_when_a_new_worker_starts(scene: Scene) -> None:
    """The cell does not fail earlier, because the worker's run may still be active on its hosts."""
    (scene.folder / "gate").touch()
    at_gate, driver = scene.read("east.log").count("at the gate"), scene.roll("worker.log")
    scene.until(lambda: scene.read("east.log").count("at the gate") > at_gate, "east is being brought over")
    end(scene.workers["east"])
    assert driver.poll() is None
    scene.serve("east")
    scene.until(lambda: driver.poll() is not None, "the driver ends")
    assert driver.returncode == 1 and "the worker beside this cell was started anew" in scene.read("worker.log")
    assert brought(scene) == EAST + WEST
