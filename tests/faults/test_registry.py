"""A release with another image is deployed to a host that serves, while the registry has a fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rehearsal import services
from rehearsal.pyinfra_run import Run
from tests.faults import other_image
from tests.faults.scene import NOTHING_SERVING, PLACES, WELL, Polls, Scene, named

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

OTHER = "tests/faults/inventories/other_image.py"


@pytest.fixture(scope="module", autouse=True)
def digest(first_deploy: str) -> str:
    """Digest of an image that the host does not have."""
    pushed = other_image.push(services.services_up(), PLACES.root / "other-image-blobs", PLACES.root)
    (PLACES.root / "other-image").write_text(pushed)
    return pushed


@dataclass
class Struck:
    """A run with a fault: its output, the doctor's findings, requests that failed meanwhile, and written files."""

    run: Run
    findings: set[str]
    polls: Polls
    written: list[str]
    touched: list[str]
    swapped: bool

    @property
    def harmless(self) -> bool:
        """True if the run failed, and the running server stayed unchanged and in service."""
        return self.run.code == 1 and not (self.swapped or self.touched or self.polls.missed)


def struck(scene: Scene, name: str, drift: bool = False, **moment: Any) -> Struck:
    """Deploys another image during the fault, then runs the doctor; with `drift`, also asks for the next deploy's
    changes."""
    before = scene.current()
    with (fault := named(name)).on(scene.machine), scene.polled() as polls:
        scene.mark()
        run = scene.deploy(inventory=OTHER, **moment)
        findings = scene.diagnosed(OTHER, drift=True) if drift else scene.diagnosed()
        written, touched = scene.written(), scene.touched()
    assert fault.says in run.output, run.output[-3000:]
    return Struck(run, findings, polls, written, touched, scene.current() != before)


def test_a_registry_that_is_down_is_refused_before_the_first_change(scene: Scene) -> None:
    outcome = struck(scene, "registry-down", drift=True)
    assert (outcome.harmless, outcome.written) == (True, [])
    assert outcome.findings >= {*named("registry-down").finds}
    assert "fault: registry.rehearsal.internal:8443 cannot be reached, and image would come" in outcome.run.output
    assert "state   preflight; no host was changed" in outcome.run.output
    assert scene.ends_well() == WELL


def test_a_host_without_names_is_refused_in_the_same_words(scene: Scene) -> None:
    outcome = struck(scene, "dns-gone", drift=True)
    assert (outcome.harmless, outcome.written) == (True, [])
    assert outcome.findings >= {*named("dns-gone").finds}
    assert "state   preflight; no host was changed" in outcome.run.output
    assert scene.ends_well() == WELL


def test_a_rejected_key_ends_the_pull_and_nothing_that_serves(scene: Scene) -> None:
    outcome = struck(scene, "registry-401")
    assert outcome.findings >= {*named("registry-401").finds}
    assert outcome.harmless and NOTHING_SERVING in outcome.run.output
    assert "registry.rehearsal.internal:8443 rejected the key (401, unauthorized)" in outcome.run.output
    assert scene.ends_well() == WELL


def test_a_layer_that_is_cut_short_is_never_used(scene: Scene) -> None:
    outcome = struck(scene, "registry-truncated")
    assert outcome.findings >= {*named("registry-truncated").finds}
    assert outcome.harmless and NOTHING_SERVING in outcome.run.output
    assert scene.ends_well() == WELL


def test_a_killed_pull_is_reported_and_leaves_no_key(scene: Scene) -> None:
    kill = "systemctl kill --signal KILL 'enginehouse-pull@*'"
    outcome = struck(scene, "registry-slow", at="Registry | Wait for", strike=lambda: scene.machine.run(kill))
    assert outcome.harmless and NOTHING_SERVING in outcome.run.output
    assert "was ended by another program or a person (signal)" in outcome.run.output
    assert scene.says("find /run/enginehouse/registry -type f") == ""


def test_a_slow_registry_is_awaited_and_its_progress_reported(scene: Scene) -> None:
    findings = set[str]()
    diagnose = lambda: findings.update(scene.diagnosed())  # noqa: E731
    outcome = struck(scene, "registry-slow", at="Registry | Wait for", strike=diagnose)
    assert (outcome.run.code, outcome.swapped, findings >= {*named("registry-slow").finds}) == (0, True, True)
    assert " MiB, 2 of 3 layers unpacked" in outcome.run.output
    assert scene.ends_well() == WELL
