"""Figures of `benchmarks/doctor.py`, and the names of its machines."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from benchmarks.converge import name_them
from benchmarks.doctor import summary
from rehearsal import ssh
from rehearsal.machine import Machine
from rehearsal.places import Places


def test_names_are_those_of_the_machines_in_turn(tmp_path: Path) -> None:
    places = Places(tmp_path)
    ssh.write_config(places, [("d13a", "10.0.0.1", "key"), ("e1", "10.0.0.2", "key")])
    known = [cast(Machine, SimpleNamespace(name=name, ssh_config=places.ssh_config)) for name in ("d13a", "e1")]
    name_them(known, 3)
    lines = [line.split() for line in (tmp_path / "names_config").read_text().splitlines()]
    names = [words[1] for words in lines if words and words[0] in ("Host", "HostName")]
    assert names == ["n000", "10.0.0.1", "n001", "10.0.0.2", "n002", "10.0.0.1"]


def test_the_cost_of_a_question_comes_from_the_smallest_run() -> None:
    """The cost comes from the smallest run, the ratio from the largest."""
    runs: list[dict[str, Any]] = [
        {"names": 32, "seconds": 12.0, "ssh_true_seconds": 3.0, "host_cpu_milliseconds": 900},
        {"names": 1, "seconds": 3.0, "ssh_true_seconds": 0.3, "host_cpu_milliseconds": 310},
    ]
    for run in runs:
        run["ssh_true_host_cpu_milliseconds"] = 62
    figures = summary(runs, 0.02, 8, 31)
    assert (figures["host_cpu_milliseconds_a_question"], figures["ratio"], figures["idle_cpu_percent"]) == (
        10.0,
        4.0,
        2.0,
    )
    assert figures["host_cpu_milliseconds_a_question_without_login"] == 8.0
