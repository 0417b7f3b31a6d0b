"""The swap transaction against a systemd that does what a test says: serve, put back, stop, survive being cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.roles.loading import program

swap = program("triton/host/swap.py")


class FakeHost:
    """/var/lib/enginehouse in a folder, and a systemd whose unit becomes active only for `good` releases."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.good, self.active, self.calls = root, set[str](), "inactive", list[str]()
        (root / "servers" / "main").mkdir(parents=True)
        (root / "releases").mkdir()
        monkeypatch.setattr(swap, "ROOT", root)
        monkeypatch.setattr(swap.Server, "systemctl", self.systemctl)
        monkeypatch.setattr(swap.Server, "show", self.show)
        monkeypatch.setattr(swap.time, "sleep", lambda seconds: None)

    def systemctl(self, *arguments: str) -> None:
        self.calls.append(arguments[0])
        if arguments[0] == "start":
            self.active = "active" if self.link("current") in self.good else "failed"
        if arguments[0] == "stop":
            self.active = "inactive"

    def show(self, *properties: str) -> dict[str, str]:
        return dict.fromkeys(properties, "") | {"ActiveState": self.active, "NRestarts": "0", "Job": "0"}

    def publish(self, release: str, good: bool = True) -> None:
        path = self.root / "releases" / release
        path.mkdir()
        (path / "server.json").write_text(
            json.dumps({"server": "main", "start_seconds": 1, "image": {"pull_reference": "image@sha256:1"}})
        )
        self.good |= {release} if good else set()

    def ask(self, release: str, keep: int = 3) -> int:
        wanted = {"release": release, "plan": "plan-1", "keep": keep, "who": "me@here"}
        (self.root / "servers/main/wanted.json").write_text(json.dumps(wanted))
        return self.call("swap")

    def call(self, verb: str) -> int:
        swap.sys.argv = ["swap.py", verb, "main"]
        return int(swap.main())

    def link(self, name: str) -> str:
        path = self.root / "servers/main" / name
        return path.resolve().name if path.is_symlink() else ""

    def cut(self, before: str, target: str) -> None:
        """What a power cut in the middle of a swap leaves behind."""
        (self.root / "servers/main/swap.json").write_text(json.dumps({"from": before, "to": target, "pid": 1}))

    @property
    def links(self) -> tuple[str, str]:
        return self.link("current"), self.link("previous")

    @property
    def verdict(self) -> dict[str, Any]:
        return dict(json.loads((self.root / "servers/main/verdict.json").read_text()))

    @property
    def history(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.root / "history.jsonl").read_text().splitlines()]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A host with releases one and two, which serve, and bad, which never does."""
    made = FakeHost(tmp_path, monkeypatch)
    made.publish("one")
    made.publish("two")
    made.publish("bad", good=False)
    return made


def test_the_first_release_serves_and_there_is_no_previous(machine: FakeHost) -> None:
    assert (machine.ask("one"), machine.links, machine.active) == (0, ("one", ""), "active")


def test_the_release_that_served_becomes_previous(machine: FakeHost) -> None:
    machine.ask("one")
    assert (machine.ask("two"), machine.links) == (0, ("two", "one"))


def test_a_release_that_never_serves_leaves_the_previous_serving_again(machine: FakeHost) -> None:
    machine.ask("one")
    assert (machine.ask("bad"), machine.links, machine.active) == (1, ("one", ""), "active")


def test_the_verdict_says_what_was_put_back(machine: FakeHost) -> None:
    machine.ask("one")
    machine.ask("bad")
    assert machine.verdict["sentence"] == "bad does not serve; one is put back and serves"


def test_a_first_release_that_never_serves_leaves_nothing_half(machine: FakeHost) -> None:
    assert (machine.ask("bad"), machine.links, machine.active) == (1, ("", ""), "inactive")
    assert machine.verdict["sentence"] == ("bad does not serve; nothing served before, so the server is stopped")


def test_rolling_back_twice_goes_forward_again(machine: FakeHost) -> None:
    machine.ask("one")
    machine.ask("two")
    assert (machine.ask("previous"), machine.links) == (0, ("one", "two"))
    assert (machine.ask("previous"), machine.links) == (0, ("two", "one"))


def test_rolling_back_without_an_earlier_release_touches_nothing(machine: FakeHost) -> None:
    machine.ask("one")
    machine.calls.clear()
    assert (machine.ask("previous"), machine.calls, machine.verdict["result"]) == (1, [], "unchanged")


def test_going_back_with_nothing_to_go_back_to_says_so_and_what_to_type(machine: FakeHost) -> None:
    machine.ask("one")
    machine.ask("previous")
    assert (machine.verdict["sentence"], machine.verdict["reason"]) == (
        "an earlier release was not tried; what served goes on",
        "this server keeps none; deploy.py brings the release that the inventory names",
    )


def test_a_release_that_is_not_on_the_host_touches_nothing(machine: FakeHost) -> None:
    machine.ask("one")
    machine.calls.clear()
    assert (machine.ask("gone"), machine.calls, machine.links) == (1, [], ("one", ""))


def test_asking_for_what_serves_stops_nothing(machine: FakeHost) -> None:
    machine.ask("one")
    machine.calls.clear()
    assert (machine.ask("one"), "stop" in machine.calls) == (0, False)


def test_a_cut_swap_is_undone_before_the_unit_starts_at_boot(machine: FakeHost) -> None:
    machine.ask("one")
    swap.Server("main").point("current", "two")
    machine.cut("one", "two")
    assert (machine.call("recover"), machine.links) == (0, ("one", ""))


def test_a_cut_first_swap_leaves_nothing_to_start_at_boot(machine: FakeHost) -> None:
    swap.Server("main").point("current", "one")
    machine.cut("", "one")
    assert (machine.call("recover"), machine.links) == (1, ("", ""))


def test_a_killed_swap_is_undone_and_the_previous_release_started(machine: FakeHost) -> None:
    machine.ask("one")
    swap.Server("main").point("current", "two")
    machine.cut("one", "two")
    machine.calls.clear()
    assert (machine.call("undo"), machine.links, machine.calls) == (0, ("one", ""), ["stop", "start"])


@pytest.mark.parametrize(("release", "end"), [("two", "serves"), ("bad", "put back")])
def test_a_power_cut_after_the_end_of_a_swap_undoes_nothing(
    machine: FakeHost, monkeypatch: pytest.MonkeyPatch, release: str, end: str
) -> None:
    machine.ask("one")
    swap_file, on_disk = machine.root / "servers/main/swap.json", [True]
    monkeypatch.setattr(swap, "flush", lambda directory: on_disk.append(swap_file.exists()))
    monkeypatch.setattr(swap.Server, "record", lambda server, entry: on_disk.append(on_disk[-1]))
    machine.ask(release)
    assert (machine.verdict["result"], on_disk[-2]) == (end, False)


def test_undo_after_a_swap_that_ended_does_nothing(machine: FakeHost) -> None:
    machine.ask("one")
    machine.calls.clear()
    assert (machine.call("undo"), machine.calls) == (0, [])


def test_a_start_during_a_live_swap_does_not_undo_it(machine: FakeHost) -> None:
    machine.ask("one")
    machine.cut("one", "two")
    with swap.Server("main").locked(wait=True):
        assert machine.call("recover") == 0
    assert (machine.root / "servers/main/swap.json").exists()


def test_every_swap_leaves_one_line_of_history(machine: FakeHost) -> None:
    machine.ask("one")
    machine.ask("bad")
    assert [(line["release"], line["result"], line["plan"], line["who"]) for line in machine.history] == [
        ("one", "serves", "plan-1", "me@here"),
        ("bad", "put back", "plan-1", "me@here"),
    ]


def test_old_releases_go_but_never_current_or_previous(machine: FakeHost) -> None:
    machine.ask("one")
    machine.ask("two", keep=0)
    assert sorted(path.name for path in (machine.root / "releases").iterdir()) == ["one", "two"]
