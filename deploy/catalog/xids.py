"""Actions that the driver's Xid messages require: none, a reset of the GPU, a reboot, or another card.

Source: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors, "Analyzing the Xid catalog"), edition of 2025-10-29,
read 2026-11-22 through the table that leptonai/gpud generates from it. `action` is the catalogue's immediate action.
Numbers the catalogue calls unused have no row. An Xid without a row is counted and stops nothing.

Since driver 565 the driver names its own recovery action (Xid 154, `nvidia-smi --query-gpu=gpu_recovery_action`). That
action is used beside these rows and does not depend on them.
"""

from dataclasses import dataclass
from typing import Literal

Action = Literal[
    "restart application",
    "ignore",
    "reset",
    "restart host",
    "restart virtual machine",
    "workflow",
    "check cables",
    "update software",
    "contact support",
    "read the driver's action",
    "check unified memory",
    "none named",
]
Remedy = Literal["application", "watch", "reset", "boot", "vendor"]

CATALOGUE = "docs.nvidia.com/deploy/xid-errors, edition 2025-10-29, read 2026-11-22"

_REMEDIES: dict[Action, Remedy] = {
    "restart application": "application",
    "ignore": "watch",
    "reset": "reset",
    "restart host": "boot",
    "restart virtual machine": "boot",
    "check cables": "vendor",
    "update software": "watch",
    "contact support": "watch",
    "read the driver's action": "watch",
    "check unified memory": "watch",
    "none named": "watch",
}
_WORKFLOWS: dict[int, Remedy] = {45: "application", 48: "reset"}
"""Actions of two Xids for which the catalogue names a workflow: 45 follows another Xid, and 48 ends in a reset."""


@dataclass(frozen=True)
class Xid:
    """An Xid: the number in `NVRM: Xid (PCI:…): NUMBER, …`."""

    number: int
    means: str
    action: Action
    is_nvlink: bool = False
    """True for a fault between GPUs, which a host with one GPU cannot have."""
    source: str = CATALOGUE

    @property
    def remedy(self) -> Remedy:
        """The remedy for an Xid: `reset` means drain and reset the GPU, `boot` means reboot the host."""
        if self.action == "workflow":
            return "reset" if self.is_nvlink else _WORKFLOWS[self.number]
        return _REMEDIES[self.action]

    def stops(self, gpus: int) -> bool:
        return self.remedy in STOPS and (gpus > 1 or not self.is_nvlink)


_COPY_ENGINES = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))
_VIDEO_ENGINES = (60, 68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139)
_NVLINK_5 = {
    144: "SAW",
    145: "RLW",
    146: "TLW",
    147: "TREX",
    148: "NVLPW_CTRL",
    149: "NETIR",
    150: "MSE",
}

_ROWS = (
    Xid(8, "the GPU stopped processing for one application", "restart application"),
    Xid(11, "corrupted push buffer stream", "restart application"),
    Xid(13, "graphics engine exception, as a rule an access out of bounds", "restart application"),
    Xid(25, "illegal push buffer stream", "restart application"),
    Xid(31, "memory page fault of an application", "restart application"),
    Xid(32, "corrupted push buffer stream", "restart application"),
    Xid(37, "driver firmware error", "ignore"),
    Xid(38, "driver firmware error", "ignore"),
    *(Xid(number, "error of a copy engine", "restart application") for number in _COPY_ENGINES),
    Xid(43, "an application's channel was stopped after its own fault", "ignore"),
    Xid(44, "graphics engine fault during a context switch", "ignore"),
    Xid(45, "an application's channel was torn down after another error; the Xid beside it counts", "workflow"),
    Xid(46, "the GPU stopped processing", "reset"),
    Xid(48, "uncorrectable ECC error; an Xid 63 or 64 beside it says whether the row was remapped", "workflow"),
    Xid(54, "auxiliary power is not connected to the card", "check cables"),
    *(Xid(number, "error of a video or image engine", "restart application") for number in _VIDEO_ENGINES),
    Xid(62, "the GPU's internal controller halted", "reset"),
    Xid(63, "a row of memory is recorded for remapping", "ignore"),
    Xid(64, "a row of memory could not be remapped; where it returns after a reset, the card is replaced", "reset"),
    Xid(66, "illegal access by the driver", "ignore"),
    Xid(67, "illegal access by the driver", "ignore"),
    Xid(69, "graphics engine class error", "restart application"),
    Xid(74, "NVLink error; the bits of the message say which link, and NVIDIA's workflow what to do", "workflow", True),
    Xid(78, "a virtual GPU could not start", "update software"),
    Xid(79, "the GPU has fallen off the bus", "restart host"),
    Xid(80, "corrupted data sent to the GPU", "restart application"),
    Xid(92, "many corrected ECC errors", "ignore"),
    Xid(93, "the card's configuration memory was written more often than provisioned", "ignore"),
    Xid(94, "contained uncorrectable ECC error; the application it hit has to start again", "restart application"),
    Xid(95, "uncontained ECC error", "reset"),
    Xid(106, "a test message", "ignore"),
    Xid(107, "a test message", "ignore"),
    Xid(109, "a context switch did not end in time", "reset"),
    Xid(110, "security fault", "reset"),
    Xid(119, "the GPU's system processor did not answer in time", "reset"),
    Xid(120, "the GPU's system processor met an error", "reset"),
    Xid(121, "error on the link to the processor", "ignore"),
    Xid(136, "a link could not be trained", "reset", True),
    Xid(137, "NVLink access error, as a rule after a fault of an application", "ignore", True),
    Xid(140, "unrecovered ECC error", "reset"),
    Xid(141, "CUDA fast path error", "ignore"),
    Xid(142, "error of a video engine", "contact support"),
    Xid(143, "the GPU could not be initialised", "reset"),
    *(Xid(number, f"NVLink error ({unit})", "workflow", True) for number, unit in _NVLINK_5.items()),
    Xid(151, "a key could not be rotated", "restart virtual machine"),
    Xid(152, "error of the deep-learning accelerator's memory", "ignore"),
    Xid(153, "the deep-learning accelerator did not answer in time", "ignore"),
    Xid(154, "the driver's recovery action changed; the action itself is read", "read the driver's action"),
    Xid(155, "NVLink error found by software", "reset", True),
    Xid(156, "a unit of the GPU was retired", "reset"),
    Xid(157, "a unit of the GPU could not be retired", "ignore"),
    Xid(158, "fatal timeout of the GPU", "reset"),
    Xid(159, "error on the coherent link without data", "check unified memory"),
    Xid(160, "a memory channel was retired", "ignore"),
    Xid(161, "a memory channel could not be retired", "ignore"),
    Xid(162, "power smoothing works again", "none named"),
    Xid(163, "power smoothing is off", "none named"),
    Xid(164, "power smoothing is near the end of its life", "none named"),
    Xid(165, "power smoothing is at the end of its life", "none named"),
    Xid(166, "confidential traffic before the link was set up for it", "none named", True),
    Xid(167, "fatal timeout on PCIe", "none named"),
    Xid(168, "less memory: errors in the write-protected region", "none named"),
    Xid(169, "the GPU's security processor halted", "none named"),
    Xid(170, "an interrupt in confidential mode", "none named", True),
    Xid(171, "more about an Xid 48: the error was in DRAM", "none named"),
    Xid(172, "more about an Xid 48: the error was in SRAM", "none named"),
)
XIDS = {row.number: row for row in sorted(_ROWS, key=lambda row: row.number)}
STOPS: tuple[Remedy, ...] = ("reset", "boot", "vendor")
"""Remedies without which nothing new is started on the GPU."""
