"""The scene of a run on a real GPU: folders, the machine, its card, and the settings of the inventory."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

from deploy.catalog import GPUS
from deploy.slices.host import Slice
from rehearsal import apt_repository, hardware, machines
from rehearsal.hardware import Hardware
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places, RehearsalRefused

REPORT = Path(os.environ.get("ENGINEHOUSE_REPORT", "/srv/report"))
TRAVELLED = Path(os.environ.get("ENGINEHOUSE_TRAVELLED", "/srv"))
OUTER = Path(os.environ.get("ENGINEHOUSE_OUTER", "/outer"))
TORCH = os.environ.get("ENGINEHOUSE_TORCH", "/usr/bin/python3")
# In memory, because the disk has to hold the image twice and the weights once.
CHECKPOINTS = Path("/dev/shm/checkpoints")
IMAGE = Path("/srv/image")
INVENTORY = "rehearsal/real_gpu/inventory.py"
NAME = "gpu"
READY_SECONDS = 300
SMI = ["nvidia-smi", "--format=csv,noheader,nounits"]
DRY_GPUS = 2
"""Stand-in cards of a dry pass: as many as the widest layout has."""
PLAN = """
import pickle, sys
from deploy.io.inventory import load_plan
sys.stdout.buffer.write(pickle.dumps(load_plan(sys.argv[1]).for_host(sys.argv[2])))
"""


def places() -> Places:
    """Returns the state directory of this run's machine."""
    return Places.here()


def real() -> bool:
    """Returns True if this computer has a GPU and the run is not a dry pass."""
    return Path("/dev/nvidiactl").exists() and os.environ.get("ENGINEHOUSE_REAL") != "no"


def settings() -> dict[str, Any]:
    """Returns the settings of the inventory, from real-gpu.json."""
    file = places().root / "real-gpu.json"
    overrides: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return {
        "real": real(),
        "gpu": "h100-80",
        "gpus": 1,
        "changed": False,
        "layout": "one",
        "image_mib": 512,
    } | overrides


def tell(**changes: Any) -> None:
    """Sets these fields of the inventory."""
    places().root.mkdir(parents=True, exist_ok=True)
    (places().root / "real-gpu.json").write_text(json.dumps(settings() | changes, indent=2) + "\n")


def machine() -> Machine:
    return machines.named(NAME)


def prepared(booted: Machine) -> None:
    """Gives the machine the rehearsal's Debian packages and a faster image unpacker than Docker's."""
    booted.put("/usr/share/keyrings/rehearsal.asc", (TRAVELLED / "packages/debian/key.asc").read_text())
    debian = f"{apt_repository.URL}/debian"
    source = f"Types: deb\nURIs: {debian}\nSuites: ./\nSigned-By: /usr/share/keyrings/rehearsal.asc\n"
    booted.put("/etc/apt/sources.list.d/debian.sources", source)
    booted.put("/usr/local/bin/unpigz", Path("/usr/bin/pigz").read_bytes(), 0o755)


def planned(inventory: str = INVENTORY, host: str = NAME) -> Slice:
    """Returns the host's part of the plan, computed by another process.

    pyinfra imports gevent, which changes this process's sockets and breaks pipes to client processes.
    """
    command = [sys.executable, "-c", PLAN, inventory, host]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=REPOSITORY)
    mine = pickle.loads(output.stdout)  # trusted: written by this program's own child process
    assert isinstance(mine, Slice)
    return mine


def given_hardware() -> Hardware:
    """Returns the machine's GPUs: this computer's own, or stand-ins in a dry pass.

    Refuses a card that the catalog lacks.
    """
    if not real():
        return hardware.h100(DRY_GPUS)
    output = subprocess.run([*SMI, "--query-gpu=pci.device_id"], text=True, capture_output=True, check=True).stdout
    return hardware.real_gpus(catalog_name(output.split()[0]))


def catalog_name(device_id: str) -> str:
    """Returns the catalog's name of a card by nvidia-smi's `pci.device_id`, as 0x233010DE: device, then vendor."""
    digits = device_id.lower().removeprefix("0x")
    wanted = f"{digits[4:]}:{digits[:4]}"
    for name, gpu in GPUS.items():
        if gpu.pci_id == wanted:
            return name
    raise RehearsalRefused(f"the catalog has no card {wanted}\n  seen    {device_id}\n  state   no machine was made")


def card() -> dict[str, str]:
    """Returns nvidia-smi's facts about the first GPU, from outside the machine; empty in a dry pass."""
    if not real():
        return {}
    names = (
        "name",
        "driver_version",
        "memory.total",
        "memory.used",
        "memory.reserved",
        "temperature.gpu",
        "power.draw",
    )
    output = subprocess.run([*SMI, f"--query-gpu={','.join(names)}"], text=True, capture_output=True, check=True).stdout
    return dict(zip(names, output.splitlines()[0].split(", "), strict=True))


def gpus_of(machine_hardware: Hardware) -> int:
    """Returns the number of GPUs of the machine."""
    if not machine_hardware.is_real:
        return len(machine_hardware.pci)
    return sum(1 for node in machine_hardware.nodes if node.removeprefix("/dev/nvidia").isdigit())


def outer_python() -> tuple[str, ...]:
    """Returns the command of the Python with torch for the card, in this checkout and outside the control root."""
    place = os.environ["ENGINEHOUSE_PLACE"]
    variables = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", f"PYTHONPATH={place}/control/repo")
    variables += ("LD_LIBRARY_PATH=/usr/local/nvidia/lib64", f"ENGINEHOUSE_CACHE={place}/triton", "PYTHONUNBUFFERED=1")
    return ("chroot", str(OUTER), "env", "-i", f"--chdir={place}/control/repo", *variables, TORCH)
