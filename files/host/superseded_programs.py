"""Programs of the version before this package: loose files that a host's units used until they were replaced.

They are removed at the end of a deploy, once they can no longer be started: no unit uses them, no revertible change of
units does, and no process runs them. TODO: remove this module when no host is left that was deployed before 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from host import places

NAMES = (
    *("build.py", "build_causes.py", "build_container.py", "build_flags.py", "build_result.py", "build_room.py"),
    *("clean_up.py", "cuda_probe.py", "engine.py", "fetch.py", "fetch-apt-key", "gpu_state.py", "mig.py", "prove.py"),
    *("publish.py", "pull.py", "replay.py", "server.py", "swap.py", "undo.py", "watch.py"),
)
OURS = ("triton@*", "llm@*", "enginehouse-*")
TRANSIENT = Path("/run/systemd/transient")
"""Directory of systemd's timers that revert unconfirmed changes."""
PROCESSES = Path("/proc")


def superseded() -> list[Path]:
    """The old loose programs, sorted; none while one of them may still be started or run."""
    here = [places.PROGRAMS / name for name in NAMES if (places.PROGRAMS / name).is_file()]
    if not here:
        return []
    words = "\n".join([*units(), *unconfirmed(), *command_lines()])
    return [] if any(str(path) in words for path in here) else here


def units() -> Iterator[str]:
    for folder in (places.UNITS, TRANSIENT):
        for pattern in OURS:
            yield from (text_of(path) for path in folder.glob(pattern) if path.is_file())
            yield from (text_of(path) for path in folder.glob(f"{pattern}.d/*.conf"))


def unconfirmed() -> Iterator[str]:
    yield from (text_of(path) for path in (places.SETTINGS / "undo").glob("*/*") if path.is_file())


def command_lines() -> Iterator[str]:
    yield from (text_of(path).replace("\0", " ") for path in PROCESSES.glob("[0-9]*/cmdline"))


def text_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
