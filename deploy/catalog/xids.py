"""What the driver's Xid messages ask for: nothing of the operator, a reset of the GPU, a boot, or another card.

Sources: NVIDIA, "XID Errors" (docs.nvidia.com/deploy/xid-errors, catalogue for Ampere and newer) and "GPU Memory Error
Management" (docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt), read 2026-11-21. A row marked SUMMARY was read in public
summaries of the catalogue that agree with each other, not in the catalogue itself. An Xid that is not here is counted
and stops nothing: most are the application's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Remedy = Literal["application", "watch", "reset", "boot", "vendor"]

CATALOGUE = "docs.nvidia.com/deploy/xid-errors, read 2026-11-21"
MEMORY = "docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt, read 2026-11-21"
SUMMARY = "public summaries of NVIDIA's Xid catalogue, read 2026-11-21; cross-check there"


@dataclass(frozen=True)
class Xid:
    """One number of `NVRM: Xid (PCI:…): NUMBER, …`. `remedy` reset: drain, reset the GPU; boot: reboot the host."""

    number: int
    means: str
    remedy: Remedy
    source: str


_ROWS = (
    Xid(8, "the GPU stopped processing for one application", "application", CATALOGUE),
    Xid(11, "corrupted push buffer stream", "application", CATALOGUE),
    Xid(13, "graphics engine exception, as a rule an access out of bounds", "application", CATALOGUE),
    Xid(31, "memory page fault of an application", "application", SUMMARY),
    Xid(43, "an application's channel was stopped after its own fault", "application", SUMMARY),
    Xid(45, "an application's channel was torn down", "application", SUMMARY),
    Xid(48, "uncorrectable ECC error", "reset", MEMORY),
    Xid(63, "a row of memory is recorded for remapping", "watch", MEMORY),
    Xid(64, "a row of memory could not be recorded for remapping", "vendor", MEMORY),
    Xid(74, "NVLink error", "reset", SUMMARY),
    Xid(79, "the GPU has fallen off the bus", "boot", SUMMARY),
    Xid(92, "many corrected ECC errors", "watch", SUMMARY),
    Xid(94, "contained uncorrectable ECC error; the application it hit has to start again", "application", MEMORY),
    Xid(95, "uncontained ECC error", "reset", MEMORY),
    Xid(119, "the GPU's system processor did not answer in time", "reset", SUMMARY),
    Xid(120, "the GPU's system processor met an error", "reset", SUMMARY),
    Xid(160, "memory is marked for repair at the next reset", "watch", MEMORY),
)
XIDS = {row.number: row for row in _ROWS}
STOPS: tuple[Remedy, ...] = ("reset", "boot", "vendor")
"""Remedies without which nothing new is started on the GPU."""
