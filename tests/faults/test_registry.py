"""A release with another image is deployed to a host that serves, while the registry has a bad day."""

from __future__ import annotations

import pytest

from rehearsal import services
from rehearsal.pyinfra_run import Run
from tests.faults import other_image
from tests.faults.scene import PLACES, WELL, Polls, Scene, named

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

OTHER = "tests/faults/inventories/other_image.py"


@pytest.fixture(scope="module", autouse=True)
def digest(first_deploy: str) -> str:
    """Of an image the host does not have."""
    pushed = other_image.push(services.services_up(), PLACES.root / "other-image-blobs", PLACES.root)
    (PLACES.root / "other-image").write_text(pushed)
    return pushed


def struck(scene: Scene, name: str) -> tuple[Run, Polls, str]:
    """The run, what a client missed meanwhile, and the release that is current after it."""
    with (fault := named(name)).on(scene.one), scene.polled() as polls:
        run = scene.deploy(inventory=OTHER)
    assert fault.says in run.output, run.output[-3000:]
    return run, polls, scene.current()


def test_a_registry_that_is_down_is_refused_before_the_first_change(scene: Scene) -> None:
    before = scene.current()
    scene.mark()
    run, polls, after = struck(scene, "registry-down")
    assert (run.code, polls.missed, after, scene.written()) == (1, [], before, [])
    assert "fault: registry.rehearsal.internal:8443 cannot be reached, and image would come from there" in run.output
    assert "state   preflight; no host was changed" in run.output


def test_a_host_without_names_is_refused_in_the_same_words(scene: Scene) -> None:
    before = scene.current()
    run, polls, after = struck(scene, "dns-gone")
    assert (run.code, polls.missed, after) == (1, [], before)
    assert "state   preflight; no host was changed" in run.output
    assert scene.ends_well() == WELL


def test_a_rejected_key_ends_the_pull_and_nothing_that_serves(scene: Scene) -> None:
    before = scene.current()
    run, polls, after = struck(scene, "registry-401")
    assert (run.code, polls.missed, after) == (1, [], before)
    assert "registry.rehearsal.internal:8443 rejected the key (401, unauthorized)" in run.output
    assert "state   nothing that serves was touched" in run.output


def test_a_layer_that_is_cut_short_is_never_used(scene: Scene) -> None:
    before = scene.current()
    run, polls, after = struck(scene, "registry-truncated")
    assert (run.code, polls.missed, after) == (1, [], before)
    assert "state   nothing that serves was touched" in run.output
    assert scene.ends_well() == WELL


def test_a_slow_registry_is_waited_for_and_its_progress_told(scene: Scene) -> None:
    before = scene.current()
    run, _, after = struck(scene, "registry-slow")
    assert run.code == 0 and after != before
    assert " MiB, 2 of 3 layers unpacked" in run.output
    assert scene.ends_well() == WELL
