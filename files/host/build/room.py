"""Checks the room for a build: disk for the engines, and free memory on each of its GPUs.

A build does not start without enough room, and does not wait for it: it names the processes that use the memory.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from host import nvidia_smi, systemd
from host.nvidia_smi import NoAnswer

MIB = 1 << 20
CGROUPS = Path("/proc")


@dataclass(frozen=True)
class Gpu:
    """A GPU's current state from nvidia-smi."""

    index: str
    uuid: str
    name: str
    driver: str
    sm: str
    free_mib: int


def gpus() -> list[Gpu]:
    """Every GPU of this host. Raises NoAnswer if nvidia-smi fails."""
    rows = nvidia_smi.query("--query-gpu=index,uuid,name,driver_version,compute_cap,memory.free")
    return [
        Gpu(index, uuid, name, driver, sm.replace(".", ""), int(free)) for index, uuid, name, driver, sm, free in rows
    ]


def disk_problem(place: Path, needed_mib: int) -> str:
    """A sentence if the disk is too full; empty if it is not."""
    free = shutil.disk_usage(place).free // MIB
    if free >= needed_mib:
        return ""
    return (
        f"the build needs {needed_mib:,} MiB of disk and {free:,} are free under {place}\n"
        "  try     free some (old images, old weights), or declare a larger data disk"
    )


def is_slice(device: str) -> bool:
    """True for a MIG instance, whose free memory nvidia-smi does not report."""
    return ":" in device.partition("=")[2] or device.partition("=")[2].startswith("MIG-")


def chosen(devices: list[str], here: list[Gpu]) -> list[Gpu]:
    """The GPUs that CDI devices name; a MIG instance counts as its card."""
    names = {device.partition("=")[2].partition(":")[0] for device in devices}
    return [gpu for gpu in here if "all" in names or gpu.index in names or gpu.uuid in names]


def absent_problem(devices: list[str], here: list[Gpu]) -> str:
    """A sentence if a device does not exist on this host; empty if all exist."""
    absent = [device for device in devices if not is_slice(device) and not chosen([device], here)]
    if not absent:
        return ""
    indices = ", ".join(gpu.index for gpu in here) or "none"
    return f"{absent[0]} is not on this host: nvidia-smi lists {indices}\n  try     nvidia-ctk cdi list on the host"


def gpu_problem(wanted: list[Gpu], needed_mib: int, servers: list[str]) -> str:
    """A sentence if a GPU has too little free memory, with its users; empty if all have enough."""
    short = [gpu for gpu in wanted if gpu.free_mib < needed_mib]
    if not short:
        return ""
    rows = [f"  found   GPU {gpu.index}, {gpu.name}: {gpu.free_mib:,} MiB free" for gpu in short]
    serving = [name for name in servers if is_active(name)]
    rows += [f"  used    by {who}" for who in holders(short)]
    rows += [f"  serves  triton@{name}.service, on the GPUs this build was given" for name in serving]
    what = f"stop {serving[0]} (systemctl stop triton@{serving[0]})" if serving else "stop what uses the GPU"
    head = f"the build needs {needed_mib:,} MiB free on each of its GPUs"
    return "\n".join(
        [head, *rows, f"  try     a build never waits for memory: {what}, or build on another host (build.py, a farm host)"]
    )


def sm_problem(wanted: list[Gpu], sm: str) -> str:
    """A sentence if a GPU has another SM than the engine's plan: the engine would be built, but refused at load."""
    mismatched = [gpu for gpu in wanted if sm and gpu.sm != sm]
    if not mismatched:
        return ""
    return (
        f"GPU {mismatched[0].index} is a {mismatched[0].name} of SM {mismatched[0].sm}, and the engine is planned for SM {sm}\n"
        "  try     correct the GPU in the inventory: an engine runs only on the SM on which it was built"
    )


def is_active(server: str) -> bool:
    return systemd.active_states(f"triton@{server}.service")[0] in ("active", "activating", "reloading")


def holders(short: list[Gpu]) -> list[str]:
    """Processes on those GPUs, each by its container's name if it has one."""
    try:
        rows = nvidia_smi.query("--query-compute-apps=gpu_uuid,pid,used_memory,process_name")
    except NoAnswer:
        return []
    mine = {gpu.uuid for gpu in short}
    return [f"{_owner(row[1], row[3])}, {row[2]} MiB" for row in rows if len(row) >= 4 and row[0] in mine]


def _owner(pid: str, process: str) -> str:
    try:
        cgroup = (CGROUPS / pid / "cgroup").read_text()
    except OSError:
        return f"{process} (process {pid})"
    container = re.search(r"docker[-/]([0-9a-f]{12,64})", cgroup)
    if not container:
        return f"{process} (process {pid})"
    command = ["docker", "inspect", "--format", "{{.Name}}", container[1]]
    name = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip().lstrip("/")
    return f"container {name or container[1][:12]}"
