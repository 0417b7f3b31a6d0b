"""Memory of a GPU: nvidia-smi on its machine, read until it is stable, or continuously."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

USED = "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits --id=0"
USED_BY_GPU = "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits"
PROCESSES = "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader,nounits --id=0"
EQUAL, MOST_READINGS = 4, 120
READING_SECONDS = 0.25
Sample = dict[str, float]


class Machine(Protocol):
    """A machine whose commands run as root: `rehearsal.machine.Machine`, or `Here`."""

    def run(self, command: str, *, check: bool = True, timeout: float | None = 300
            ) -> subprocess.CompletedProcess[str]: ...  # fmt: skip


class Here:
    """This computer."""

    def run(self, command: str, *, check: bool = True, timeout: float | None = 300
            ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Returns the ended command. Raises on a non-zero exit if `check` is true."""
        return subprocess.run(["sh", "-c", command], check=check, timeout=timeout, capture_output=True, text=True)


def used_mib(machine: Machine) -> int:
    """Returns MiB of GPU 0 that all processes together use."""
    return int(machine.run(USED).stdout)


def used_mib_by_gpu(machine: Machine) -> list[int]:
    """Returns used MiB of each GPU, in their order."""
    return [int(line) for line in machine.run(USED_BY_GPU).stdout.splitlines()]


def settled_mib(machine: Machine, pause: Callable[[float], None] = time.sleep) -> int:
    """Returns used MiB of GPU 0 after EQUAL equal readings in a row; else the last of MOST_READINGS."""
    readings = [used_mib(machine)]
    while len(readings) < MOST_READINGS and (len(readings) < EQUAL or len(set(readings[-EQUAL:])) > 1):
        pause(READING_SECONDS)
        readings.append(used_mib(machine))
    return readings[-1]


def processes(machine: Machine) -> list[dict[str, Any]]:
    """Returns the processes that nvidia-smi shows on GPU 0, with their MiB; it shows none in a container."""
    rows = [line.split(", ") for line in machine.run(PROCESSES, check=False).stdout.splitlines()]
    return [
        {"pid": int(row[0]), "program": row[1].rsplit("/", 1)[-1], "mib": int(row[2]) if row[2].isdigit() else None}
        for row in rows
        if len(row) == 3 and row[0].isdigit()
    ]


@contextmanager
def watched(look: Callable[[], Sample], every: float = READING_SECONDS) -> Iterator[list[Sample]]:
    """Yields samples of `look` taken until the end of the block, the first before it begins.

    Raises: any exception of `look`.
    """
    samples, troubles, ended = [look()], list[Exception](), threading.Event()

    def watch() -> None:
        while not ended.wait(every):
            try:
                samples.append(look())
            except Exception as trouble:
                troubles.append(trouble)
                return

    thread = threading.Thread(target=watch, name="watch", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()
    if troubles:
        raise troubles[0]
