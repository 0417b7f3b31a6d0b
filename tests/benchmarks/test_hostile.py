"""The hostile benchmark: its figures, and a complete short run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import hostile, hostile_memory, hostile_tenant
from benchmarks.hostile_bodies import LOADS, repeated


def test_no_body_is_refused_by_its_length_alone() -> None:
    """16 MiB is the gateway's limit for which the loads were written; a larger body would be refused before any
    work."""
    largest = {load: max(len(body.content) for body in make()) for load, make in LOADS.items()}
    assert len(largest) == 12
    assert {load for load, size in largest.items() if size > 16 * 2**20 - 1024} == set()


def test_each_body_of_a_load_has_a_name_of_its_own() -> None:
    """Answers are counted by the body's name."""
    for load, make in LOADS.items():
        names = [body.name for body in make()]
        assert len(set(names)) == len(names), load


def test_pieces_fill_a_body_and_leave_it_json() -> None:
    assert repeated(b"[", b'{"":0},', b"]", 16) == b'[{"":0},{"":0}]'
    assert json.loads(repeated(b'{"a":[', b"0.1,", b"]}", 1024))["a"][-1] == 0.1


def test_a_gap_that_has_not_ended_counts_as_long_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that hangs until the end of the measurement must count as a long gap."""
    times = iter([10.0, 10.5, 11.0])
    monkeypatch.setattr(hostile_tenant.time, "monotonic", lambda: next(times))
    pace = hostile_tenant.Pace()
    for _ in range(3):
        pace.event()
    assert pace.all_seconds(14.0) == [0.5, 0.5, 3.0]
    pace.rests()
    assert pace.all_seconds(14.0) == [0.5, 0.5]
    assert (pace.has_gone_on(10.9), pace.has_gone_on(11.0)) == (True, False)


def test_memory_is_that_of_a_process_with_its_children() -> None:
    """A gateway parses and renders foreign input in child processes."""
    make = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen([sys.executable, "-c", make], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdin
        process.stdout.readline()
        pids = hostile_memory.family(process.pid)
        sizes = [hostile_memory.resident_mib(pid) for pid in pids]
        process.stdin.close()
    assert len(pids) == 2 and pids[0] == process.pid
    assert min(sizes) > 1
    assert hostile_memory.resident_mib(process.pid) == 0.0


def row(**changes: Any) -> dict[str, Any]:
    """Returns a load's result that meets the aims."""
    memory = {"before": 70, "resident": 90, "proportional": 60}
    longest = {"p50": 20.0, "p99": 30.0, "longest": 99.0}
    return {"went_on": True, "ended": None, "gap_ms": longest, "memory_mib": memory} | changes


@pytest.mark.parametrize(
    ("changes", "is_beyond"),
    [
        ({}, False),
        ({"gap_ms": {"longest": 100.1}}, True),
        ({"went_on": False}, True),
        ({"ended": "status 1"}, True),
        ({"memory_mib": {"resident": 2049}}, True),
    ],
)
def test_a_load_misses_its_aims_by_a_gap_memory_or_a_death(changes: dict[str, Any], is_beyond: bool) -> None:
    assert hostile.is_beyond(row(**changes)) is is_beyond


def test_a_short_run_reports_each_load_and_a_run_without_load(capfd: pytest.CaptureFixture[str]) -> None:
    """The good tenant streams, the bad one is answered, and the last line is the result."""
    hostile.main(["--loads", "long-lists", "--seconds", "1", "--streams", "2", "--connections", "1"])
    result = json.loads(capfd.readouterr().out.splitlines()[-1])
    none, lists = result["loads"]
    assert [row_["load"] for row_ in result["loads"]] == ["none", "long-lists"]
    assert none["answers"] == {} and none["short_chats"].keys() == {"200"} and none["streams_ended"] == {}
    assert none["events"] > 10 and none["memory_mib"]["resident"] > 10
    assert lists["answers"] and set(lists["answers"]) <= {body.name for body in LOADS["long-lists"]()}


def test_its_gateway_is_the_code_of_the_folder_that_was_named(tmp_path: Path) -> None:
    """With the code of the working tree, a commit would be measured against itself."""
    (tmp_path / "gateway").mkdir()
    (tmp_path / "gateway" / "__main__.py").write_text("import sys; print('mine', sys.argv[2]); sys.exit(3)")
    settings = tmp_path / "settings.json"
    settings.write_text("{}")
    with pytest.raises(TimeoutError), hostile.start_gateway(settings, tmp_path, 1, {}):
        pass
    assert settings.with_suffix(".log").read_text() == f"mine {settings}\n"
    assert hostile.named(tmp_path) == tmp_path.parent.name
