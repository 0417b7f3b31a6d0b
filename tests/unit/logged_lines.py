"""Lines of logs from public sources, with the expected finding of each: tests/unit/logged_lines.txt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_suffix(".txt")


@dataclass(frozen=True)
class Logged:
    """A line of a log; `part` is the log, `batch` the time when the line was read."""

    batch: str
    part: str
    kind: str
    source: str
    line: str


def _read(row: str) -> Logged:
    head, kind, source, line = row.split(" | ", 3)
    batch, part = head.split()
    return Logged(batch, part, kind, source, line)


LOGGED = tuple(_read(row) for row in FILE.read_text("utf-8").splitlines() if row and not row.startswith("#"))
NOISE = tuple(logged for logged in LOGGED if logged.batch == "noise")
SERVER = tuple(logged for logged in LOGGED if logged.part == "server" and logged.batch != "noise")
KERNEL = tuple(logged for logged in LOGGED if logged.part == "kernel" and logged.batch != "noise")
