"""A machine for the whole story: bare, deployed to at the highest verbosity, smoke-tested, searched; then naive.

It runs beside a rehearsal somebody may have up: another number, so another bridge, other services and another state
directory. The naive part writes secrets to the machine on purpose, so it comes last (`test_naive.py`), and nothing is
kept.
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
    """The machine, bare, and the operator; removed before and afterwards."""
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
    """A full run and the smoke tests, both as talkative as they can be, under the sampler's eyes."""
    report = PLACES.root / "smoke.xml"
    arguments = ["tests/smoke", "--inventory", INVENTORY, f"--junitxml={report}", "-o", "junit_logging=all"]
    with watched(scene.looked_for, scene.machine) as watch:
        show_marker(scene.machine)
        deployed = scene.operator.deploy()
        assert deployed.returncode == 0, deployed.stdout[-4000:] + deployed.stderr[-4000:]
        smoked = scene.operator.python("-m", "pytest", "-vv", "--showlocals", "-p", "no:cacheprovider", *arguments)
        show_marker(scene.machine)
    return Story(deployed, smoked, report, watch)
