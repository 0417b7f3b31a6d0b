"""A plain run upgrades a host that the previous version deployed, and a rollback restores it.

The previous version comes from this repository's history: its unpacked code deploys to the same machine. It has one
extra line: its gate before a swap could open neither a real card (50b94d8) nor the stand-in, which also refuses.
"""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from rehearsal.places import REPOSITORY
from rehearsal.pyinfra_run import Run, pyinfra
from tests.faults.scene import INVENTORY, NAME, PLACES, Scene, answers, fresh, until

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

BEFORE = "d5cd8369152dced685460d1d59f1c4fe419e60a5"
WEIGHTS = "find /var/lib/enginehouse/weights -type f -printf '%p %i\\n' | sort"
HISTORY = "cat /var/lib/enginehouse/history.jsonl"


@dataclass(frozen=True)
class Brought:
    """The host before and after the plain run that upgraded it."""

    scene: Scene
    old_release: str
    old_weights: str
    run: Run
    swaps: list[dict[str, str]]
    """The host's history since then."""


def unpacked(commit: str, directory: Path) -> Path:
    """Returns a checkout of that commit that shares the rehearsal of the present checkout. Fails if the clone lacks
    the commit."""
    archive = subprocess.run(["git", "archive", commit], cwd=REPOSITORY, capture_output=True, check=False)
    if archive.returncode:
        pytest.fail(
            f"the version before, commit {commit[:7]}, is not in this clone: no host of it can be brought over\n"
            f"  said    {archive.stderr.decode().strip()}\n  try     git fetch --unshallow, then run again"
        )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(directory, filter="data")
    inventory = directory / "inventories/rehearsal.py"  # machines record their `os`, which then was `debian`
    inventory.write_text(
        inventory.read_text("utf-8").replace("f\"debian-{machine['debian']}\"", "machine['os']"), "utf-8"
    )
    (directory / ".rehearsal").symlink_to(REPOSITORY / ".rehearsal")
    return directory


@pytest.fixture(scope="module")
def brought(rehearsal: None, tmp_path_factory: pytest.TempPathFactory) -> Brought:
    """Deploys a bare machine with the previous version, then with this version."""
    checkout = unpacked(BEFORE, tmp_path_factory.mktemp("before"))
    gate = checkout / "files/health/swap-gate.conf"
    # A rule without which no GPU passes the gate.
    gate.write_text(f"{gate.read_text('utf-8')}DeviceAllow=char-nvidia* rw\n", "utf-8")
    scene = Scene(fresh())
    first = pyinfra(INVENTORY, "deploy.py", "-y", print_steps=False, checkout=checkout)
    (PLACES.root / "before.log").write_text(first.output)
    assert first.code == 0, first.output[-4000:]
    assert answers(scene.machine)
    old_release, old_weights = scene.current(), scene.says(WEIGHTS)
    known = len(scene.says(HISTORY).splitlines())
    run = scene.deploy()
    swaps = [json.loads(line) for line in scene.says(HISTORY).splitlines()[known:]]
    return Brought(scene, old_release, old_weights, run, swaps)


def test_a_plain_run_brings_it_over_with_one_swap(brought: Brought) -> None:
    assert brought.run.code == 0, brought.run.output[-4000:]
    assert [(swap["result"], swap["from"]) for swap in brought.swaps] == [("serves", brought.old_release)]
    assert until(lambda: answers(brought.scene.machine), 60)


def test_weights_stay_and_are_not_fetched_again(brought: Brought) -> None:
    assert brought.old_weights and brought.scene.says(WEIGHTS) == brought.old_weights


def test_loose_programs_of_the_old_version_are_gone_and_no_unit_names_one(brought: Brought) -> None:
    """The package of this version took the place of loose programs (roles/_shipping/programs.py)."""
    loose = "find /usr/local/lib/enginehouse -maxdepth 1 -name '*.py'"
    named = "grep -rl '/enginehouse/[a-z_]*[.]py' /etc/systemd/system"
    assert brought.scene.says(f"{loose}; {named}; true") == ""


def test_a_second_run_has_nothing_to_do(brought: Brought) -> None:
    again = brought.scene.deploy()
    assert again.is_silent, again.output[-4000:]


def test_a_rollback_serves_the_previous_release(brought: Brought) -> None:
    run = pyinfra(INVENTORY, "rollback.py", "-y", "--limit", NAME, print_steps=False)
    assert run.code == 0, run.output[-4000:]
    served = brought.scene.current(), until(lambda: answers(brought.scene.machine), 60)
    assert served == (brought.old_release, True)
    assert brought.scene.deploy().code == 0
