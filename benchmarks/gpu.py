"""The GPU and this machine, the GPU's memory in use and its load, from nvidia-smi."""

import os
import platform
import statistics
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

EVERY_SECONDS = 0.5


def machine(device: str) -> dict[str, object]:
    """Returns the result's facts about the machine."""
    import tokenizers
    import torch

    row: dict[str, object] = {"cpu": _cpu(), "cores": len(os.sched_getaffinity(0))}
    if device != "cpu":
        row["gpu"], row["driver"] = (part.strip() for part in _smi("name,driver_version").split(","))
    versions = {"python": platform.python_version(), "torch": torch.__version__, "tokenizers": tokenizers.__version__}
    return row | versions | {"triton": "2.51.0 (nvidia-pytriton 0.7.0)"}


def used_mib(device: str) -> int:
    """Returns MiB of GPU memory that all processes together use; 0 on a CPU."""
    return 0 if device == "cpu" else int(_smi("memory.used"))


@contextmanager
def peak_mib(device: str) -> Iterator[list[int]]:
    """Yields a list with one number: the peak of used memory, read twice a second until the end of the block."""
    seen = [used_mib(device)]
    if device == "cpu":
        yield seen
        return
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(device, seen, ended), daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join(10)


@contextmanager
def strain(device: str) -> Iterator[dict[str, float]]:
    """Yields median clock of the multiprocessors (`sm_mhz`) and power (`watts`), filled at the end of the block.

    They distinguish a GPU limited by its power cap (H100 SXM: 700 W; 1,980 MHz without it) from a waiting one.
    """
    strained: dict[str, float] = {}
    if device == "cpu":
        yield strained
        return
    seen: list[tuple[float, float]] = []
    ended = threading.Event()
    thread = threading.Thread(target=_feel, args=(seen, ended), daemon=True)
    thread.start()
    try:
        yield strained
    finally:
        ended.set()
        thread.join(10)
        if seen:
            clocks, powers = zip(*seen, strict=True)
            strained |= {"sm_mhz": statistics.median(clocks), "watts": statistics.median(powers)}


def _feel(seen: list[tuple[float, float]], ended: threading.Event) -> None:
    while not ended.wait(EVERY_SECONDS):
        with suppress(subprocess.CalledProcessError, ValueError):  # a failed reading is skipped
            clock, power = _smi("clocks.sm,power.draw").split(",")
            seen.append((float(clock), float(power)))


def _watch(device: str, seen: list[int], ended: threading.Event) -> None:
    while not ended.wait(EVERY_SECONDS):
        seen[0] = max(seen[0], used_mib(device))


def _smi(fields: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "--id=0"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
