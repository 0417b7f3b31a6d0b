"""The swap transaction with a systemd controlled by the test: serve, put back, stop, survive an interruption."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from host import disk, places
from roles.triton.run_history import Changes
from tests.roles.triton.swapping import FakeHost, server


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A host with releases one and two, which serve, and bad, which never does."""
    return FakeHost.with_releases(tmp_path, monkeypatch)


def test_the_first_release_serves_and_there_is_no_previous(machine: FakeHost) -> None:
    assert (machine.ask("one"), machine.links, machine.active) == (0, ("one", ""), "active")


def test_the_release_that_served_becomes_previous(machine: FakeHost) -> None:
    machine.ask("one")
    assert (machine.ask("two"), machine.links) == (0, ("two", "one"))


def test_a_release_that_never_serves_leaves_the_previous_serving_again(machine: FakeHost) -> None:
    machine.ask("one")
    assert (machine.ask("bad"), machine.links, machine.active) == (1, ("one", ""), "active")


def test_the_verdict_names_the_restored_release(machine: FakeHost) -> None:
    machine.ask("one")
    machine.ask("bad")
    assert machine.verdict["sentence"] == "bad does not serve; one is put back and serves"


def test_a_rollback_stays_on_record_with_its_run_until_the_next_swap(machine: FakeHost) -> None:
    """The other hosts of a group learn of the rollback from the record."""
    record = machine.root / "servers/main/put-back.json"
    machine.ask("one", run="run-1")
    machine.ask("bad", run="run-2")
    assert json.loads(record.read_text()) == {"release": "bad", "run": "run-2"}
    machine.ask("two", run="run-3")
    assert not record.exists()


def test_a_first_release_that_never_serves_leaves_nothing_half(machine: FakeHost) -> None:
    assert (machine.ask("bad"), machine.links, machine.active) == (1, ("", ""), "inactive")
    assert machine.verdict["sentence"] == ("bad does not serve; nothing served before, so the server is stopped")


def test_a_release_that_is_not_on_the_host_touches_nothing(machine: FakeHost) -> None:
    machine.ask("one")
    machine.calls.clear()
    assert (machine.ask("gone"), machine.calls, machine.links) == (1, [], ("one", ""))


def test_a_swap_to_the_serving_release_stops_nothing(machine: FakeHost) -> None:
    machine.ask("one")
    machine.calls.clear()
    assert (machine.ask("one"), "stop" in machine.calls) == (0, False)


def test_a_failed_start_of_the_only_release_is_retried_at_boot(machine: FakeHost) -> None:
    """The cause may be a GPU or a mount that a boot repairs; no other release could serve."""
    machine.ask("one")
    machine.units["triton@main.service"] = "failed"
    machine.good.clear()
    machine.calls.clear()
    assert (machine.ask("one"), machine.links, machine.calls.count("start")) == (1, ("one", ""), 1)
    assert machine.verdict["sentence"] == "one does not serve; the next boot starts it again"
    assert machine.call("recover") == 0


def test_a_first_release_cut_during_its_restart_starts_at_boot(machine: FakeHost) -> None:
    machine.ask("one")
    machine.cut("one", "one")
    assert (machine.call("recover"), machine.links) == (0, ("one", ""))


def full(machine: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the disk too full for verdicts and lines of history."""

    def write(path: Path, content: dict[str, object]) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "replace_durably", write)
    (machine.root / "history.jsonl").unlink(missing_ok=True)
    (machine.root / "history.jsonl").mkdir()


def test_a_full_disk_loses_a_cut_swaps_record_and_stops_no_server(
    machine: FakeHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.ask("one")
    machine.cut("one", "two")
    full(machine, monkeypatch)
    assert (machine.call("undo"), machine.links, machine.active) == (0, ("one", ""), "active")
    assert "history.jsonl could not be written" in (errors := capsys.readouterr().err)
    assert "the verdict was not written" in errors


def without_inodes(this: Path, target: Path) -> None:
    raise OSError(28, "No space left on device")


def test_a_swap_without_an_inode_for_its_link_stops_nothing(machine: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.ask("one")
    machine.calls.clear()
    monkeypatch.setattr(Path, "symlink_to", without_inodes)
    assert (machine.ask("two"), machine.links, machine.active) == (1, ("one", ""), "active")
    assert "stop" not in machine.calls
    assert machine.verdict["sentence"] == "two was not tried; the serving release stays in service"
    assert "the swap did not begin, and nothing was stopped: " in machine.verdict["reason"]


def test_a_swap_stops_nothing_if_docker_has_no_room_for_a_container(
    machine: FakeHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The earlier release could not start again either."""
    machine.ask("one")
    machine.calls.clear()
    settings = tmp_path / "daemon.json"
    settings.write_text(json.dumps({"data-root": "/srv/docker"}))
    monkeypatch.setattr(places, "DOCKER", settings)
    usage = SimpleNamespace(free=63 * 2**20)
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda path: {Path("/srv/docker"): usage}[path])
    assert (machine.ask("two"), machine.links, machine.active) == (1, ("one", ""), "active")
    assert "stop" not in machine.calls
    assert "nothing was stopped: 63 MiB are free in /srv/docker, 64 are needed" in machine.verdict["reason"]


