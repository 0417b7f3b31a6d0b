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


@dataclass(frozen=True, kw_only=True)
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
    GPU(
        name="h100-80",
        title="H100 SXM5 80GB",
        smi="H100 80GB HBM3",
        pci_id="10de:2330",
        sm="90",
        total_mib=81_559,
        reserved_mib=480,
        source=MEASURED,
    ),
    GPU(name="h100-pcie-80", smi="H100 PCIe", title="H100 PCIe 80GB", pci_id="10de:2331", sm="90", total_mib=81_559),
    GPU(name="h100-nvl-94", smi="H100 NVL", title="H100 NVL 94GB", pci_id="10de:2321", sm="90", total_mib=95_830),
    GPU(name="h200-141", smi="H200", title="H200 SXM5 141GB", pci_id="10de:2335", sm="90", total_mib=143_771),
    GPU(name="h200-nvl-141", smi="H200 NVL", title="H200 NVL 141GB", pci_id="10de:233b", sm="90", total_mib=143_771),
    GPU(
        name="gh200-96",
        smi="GH200 480GB",
        title="GH200 96GB",
        pci_id="10de:2342",
        sm="90",
        total_mib=97_871,
        platform="aarch64",
    ),
    GPU(name="a100-80", smi="A100-SXM4-80GB", title="A100 SXM4 80GB", pci_id="10de:20b2", sm="80", total_mib=81_920),
    GPU(
        name="a100-pcie-80", smi="A100 80GB PCIe", title="A100 PCIe 80GB", pci_id="10de:20b5", sm="80", total_mib=81_920
    ),
    GPU(name="a100-40", smi="A100-SXM4-40GB", title="A100 SXM4 40GB", pci_id="10de:20b0", sm="80", total_mib=40_960),
    GPU(
        name="a100-pcie-40",
        smi="A100-PCIE-40GB",
        title="A100 PCIe 40GB",
        pci_id="10de:20f1",
        sm="80",
        total_mib=40_960,
        source=REPORTED,
    ),
    GPU(name="l40s-48", smi="L40S", title="L40S 48GB", pci_id="10de:26b9", sm="89", total_mib=46_068),
    GPU(
        name="l40-48",
        smi="L40",
        title="L40 48GB",
        pci_id="10de:26b5",
        sm="89",
        total_mib=46_068,
        source=REPORTED,
    ),
    GPU(name="b200-180", smi="B200", title="B200 180GB", pci_id="10de:2901", sm="100", total_mib=183_359),
    GPU(
        name="b300-270",
        smi="B300 SXM6 AC",
        title="B300 SXM6 270GB",
        pci_id="10de:3182",
        sm="103",
        total_mib=275_040,
        source=REPORTED,
    ),
    GPU(name="l4-24", title="L4 24GB", smi="L4", pci_id="10de:27b8", sm="89", total_mib=23_034),
    GPU(
        name="rtx-pro-6000-96",
        title="RTX PRO 6000 Blackwell Server 96GB",
        smi="RTX PRO 6000 Blackwell Server Edition",
        pci_id="10de:2bb5",
        sm="120",
        total_mib=97_887,
        source=REPORTED,
    ),
    GPU(
        name="rtx-pro-6000-ws-96",
        smi="RTX PRO 6000 Blackwell Workstation Edition",
        title="RTX PRO 6000 Blackwell Workstation 96GB",
        pci_id="10de:2bb1",
        sm="120",
        total_mib=97_887,
        source=REPORTED,
    ),
    GPU(
        name="rtx-pro-6000-maxq-96",
        smi="RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        title="RTX PRO 6000 Blackwell Max-Q 96GB",
        pci_id="10de:2bb4",
        sm="120",
        total_mib=97_887,
        source=REPORTED,
    ),
    GPU(
        name="h20-96", smi="H20", title="H20 SXM5 96GB", pci_id="10de:2329", sm="90", total_mib=97_871, source=REPORTED
    ),
    GPU(
        name="h800-80",
        smi="H800",
        title="H800 SXM5 80GB",
        pci_id="10de:2324",
        sm="90",
        total_mib=81_559,
        source=REPORTED,
    ),
    GPU(name="a10-24", smi="A10", title="A10 24GB", pci_id="10de:2236", sm="86", total_mib=23_028, source=REPORTED),
    GPU(
        name="a10g-24",
        smi="A10G",
        title="A10G 24GB",
        pci_id="10de:2237",
        sm="86",
        total_mib=23_028,
        source=REPORTED,
    ),
    GPU(name="t4-16", smi="Tesla T4", title="T4 16GB", pci_id="10de:1eb8", sm="75", total_mib=15_360, source=REPORTED),
    GPU(
        name="gb200-186",
        title="GB200 186GB",
        smi="GB200",
        pci_id="10de:2941",
        sm="100",
        total_mib=189_471,
        platform="aarch64",
        source=REPORTED,
    ),
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
