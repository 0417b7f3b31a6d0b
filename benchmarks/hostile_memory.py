"""Memory of the hostile benchmark's gateway process and its children during a load."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gateway.processes import resident_kib

MEMORY_MAX_MIB = 4096
"""MiB: `MemoryMax` of templates/gateway/enginehouse-gateway@.service.j2, 2026-11-25."""
SAMPLE_SECONDS = 0.05
SHARED_SAMPLES = 10
"""Proportional memory is read this many times less often: the reading holds a lock of the process for long."""


class Memory:
    """Peak memory of a watched process and its children: MiB resident, and MiB of their proportional share."""

    def __init__(self, pid: int) -> None:
        self._pid, self._stopped = pid, threading.Event()
        self.resident_mib = self.shared_mib = 0.0
        self.is_killed = False
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        samples = 0
        while not self._stopped.wait(SAMPLE_SECONDS):
            pids = family(self._pid)
            self.resident_mib = max(self.resident_mib, sum(map(resident_mib, pids)))
            if samples % SHARED_SAMPLES == 0:
                self.shared_mib = max(self.shared_mib, sum(map(proportional_mib, pids)))
            samples += 1
            if self.resident_mib > MEMORY_MAX_MIB and not self.is_killed:
                self.is_killed = True
                kill(pids)


def family(pid: int) -> list[int]:
    """Returns the process with all its descendants."""
    pids = [pid]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                children = (task / "children").read_text().split()
                pids += [member for child in children for member in family(int(child))]
    return pids


def resident_mib(pid: int) -> float:
    """Returns the memory of a process that may have ended."""
    with contextlib.suppress(OSError):
        return resident_kib(pid) / 1024
    return 0.0


def proportional_mib(pid: int) -> float:
    """Returns MiB of a process's memory; a shared page counts in parts."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return 0.0


def kill(pids: Sequence[int]) -> None:
    """Kills the processes."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