def test_a_swap_that_was_cut_before_its_link_is_undone_without_an_inode(
    machine: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.ask("one")
    machine.cut("one", "one")
    monkeypatch.setattr(Path, "symlink_to", without_inodes)
    assert (machine.call("undo"), machine.links, machine.active) == (0, ("one", ""), "active")


def test_a_cut_swap_that_cannot_be_undone_is_tried_again_by_systemd(
    machine: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ExecCondition's exit status of 1 to 254 would skip the start for good."""
    machine.ask("one")
    machine.cut("one", "two")

    def point(this: object, link: str, release: str) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(server.Server, "point", point)
    assert machine.call("recover") == 255


def test_a_cut_swap_is_undone_before_the_unit_starts_at_boot(machine: FakeHost) -> None:
    machine.ask("one")
    machine.cut("one", "two")
    assert (machine.call("recover"), machine.links) == (0, ("one", ""))


def test_a_cut_first_swap_leaves_nothing_to_start_at_boot(machine: FakeHost) -> None:
    machine.cut("", "one")
    assert (machine.call("recover"), machine.links) == (1, ("", ""))


def test_a_killed_swap_is_undone_and_the_previous_release_started(machine: FakeHost) -> None:
    machine.ask("one")
    machine.cut("one", "two")
    machine.calls.clear()
    assert (machine.call("undo"), machine.links, machine.calls) == (0, ("one", ""), ["stop", "start"])


@pytest.mark.parametrize(("release", "end"), [("two", "serves"), ("bad", "put back")])
def test_a_power_cut_after_the_end_of_a_swap_undoes_nothing(
    machine: FakeHost, monkeypatch: pytest.MonkeyPatch, release: str, end: str
) -> None:
    machine.ask("one")
    swap_file, on_disk = machine.root / "servers/main/swap.json", [True]
    monkeypatch.setattr(disk, "flush", lambda directory: on_disk.append(swap_file.exists()))
    monkeypatch.setattr(server.Server, "record", lambda server, entry: on_disk.append(on_disk[-1]))
    machine.ask(release)
    assert (machine.verdict["result"], on_disk[-2]) == (end, False)


def test_undo_after_a_swap_that_ended_does_nothing(machine: FakeHost) -> None:
    machine.ask("one")
    machine.calls.clear()
    assert (machine.call("undo"), machine.calls) == (0, [])


def test_a_start_during_a_live_swap_does_not_undo_it(machine: FakeHost) -> None:
    machine.ask("one")
    machine.cut("one", "two")
    with server.Server("main").locked(wait=True):
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
    for release in (machine.root / "releases").iterdir():
        os.utime(release, (1_000_000_000, 1_000_000_000))
    machine.ask("one")
    machine.ask("two", keep=0)
    assert sorted(path.name for path in (machine.root / "releases").iterdir()) == ["one", "two"]


@pytest.mark.parametrize("release", ["one", "two", "bad"])
def test_the_verdict_names_its_requester(machine: FakeHost, release: str) -> None:
    machine.ask("one")
    machine.ask("two")
    machine.ask(release)
    assert (machine.verdict["asked"], machine.verdict["release"]) == (f"for {release}", release)


def test_the_history_names_run_and_wave_of_every_swap(machine: FakeHost) -> None:
    machine.ask("one", run="run-1", wave=1)
    machine.ask("bad", run="run-2", wave=3)
    machine.ask("two", run="run-3", wave=2, back="run-1")
    entries = [(line["run"], line["wave"], line.get("back"), line["result"]) for line in machine.history]
    assert entries == [("run-1", 1, None, "serves"), ("run-2", 3, None, "put back"), ("run-3", 2, "run-1", "serves")]


def test_a_cut_swap_is_remembered_under_the_run_that_began_it(machine: FakeHost) -> None:
    """The next run has written its own request by then."""
    machine.ask("one", run="run-1", wave=1)
    machine.cut("one", "two", run="run-2", wave=4)
    machine.ask("two", run="run-3", wave=1)
    entries = [(line["run"], line["wave"], line["result"]) for line in machine.history]
    assert entries == [("run-1", 1, "serves"), ("run-2", 4, "put back"), ("run-3", 1, "serves")]


def test_a_swap_under_way_names_its_run(machine: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        server.Server, "start", lambda this, release: seen.append((machine.root / "servers/main/swap.json").read_text())
    )
    machine.ask("one", run="run-1", wave=1)
    assert '"run": "run-1", "wave": 1' in seen[0]


def test_the_verdict_compares_how_fast_each_model_answers_with_the_release_before(machine: FakeHost) -> None:
    """Each release recorded its times in its own proof; an older version recorded none."""
    machine.ask("one")
    assert (machine.verdict["answers"], machine.verdict["answers_before"]) == ({}, {})
    machine.answers = {"one": {"rank": 0.2}, "two": {"rank": 0.5}}
    (machine.root / "servers/main/proof.json").write_text(json.dumps(machine.proof("one")))
    machine.ask("two")
    assert (machine.verdict["answers"], machine.verdict["answers_before"]) == ({"rank": 0.5}, {"rank": 0.2})


def test_a_rollback_reads_the_record_that_a_swap_writes(machine: FakeHost) -> None:
    """The real question is put to the real file."""
    for number, release in enumerate(("one", "two", "bad", "two"), start=1):
        machine.ask(release, run=f"run-{number}", wave=1)
    fact = Changes()
    command = fact.command().replace("/var/lib/enginehouse", str(machine.root))
    lines = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout.splitlines()
    changes = [(change.run, change.server, change.before, change.release) for change in fact.process(lines)]
    assert changes == [("run-1", "main", "", "one"), ("run-2", "main", "one", "two")]
