"""A machine for all these tests: bare, deployed to at the highest verbosity, smoke-tested, searched; then naive.

It has its own number, and so its own bridge, services and state directory beside another running rehearsal. The naive
part deliberately writes secrets to the machine, so it comes last (`test_naive.py`), and the machine is not kept.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rehearsal import requirements
from tests.secrets.scene import INVENTORY, NUMBER, PLACES, Scene, raised, throw_away
from tests.secrets.watch import Watch, show_marker, watched


@dataclass(frozen=True)
class Story:
    """Output and sampled processes while the bare machine became a smoke-tested server."""

    deployed: subprocess.CompletedProcess[str]
    smoked: subprocess.CompletedProcess[str]
    report: Path
    watch: Watch


@pytest.fixture(scope="package")
def scene() -> Iterator[Scene]:
    """Yields the bare machine and the operator; removes them before and afterwards."""
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", str(NUMBER))
        throw_away()
        try:
            yield raised()
        finally:
            throw_away()


@pytest.fixture(scope="package")
def story(scene: Scene) -> Story:
    """Runs a full deploy and the smoke tests at the highest verbosity, under the sampler."""
    report = PLACES.root / "smoke.xml"
    arguments = ["tests/smoke", "--inventory", INVENTORY, f"--junitxml={report}", "-o", "junit_logging=all"]
    with watched(scene.looked_for, scene.machine) as watch:
        show_marker(scene.machine)
        deployed = scene.operator.deploy()
        assert deployed.returncode == 0, deployed.stdout[-4000:] + deployed.stderr[-4000:]
        smoked = scene.operator.python("-m", "pytest", "-vv", "--showlocals", "-p", "no:cacheprovider", *arguments)
        show_marker(scene.machine)
    return Story(deployed, smoked, report, watch)
