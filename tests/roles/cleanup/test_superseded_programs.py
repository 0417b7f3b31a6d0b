"""Loose programs of the earlier version, used by its units, are kept while a unit may start them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from host import places, superseded_programs
from tests.roles.cleanup.spares import Host

UNIT = "[Service]\nExecStart=/usr/bin/python3 {programs}/swap.py swap %i\n"
"""Unit of the previous version."""


@pytest.fixture
def old(host: Host) -> Host:
    """A host that the version before deployed to and this version updated, except for the test's remainder."""
    places.PROGRAMS.mkdir()
    for name in (*superseded_programs.NAMES, "patient-apt", "prepare.sh"):
        (places.PROGRAMS / name).write_text("")
    write(places.UNITS / "triton@.service", "[Service]\nExecCondition=/usr/bin/python3 /x/host swap recover %i\n")
    return host


def write(path: Path, text: str) -> None:
    """Writes a file of the host."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(programs=places.PROGRAMS))


def left() -> set[str]:
    """Loose Python programs that are still there."""
    return {path.name for path in places.PROGRAMS.iterdir()} & set(superseded_programs.NAMES)


def test_unnamed_loose_programs_are_removed_and_shell_files_stay(old: Host) -> None:
    old.call()
    assert sorted(path.name for path in places.PROGRAMS.iterdir()) == ["patient-apt", "prepare.sh"]


def test_loose_programs_are_listed_before_their_removal(old: Host, capsys: pytest.CaptureFixture[str]) -> None:
    old.call("list")
    assert "swap.py: a program of an earlier version that no unit starts" in capsys.readouterr().out
    assert left() == set(superseded_programs.NAMES)


@pytest.mark.parametrize(
    "where",
    [
        lambda host: places.UNITS / "enginehouse-swap@.service",
        lambda host: places.UNITS / "enginehouse-swap@.service.d/52-enginehouse-gate.conf",
        lambda host: superseded_programs.TRANSIENT / "enginehouse-undo-docker.service",
        lambda host: places.SETTINGS / "undo/units-triton/0",
        lambda host: superseded_programs.PROCESSES / "17/cmdline",
    ],
    ids=["a unit", "a drop-in", "a timer that reverts", "a unit that would be reverted", "a process"],
)
def test_all_loose_programs_stay_while_one_is_named_by(old: Host, where: Callable[[Host], Path]) -> None:
    write(where(old), UNIT)
    old.call()
    assert left() == set(superseded_programs.NAMES)


def test_loose_programs_stay_while_a_server_does_not_serve(old: Host) -> None:
    old.active = "failed"
    old.call()
    assert left() == set(superseded_programs.NAMES)
