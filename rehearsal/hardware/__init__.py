"""The simulated hardware of a rehearsal machine, and its description for the programs inside.

`kernel-modules` beside this file puts it into /sys and /proc before sshd starts. This module only describes hardware;
roles under test see only the standard interfaces. A machine with the outer machine's own GPU shows the real ones.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from pathlib import Path

from rehearsal.places import RehearsalRefused


@dataclass(frozen=True)
class PciDevice:
    """A row of the PCI list; ids in the form of `lspci -n`, memory only for a GPU."""

    address: str
    vendor: str
    device: str
    class_code: str
    memory_mib: int = 0
    uuid: str = ""
    name: str = ""


@dataclass(frozen=True)
class Hardware:
    """Visible hardware: PCI devices, and whether the kernel includes nouveau and used Secure Boot."""

    pci: tuple[PciDevice, ...] = ()
    nouveau: bool = True
    secure_boot: bool = False
    gpu: str = ""
    """The card's name in an inventory."""
    driver: str = ""
    """Folder of the outer machine's own driver (bin, lib64, modules); empty for a stand-in card."""
    nodes: tuple[str, ...] = ()
    """Device nodes of the outer machine's own GPUs."""

    @property
    def is_real(self) -> bool:
        """Returns True if the machine has the outer machine's GPUs, which /sys and /proc show unchanged."""
        return bool(self.driver)

    def binds(self) -> list[str]:
        """Returns nspawn's arguments that put the outer machine's GPUs and driver into the machine."""
        return [*(f"--bind={node}" for node in self.nodes), *([f"--bind-ro={self.driver}"] if self.driver else [])]

    def to_json(self) -> str:
        """Returns the hardware for people and for programs with a JSON parser."""
        label = "the outer machine's own GPU" if self.is_real else "rehearsal stand-in"
        return json.dumps(dataclasses.asdict(self) | {"label": label}, indent=2) + "\n"

    def to_table(self) -> str:
        """Returns a table for a bare machine without python3 and jq: key, then fields, tab-separated.

        Shape: `nouveau yes|no`, `secure_boot yes|no`, `pci ADDRESS VENDOR DEVICE CLASS MIB UUID NAME`, `-` for an empty
        field.
        """
        yes = {True: "yes", False: "no"}
        rows: list[tuple[str, ...]] = [("nouveau", yes[self.nouveau]), ("secure_boot", yes[self.secure_boot])]
        rows += [("pci", *(str(field) or "-" for field in dataclasses.astuple(device))) for device in self.pci]
        return "".join("\t".join(row) + "\n" for row in rows)


def h100(gpus: int = 1, nvswitches: int = 0, nouveau: bool = True, secure_boot: bool = False) -> Hardware:
    """Returns a VM with that many H100 SXM5 80GB, and NVSwitches if a whole 8-GPU board is passed through.

    Source: gpu-host facts, PCI ids from NVIDIA/open-gpu-kernel-modules README; 81,559 MiB read from a real card.
    """
    switches = [
        PciDevice(f"0000:{0x80 + number:02x}:00.0", "10de", "22a3", "0x068000", name="NVSwitch")
        for number in range(nvswitches)
    ]
    cards = _cards(gpus, "2330", 81_559, "NVIDIA H100 80GB HBM3")
    return Hardware(tuple(cards + switches), nouveau, secure_boot, "h100-80")


def l40s(gpus: int = 1, nouveau: bool = True, secure_boot: bool = False) -> Hardware:
    """Returns a VM with that many L40S, whose SM 8.9 needs other engines. Source: as above; MiB as nvidia-smi lists."""
    return Hardware(tuple(_cards(gpus, "26b9", 46_068, "NVIDIA L40S")), nouveau, secure_boot, "l40s-48")


def _cards(gpus: int, device: str, memory_mib: int, name: str) -> list[PciDevice]:
    return [
        PciDevice(
            f"0000:{number:02x}:00.0", "10de", device, "0x030200", memory_mib,
            f"GPU-7ec0ffee-0000-4000-8000-{number:012x}", name,
        )
        for number in range(1, gpus + 1)
    ]  # fmt: skip


def real_gpus(
    gpu: str, driver: Path = Path("/usr/local/nvidia"), dev: Path = Path("/dev"), only: int | None = None
) -> Hardware:
    """Returns the GPUs of this computer, or `only` the one with that number, and the driver from its provider's folder.

    Refuses if there is no card with a loaded driver, or no such folder.
    """
    cards = sorted(path.name for path in dev.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name))
    cards = [name for name in cards if only is None or name == f"nvidia{only}"]
    lacking = [str(dev / name) for name in ("nvidiactl", "nvidia-uvm") if not (dev / name).exists()]
    lacking += [str(driver / name) for name in ("bin/nvidia-smi", "lib64/libcuda.so.1") if not (driver / name).exists()]
    if lacking or not cards:
        raise RehearsalRefused(
            "this computer has no GPU that a machine could be given\n"
            f"  missing {', '.join([*lacking, *([] if cards else [str(dev / 'nvidia0')])])}\n"
            "  wanted  a loaded NVIDIA driver, its programs and libraries in one folder\n"
            "  state   no machine was made"
        )
    nodes = [dev / name for name in (*cards, "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")]
    devices = tuple(str(node) for node in nodes if node.exists())
    return Hardware(nouveau=False, gpu=gpu, driver=str(driver), nodes=devices)


KINDS = {"h100": h100, "l40s": l40s}
NO_GPU = Hardware()
