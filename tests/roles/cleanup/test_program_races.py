"""The program that cleans up while other runs work on the host, and after an interruption."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from host import disk
from tests.roles.cleanup.spares import Host, clean_up, now


def test_fresh_files_of_another_run_are_kept(host: Host) -> None:
    """The host does not use these files yet: the run that brought them has not reached its swap."""
    for age, name in enumerate(("r3", "r2", "r1")):
        now(host.make(f"weights/llama/{name}", age))
    host.image("pulled")
    now(host.root / "images/pulled.json")
    host.call()
    assert (host.has("weights/llama"), host.has("images")) == (["r1", "r2", "r3"], ["pulled.json"])


def test_a_newly_fetched_engine_stays_despite_an_old_build_date(host: Host) -> None:
    """rsync keeps the build time; hours after its arrival the engine is removed like any other."""
    for age, name in enumerate("ab"):
        host.make(f"engines/llama/{name * 16}", age)
    host.make(f"engines/llama/.{'a' * 16}.incoming")
    host.call()
    assert host.has("engines/llama") == [f".{'a' * 16}.incoming", "a" * 16, "b" * 16]
    host.days_pass(2)
    host.call()
    assert host.has("engines/llama") == ["a" * 16]


def test_files_of_a_just_published_release_are_kept_however_old(host: Host) -> None:
    """The run that published the release found weights and image on the host, so both are old."""
    for age, name in enumerate(("r2", "r1")):
        host.make(f"weights/llama/{name}", age)
    host.release("coming", image="long here", uses="weights/llama/r1")
    now(host.root / "releases/coming")
    host.image("long here")
    host.call()
    assert (host.has("weights/llama"), host.has("images")) == (["r1", "r2"], ["long here.json"])


@pytest.mark.parametrize(("hours", "left"), [(1, ["r1", "r2"]), (30, ["r2"])])
def test_files_of_a_just_requested_release_are_kept_however_old(host: Host, hours: int, left: list[str]) -> None:
    """An inventory names an old release again. An old request failed, and no run waits for it."""
    for age, name in enumerate(("r2", "r1")):
        host.make(f"weights/llama/{name}", age)
    host.release("again", uses="weights/llama/r1")
    host.wants("again", hours)
    host.call()
    assert host.has("weights/llama") == left


@pytest.mark.parametrize("release", ["previous", "gone", ""])
def test_a_request_for_a_release_that_the_host_lacks_is_ignored(host: Host, release: str) -> None:
    host.wants(release)
    host.make("cache/gone")
    host.call()
    assert host.has("cache") == []


def test_an_image_that_is_being_pulled_again_stays(host: Host) -> None:
    """The image's record is from an earlier pull."""
    host.image("older")
    host.pull = "activating"
    host.call()
    assert host.has("images") == ["older.json"]


def test_two_runs_do_not_remove_at_once(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second would fail over files that the first is removing."""
    seen: list[str] = []

    def others(when: str) -> bool:
        handle = os.open(host.root, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            seen.append(f"{when}: free")
        except BlockingIOError:
            seen.append(f"{when}: held")
        os.close(handle)
        return False

    monkeypatch.setattr(clean_up, "unsettled", lambda: others("meanwhile"))
    host.call()
    others("after")
    assert seen == ["meanwhile: held", "after: free"]


@pytest.mark.parametrize("path", ["weights/llama/r1", f"engines/llama/{'b' * 16}", "cache/gone"])
def test_an_interrupted_removal_leaves_no_partial_directory_under_its_name(
    host: Host, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rename is on the disk before the first file is removed, and the next run removes the rest."""
    host.make("weights/llama/r2")
    host.make(f"engines/llama/{'a' * 16}")
    going, done = host.make(path, 1), list[str]()
    host.days_pass(2)

    def cut(gone: Path, ignore_errors: bool) -> None:
        done.append(gone.name)
        raise KeyboardInterrupt

    with monkeypatch.context() as power:
        power.setattr(disk, "flush", lambda folder: done.append(f"{folder.name} {going.exists()}"))
        power.setattr(clean_up.shutil, "rmtree", cut)
        with pytest.raises(KeyboardInterrupt):
            host.call()
    assert done == [f"{going.parent.name} False", f".{going.name}.removing"]
    host.call()
    assert not any("removing" in name or name == going.name for name in host.has(str(Path(path).parent)))


def test_a_partial_release_is_removed_and_an_arriving_one_kept(host: Host) -> None:
    """Programs of an earlier version left it without the file that marks a release."""
    host.make("releases/half")
    now(host.make("releases/coming"))
    host.call()
    assert host.has("releases") == ["before", "coming", "now"]


def test_leftovers_of_an_interrupted_removal_are_removed(host: Host) -> None:
    """The operator deployed again instead of repeating the removal."""
    host.make(".weights.removing/llama/r1")
    host.call()
    assert not (host.root / ".weights.removing").exists()
