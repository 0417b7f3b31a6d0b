"""The program that cleans up, on a directory of its own with a systemd and a Docker of a few lines."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.roles.loading import program

clean_up = program("cleanup/clean_up.py")
KEEP = {"weights": 1, "engines": 1, "images": 0, "failed": 1}


class Host:
    """ROOT of a host with one server; ages are in steps, the larger the older."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.monkeypatch = root, monkeypatch
        self.active, self.swap, self.containers = "active", "inactive", ""
        self.docker: list[list[str]] = []
        for name in ("releases", "cache", "servers/main", "weights/llama", "engines/llama", "images"):
            (root / name).mkdir(parents=True)
        monkeypatch.setattr(clean_up, "ROOT", root)
        monkeypatch.setattr(clean_up, "SETTINGS", root / "etc")
        monkeypatch.setattr(clean_up.subprocess, "run", self._run)

    def _run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if command[0] == "systemctl":
            return subprocess.CompletedProcess(command, 0, stdout=f"{self.active}\n{self.swap}\n")
        self.docker.append(command)
        return subprocess.CompletedProcess(command, 0, stdout=self.containers if command[1] == "ps" else "")

    def make(self, path: str, age: int = 0) -> Path:
        """A directory with a file in it, so old."""
        made = self.root / path
        made.mkdir(parents=True)
        (made / "file").write_text("x")
        os.utime(made, (1_000_000_000 - age, 1_000_000_000 - age))
        return made

    def release(self, name: str, age: int = 0, image: str = "new", uses: str = "") -> None:
        """A published release that mounts `uses`."""
        made = self.make(f"releases/{name}", age)
        (made / "server.json").write_text(json.dumps({"server": "main", "image": {"pull_reference": image}}))
        (made / "run").write_text(f"  --mount type=bind,source={self.root / uses},target=x,readonly\n" if uses else "")
        os.utime(made, (1_000_000_000 - age, 1_000_000_000 - age))

    def link(self, link: str, release: str) -> None:
        """`current` or `previous` names it."""
        (self.root / "servers/main" / link).symlink_to(f"../../releases/{release}")

    def image(self, name: str) -> None:
        """One this project pulled."""
        (self.root / f"images/{name}.json").write_text(json.dumps({"reference": name}))

    def call(self, verb: str = "remove", **kept: Any) -> None:
        """The program, told to keep this."""
        told = {"weights": [], "engines": [], "images": ["new"], "keep": KEEP} | kept
        self.monkeypatch.setattr(clean_up.sys, "argv", ["clean_up.py", verb, json.dumps(told)])
        assert clean_up.main() == 0

    def has(self, folder: str) -> list[str]:
        """Names in a folder."""
        return sorted(path.name for path in (self.root / folder).iterdir())


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host whose server serves `now`, and served `before` last."""
    made = Host(tmp_path, monkeypatch)
    made.release("now", 0)
    made.release("before", 9, image="old")
    made.link("current", "now")
    made.link("previous", "before")
    return made


def test_releases_are_the_swaps_to_count_and_only_the_cache_of_a_gone_one_goes(host: Host) -> None:
    """It has a knob of its own; two that differ would make the smaller one win unseen."""
    host.release("tried", 1)
    host.release("older", 2)
    host.make("cache/older")
    host.make("cache/gone")
    host.call()
    assert (host.has("releases"), host.has("cache")) == (["before", "now", "older", "tried"], ["older"])


def test_what_the_previous_release_reads_stays_however_old(host: Host) -> None:
    (host.root / "releases/before/run").write_text(f"source={host.root}/weights/llama/r1,target=x")
    for age, name in enumerate(("r4", "r3", "r2", "r1")):
        host.make(f"weights/llama/{name}", age)
    host.call(weights=[str(host.root / "weights/llama/r4")])
    assert host.has("weights/llama") == ["r1", "r3", "r4"]


def test_a_partial_fetch_is_nobodys_revision_and_stays(host: Host) -> None:
    host.make("weights/llama/.r5.partial", 9)
    host.make("weights/llama/r1", 1)
    host.call()
    assert host.has("weights/llama") == [".r5.partial", "r1"]


def test_engines_go_but_for_the_newest_and_a_failed_build_is_kept_to_look_at(host: Host) -> None:
    for age, name in enumerate(("a" * 16, "b" * 16, "c" * 16)):
        host.make(f"engines/llama/{name}", age)
    host.make(f"engines/llama/{'d' * 16}.failed", 1)
    host.make(f"engines/llama/{'e' * 16}.refused", 2)
    host.make(f"engines/llama/.{'f' * 16}.staging", 3)
    host.call(engines=[str(host.root / "engines/llama" / ("c" * 16))])
    assert host.has("engines/llama") == [f".{'f' * 16}.staging", "a" * 16, "c" * 16, f"{'d' * 16}.failed"]


def test_an_image_no_release_uses_goes_with_its_record(host: Host) -> None:
    for name in ("new", "old", "older"):
        host.image(name)
    host.call()
    assert ["docker", "image", "rm", "older"] in host.docker
    assert host.has("images") == ["new.json", "old.json"]


def test_an_image_some_container_uses_stays(host: Host) -> None:
    host.image("older")
    host.containers = "0123456789ab"
    host.call()
    assert host.has("images") == ["older.json"]


@pytest.mark.parametrize("fault", [{"active": "failed"}, {"active": "activating"}, {"swap": "activating"}])
def test_everything_stays_while_a_server_does_not_serve(host: Host, fault: dict[str, str]) -> None:
    host.make("weights/llama/r2", 1)
    host.make("weights/llama/r1", 2)
    vars(host).update(fault)
    host.call()
    assert host.has("weights/llama") == ["r1", "r2"]


def test_everything_stays_where_a_swap_was_cut(host: Host) -> None:
    host.make("cache/gone")
    (host.root / "servers/main/swap.json").write_text("{}")
    host.call()
    assert host.has("cache") == ["gone"]


def test_listing_says_what_would_go_and_touches_nothing(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.make("weights/llama/r2", 1)
    host.make("weights/llama/r1", 2)
    host.call("list")
    why = "no planned, current or previous release uses it, and 1 newer ones are kept"
    assert capsys.readouterr().out == f"{host.root}/weights/llama/r1 (1 MiB): {why}\n"
    assert host.has("weights/llama") == ["r1", "r2"]


def test_a_second_time_there_is_nothing_left(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.make("weights/llama/r2", 1)
    host.make("weights/llama/r1", 2)
    host.image("older")
    host.call()
    capsys.readouterr()
    host.call("list")
    assert capsys.readouterr().out == ""


def test_what_an_interrupted_removal_left_goes(host: Host) -> None:
    host.make("weights/llama/.r1.removing")
    host.call()
    assert host.has("weights/llama") == []


def test_a_transfer_of_an_engine_goes_once_the_engine_is_there(host: Host) -> None:
    """Another one may still be arriving."""
    host.make(f"engines/llama/{'a' * 16}")
    host.make(f"engines/llama/.{'a' * 16}.incoming", 1)
    host.make(f"engines/llama/.{'b' * 16}.incoming", 1)
    host.call()
    assert host.has("engines/llama") == [f".{'b' * 16}.incoming", "a" * 16]


def test_engines_of_the_current_and_the_previous_release_stay_however_old(host: Host) -> None:
    """What both load is in their mounts; both would be needed again by a rollback."""
    for age, name in enumerate("abcd"):
        host.make(f"engines/llama/{name * 16}", age)
    for release, name in (("now", "c"), ("before", "d")):
        (host.root / f"releases/{release}/run").write_text(f"source={host.root}/engines/llama/{name * 16},target=x")
    host.call()
    assert host.has("engines/llama") == ["a" * 16, "c" * 16, "d" * 16]


def test_a_transfer_nobody_continues_goes_after_a_week(host: Host) -> None:
    for path in ("weights/llama/.old.partial", "releases/.old.partial"):
        made = host.make(path)
        os.utime(made / "file", (1_000_000_000, 1_000_000_000))
    host.call()
    assert (host.has("weights/llama"), host.has("releases")) == ([], ["before", "now"])


def test_one_that_was_written_to_lately_stays(host: Host) -> None:
    host.make("weights/llama/.new.partial")
    host.call()
    assert host.has("weights/llama") == [".new.partial"]
