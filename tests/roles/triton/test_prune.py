"""Old releases after a swap: removed ones, ones that another run may need, and leftovers of interrupted removals."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from host import disk
from tests.roles.triton.swapping import FakeHost, server

OLD = ("a", "b", "c")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A host that serves one, with old releases a, b and c (c the oldest), each with a cache."""
    made = FakeHost(tmp_path, monkeypatch)
    for age, name in enumerate(OLD):
        made.publish(name)
        (tmp_path / "cache" / name).mkdir(parents=True)
        os.utime(tmp_path / "releases" / name, (1_000_000_000 - age,) * 2)
    made.publish("one")
    return made


def has(machine: FakeHost, folder: str = "releases") -> list[str]:
    """Names in a folder."""
    return sorted(path.name for path in (machine.root / folder).iterdir())


def test_the_newest_releases_stay_and_older_ones_are_removed_with_caches(machine: FakeHost) -> None:
    assert machine.ask("one", keep=1) == 0
    assert (has(machine), has(machine, "cache")) == (["a", "one"], ["a"])


def test_a_release_that_another_run_has_just_published_stays(machine: FakeHost) -> None:
    machine.publish("theirs")
    machine.ask("one", keep=0)
    assert has(machine) == ["one", "theirs"]


def test_a_release_that_was_requested_meanwhile_stays_however_old(
    machine: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old release is the target of a second swap, which waits for the end of the present one."""
    end_swap = server.Server.end_swap

    def another_asks(mine: object) -> None:
        end_swap(mine)
        (machine.root / "servers/main/wanted.json").write_text('{"release": "c"}')

    monkeypatch.setattr(server.Server, "end_swap", another_asks)
    machine.ask("one", keep=0)
    assert has(machine) == ["c", "one"]


def test_an_unreadable_request_for_a_release_is_ignored(machine: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.ask("one")
    (machine.root / "servers/main/wanted.json").write_text("")
    server.Server("main").prune(0)
    assert has(machine) == ["one"]


def test_a_cut_removal_leaves_no_release_and_the_next_finishes(
    machine: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partial release with its server.json would be swapped in, and never be sent again."""
    done: list[str] = []

    def cut(path: Path) -> None:
        done.append(f"{path.name} without its name")
        raise KeyboardInterrupt

    with monkeypatch.context() as power:
        power.setattr(disk, "flush", lambda folder: done.append(f"{folder.name} on the disk"))
        power.setattr(server.shutil, "rmtree", cut)
        with pytest.raises(KeyboardInterrupt):
            machine.ask("one", keep=2)
    assert done[-2:] == ["releases on the disk", ".c.removing without its name"]
    assert (has(machine), server.Server("main").has("c")) == ([".c.removing", "a", "b", "one"], False)
    machine.ask("one", keep=2)
    assert has(machine) == ["a", "b", "one"]


def test_a_failed_removal_of_an_old_release_does_not_fail_the_swap(
    machine: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(path)

    monkeypatch.setattr(shutil, "rmtree", refuses)
    assert (machine.ask("one", keep=0), machine.verdict["result"]) == (0, "serves")
