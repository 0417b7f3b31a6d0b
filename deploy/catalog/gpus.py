"""GPUs by their name in an inventory, with the numbers that a planner needs: PCI id, SM and MiB.

`total_mib` is the number that nvidia-smi prints; the driver keeps `reserved_mib` of it, so CUDA can use the difference.
Measured on an H100 80GB HBM3 (driver 580.159.04, 2026-11-21): 81,559 total, 480 reserved, 81,079 seen by
cuDeviceTotalMem. Cards that were not measured are planned with 640 reserved, to err on the small side.
"""

import re
from dataclasses import dataclass

MEASURED = "measured 2026-11-21, driver 580.159.04; PCI id: NVIDIA/open-gpu-kernel-modules README"
LISTED = "PCI id: NVIDIA/open-gpu-kernel-modules README; MiB: nvidia-smi listings in public reports, not measured here"

REPORTED = "PCI id and MiB: lspci and nvidia-smi listings in public reports, read 2026-11-28; not measured here"


@dataclass(frozen=True)
class GPU:
    """A kind of card. `pci_id` is vendor:device in lower case; `platform` is the CPU architecture of its machines."""

    name: str
    title: str
    smi: str
    """The card's name in nvidia-smi, without the vendor's."""
    pci_id: str
    sm: str
    total_mib: int
    reserved_mib: int = 640
    platform: str = "x86_64"
    source: str = LISTED
    is_joined: bool = False
    """True for an inventory's own card that is declared with NVLink; for the catalog's cards the title decides."""

    @property
    def nvlink(self) -> bool:
        """True if cards of this kind are connected by NVLink: boards (SXM, B200) and bridged pairs (NVL) are."""
        return self.is_joined or any(word in self.title for word in ("SXM", "NVL", "B200", "GH200"))

    @property
    def usable_mib(self) -> int:
        return self.total_mib - self.reserved_mib


_ROWS = (
    # name, title, name in nvidia-smi, PCI id, SM, MiB
    GPU("h100-80", "H100 SXM5 80GB", "H100 80GB HBM3", "10de:2330", "90", 81_559, reserved_mib=480, source=MEASURED),
    GPU("h100-pcie-80", "H100 PCIe 80GB", "H100 PCIe", "10de:2331", "90", 81_559),
    GPU("h100-nvl-94", "H100 NVL 94GB", "H100 NVL", "10de:2321", "90", 95_830),
    GPU("h200-141", "H200 SXM5 141GB", "H200", "10de:2335", "90", 143_771),
    GPU("h200-nvl-141", "H200 NVL 141GB", "H200 NVL", "10de:233b", "90", 143_771),
    GPU("gh200-96", "GH200 96GB", "GH200 480GB", "10de:2342", "90", 97_871, platform="aarch64"),
    GPU("a100-80", "A100 SXM4 80GB", "A100-SXM4-80GB", "10de:20b2", "80", 81_920),
    GPU("a100-pcie-80", "A100 PCIe 80GB", "A100 80GB PCIe", "10de:20b5", "80", 81_920),
    GPU("a100-40", "A100 SXM4 40GB", "A100-SXM4-40GB", "10de:20b0", "80", 40_960),
    GPU("a100-pcie-40", "A100 PCIe 40GB", "A100-PCIE-40GB", "10de:20f1", "80", 40_960, source=REPORTED),
    GPU("l40s-48", "L40S 48GB", "L40S", "10de:26b9", "89", 46_068),
    GPU("l40-48", "L40 48GB", "L40", "10de:26b5", "89", 46_068, source=REPORTED),
    GPU("b200-180", "B200 180GB", "B200", "10de:2901", "100", 183_359),
    GPU("b300-270", "B300 SXM6 270GB", "B300 SXM6 AC", "10de:3182", "103", 275_040, source=REPORTED),
    GPU("l4-24", "L4 24GB", "L4", "10de:27b8", "89", 23_034),
    GPU(
        "rtx-pro-6000-96",
        "RTX PRO 6000 Blackwell Server 96GB",
        "RTX PRO 6000 Blackwell Server Edition",
        "10de:2bb5",
        "120",
        97_887,
        source=REPORTED,
    ),
    GPU(
        "rtx-pro-6000-ws-96",
        "RTX PRO 6000 Blackwell Workstation 96GB",
        "RTX PRO 6000 Blackwell Workstation Edition",
        "10de:2bb1",
        "120",
        97_887,
        source=REPORTED,
    ),
    GPU(
        "rtx-pro-6000-maxq-96",
        "RTX PRO 6000 Blackwell Max-Q 96GB",
        "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "10de:2bb4",
        "120",
        97_887,
        source=REPORTED,
    ),
    GPU("h20-96", "H20 SXM5 96GB", "H20", "10de:2329", "90", 97_871, source=REPORTED),
    GPU("h800-80", "H800 SXM5 80GB", "H800", "10de:2324", "90", 81_559, source=REPORTED),
    GPU("a10-24", "A10 24GB", "A10", "10de:2236", "86", 23_028, source=REPORTED),
    GPU("a10g-24", "A10G 24GB", "A10G", "10de:2237", "86", 23_028, source=REPORTED),
    GPU("t4-16", "T4 16GB", "Tesla T4", "10de:1eb8", "75", 15_360, source=REPORTED),
    GPU("gb200-186", "GB200 186GB", "GB200", "10de:2941", "100", 189_471, platform="aarch64", source=REPORTED),
)

GPUS: dict[str, GPU] = {row.name: row for row in _ROWS}


def card_called(word: str) -> GPU | None:
    """The card with this name in nvidia-smi, a data sheet or an inventory; case and dashes are ignored."""
    wanted = _plain(word)
    return next((row for row in _ROWS if wanted in (_plain(row.name), _plain(row.smi), _plain(row.title))), None)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower().removeprefix("nvidia") if letter.isalnum())


def counted(text: str) -> tuple[str, str]:
    """Count and card of `8xh100`, `8 h100`, `h100:8` and `h100 x 8`; no count and the text for anything else."""
    before = re.fullmatch(r"([0-9]{1,2})\s*[x*]?\s*(?=[A-Za-z])(.+)", text)
    behind = re.fullmatch(r"(.*[A-Za-z].*?)\s*(?::|[x*]\s*)([0-9]{1,2})", text)
    if before:
        return before[1], before[2]
    return (behind[2], behind[1]) if behind else ("", text)
