"""Downloads that were killed in the middle, on the host and on the control machine: the next run continues them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rehearsal.faults import fault
from rehearsal.places import cache
from rehearsal.pyinfra_run import Run, control_pid
from tests.faults.scene import NOTHING_SERVING, PLACES, WELL, Scene, until

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

MORE = "tests/faults/inventories/more.py"
UNIT = "enginehouse-weights@by-host.service"
WEIGHTS = "/var/lib/enginehouse/weights/by-host"
HUB = PLACES.root / "services"
CUT = 400_000
"""Bytes after which the hub breaks off."""


@dataclass
class Killed:
    """Both killed runs, the parts of each download at that time (bytes, and files begun), and the run after both."""

    on_host: Run
    findings: set[str]
    """The doctor's findings after the first of them."""
    host_bytes: int
    in_memory: str
    """Remains of the killed fetch where its token had been."""
    on_control: Run
    begun: int
    after: Run
    continued: int
    """Answers of the hub, after the first kill, that began in the middle of a file."""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """The control machine's home directory, with its cache of fetched files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_CACHE", str(cache().parent))  # what the rehearsal has made stays where it is
        patch.setenv("HOME", str(PLACES.root / "home"))
        shutil.rmtree(PLACES.root / "home", ignore_errors=True)
        (PLACES.root / "home").mkdir()
        yield PLACES.root / "home"


@pytest.fixture(scope="module")
def killed(serving: Scene, home: Path) -> Killed:
    """A killed transfer on each side, then a plain run an hour later."""
    with hub_cuts():
        on_host = struck(serving, "Model store | Wait for by-host", lambda: kill_fetch(serving))
    findings = serving.diagnosed()
    host_bytes = int(serving.says(f"cat {WEIGHTS}/.*.partial/model.safetensors | wc -c"))
    in_memory = serving.says("ls -A /run/enginehouse/weights")
    before = from_the_middle()
    on_control = struck(serving, "Model store | Send by-control", lambda: kill_control(serving, home))
    begun = incomplete(home)
    for path in begun:
        os.utime(path, (time.time() - 3600,) * 2)
    after = serving.deploy(inventory=MORE)
    return Killed(on_host, findings, host_bytes, in_memory, on_control, len(begun), after, from_the_middle() - before)


def from_the_middle() -> int:
    """Answers of the hub that began in the middle of a file."""
    return (HUB / "hub.log").read_text().count('" 206')


@contextlib.contextmanager
def hub_cuts() -> Iterator[None]:
    """Cuts off every large answer of the hub, so that a download can be killed in the middle."""
    fault = HUB / "fault-cut-large"
    fault.write_text(f"1000 {CUT}")
    try:
        yield
    finally:
        fault.unlink()


def struck(scene: Scene, moment: str, strike: Callable[[], object]) -> Run:
    """A run during which `strike` is called when the operation `moment` begins."""
    return scene.deploy(inventory=MORE, at=moment, strike=strike)


def kill_fetch(scene: Scene) -> None:
    """Kills the host's download when a file is partly there."""
    until(lambda: scene.says(f"cat {WEIGHTS}/.*.partial/model.safetensors | head -c 1 | wc -c") == "1", 30)
    scene.machine.run(f"systemctl kill --signal KILL {UNIT}")


def kill_control(scene: Scene, home: Path) -> None:
    """Kills the control process and its download while a file is partly there."""
    until(lambda: bool(incomplete(home)), 30, every=0.01)
    control = control_pid(PLACES)
    children = Path(f"/proc/{control}/task/{control}/children").read_text().split()
    fault("kill-control").strike(scene.machine)
    for child in children:
        os.kill(int(child), signal.SIGKILL)


def incomplete(home: Path) -> list[Path]:
    """Incomplete downloads of the control machine."""
    return list(home.glob(".cache/enginehouse/weights/**/*.incomplete"))


def test_a_fetch_killed_on_the_host_is_reported(killed: Killed) -> None:
    assert (killed.on_host.code, killed.host_bytes >= CUT) == (1, True)
    assert f"weights of by-host: {UNIT} was ended by another program or a person (signal)" in killed.on_host.output
    assert NOTHING_SERVING in killed.on_host.output
    assert killed.findings == {"job-failed"}


def test_a_killed_fetch_leaves_no_token(killed: Killed) -> None:
    assert (killed.on_host.code, killed.in_memory) == (1, "")


def test_the_next_run_continues_it_where_it_was(killed: Killed) -> None:
    assert (killed.after.code, killed.continued > 0) == (0, True), killed.after.output[-3000:]


def test_partial_files_of_a_killed_control_process_are_not_kept(killed: Killed, home: Path) -> None:
    assert (killed.on_control.code, killed.begun > 0, incomplete(home)) == (-9, True, [])


def test_a_further_run_is_silent_and_the_plain_one_goes_back(serving: Scene, killed: Killed) -> None:
    assert serving.deploy(inventory=MORE).is_silent
    assert serving.ends_well() == WELL
