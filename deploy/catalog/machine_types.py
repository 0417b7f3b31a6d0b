"""Cards by other words than the catalog's: cloud machine types, PCI ids, lines of lspci and nvidia-smi, labels.

Read 2026-11-28: Google's G4 table, and public lists of machines of Amazon, Azure, Lambda and Oracle; Google's other
types and Scaleway's are from memory. Other clouds write the card into the type, so that its words are enough.
"""

import re
from collections.abc import Mapping

from deploy.catalog.gpus import GPUS

_FOUR, _EIGHT = {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8}, {"24xlarge": 8, "48xlarge": 8}
_AMAZON: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "g4dn": ("t4-16", {"12xlarge": 4, "metal": 8}),
    "g5": ("a10g-24", _FOUR),
    "g6": ("l4-24", _FOUR),
    "gr6": ("l4-24", {}),
    "g6e": ("l40s-48", _FOUR),
    "g7e": ("rtx-pro-6000-96", {"12xlarge": 2, "24xlarge": 4, "48xlarge": 8}),
    "p4d": ("a100-40", _EIGHT),
    "p4de": ("a100-80", _EIGHT),
    "p5": ("h100-80", _EIGHT),
    "p5e": ("h200-141", _EIGHT),
    "p5en": ("h200-141", _EIGHT),
    "p6-b200": ("b200-180", _EIGHT),
    "p6-b300": ("b300-270", _EIGHT),
}
"""Card, and the sizes with more than one."""
_GOOGLE = {"a2-high": "a100-40", "a2-mega": "a100-40", "a2-ultra": "a100-80", "a4-high": "b200-180"}
_GOOGLE |= {"a3-high": "h100-80", "a3-mega": "h100-80", "a3-edge": "h100-80", "a3-ultra": "h200-141"}
_OF_CORES = {"g2-24": 2, "g2-48": 4, "g2-96": 8, "g4-96": 2, "g4-192": 4, "g4-384": 8}
"""GPUs of Google's g2-standard-N and g4-standard-N by N, if there are several."""
_OTHERS = (
    # Azure, Scaleway, Oracle
    (r"nd96isr?_h100_v5", "h100-80", 8),
    (r"nd96isr?_h200_v5", "h200-141", 8),
    (r"ncc?40ads_h100_v5", "h100-nvl-94", 1),
    (r"nc80adis_h100_v5", "h100-nvl-94", 2),
    (r"nc24ads_a100_v4", "a100-pcie-80", 1),
    (r"nc48ads_a100_v4", "a100-pcie-80", 2),
    (r"nc96ads_a100_v4", "a100-pcie-80", 4),
    (r"nd96amsr_a100_v4", "a100-80", 8),
    (r"nd96asr(_a100)?_v4", "a100-40", 8),
    (r"nc(4|8|16)as_t4_v3", "t4-16", 1),
    (r"nc64as_t4_v3", "t4-16", 4),
    (r"nv36adm?s_a10_v5", "a10-24", 1),
    (r"nv72ads_a10_v5", "a10-24", 2),
    (r"h100-1-80g", "h100-pcie-80", 1),
    (r"h100-2-80g", "h100-pcie-80", 2),
    (r"bm\.gpu4\.8", "a100-40", 8),
    (r"bm\.gpu\.a100-v2\.8", "a100-80", 8),
)
NOT_HERE = (
    (r"mi[0-9]{3}[a-z]*|instinct|radeon|g4ad|amd(?! epyc)", "AMD's, and every image here is NVIDIA's"),
    (r"gaudi|habana|hl [0-9]+|intel(?! xeon)|arc", "Intel's, and every image here is NVIDIA's"),
    (r"tpu|ct[56][a-z]+-", "Google's own, and every image here is NVIDIA's"),
    (r"inferentia|trainium|inf[12]|trn[123][a-z]*", "Amazon's own, and every image here is NVIDIA's"),
    (r"apple|m[1-9] ?(max|pro|ultra)", "Apple's, and every image here is NVIDIA's"),
    (
        r"gb10|a4x|gb200|gb300|gh200|grace|dgx.?spark|thor|jetson|orin|t4g|g5g|igx",
        "part of a machine with an aarch64 processor, and the images here are for x86_64",
    ),
    (r"nv(6|12|18)ads a10|g4 standard (6|12|24)|gr?6f", "a part of a card by vGPU, which needs another driver"),
    (
        r"v100s?|p100|p40|p4|k80|m60|gtx(?! 16)|titan(?! rtx)|p3(dn)?|g3s?",
        "older than the open kernel modules, which begin with Turing",
    ),
)
"""Words of cards that no declaration helps, and the end of the sentence about such a card."""

LISTED = {
    r"rtx ?3090": ("86", 24_576),
    r"rtx ?4090": ("89", 24_564),
    r"rtx ?5090": ("120", 32_607),
    r"rtx ?6000 ada": ("89", 49_140),
    r"a6000": ("86", 49_140),
    r"a30": ("80", 24_576),
    r"a40": ("86", 46_068),
    r"a800 sxm4 80gb": ("80", 81_920),
    r"l20": ("89", 46_068),
    r"h20 (3e|141gb)": ("90", 143_771),
}
"""SM and MiB of cards without a row in the catalog, as nvidia-smi shows them in public listings."""


def machine_type(text: str) -> tuple[str, int]:
    """The card and the number of GPUs of a cloud's machine type; empty and 0 for any other text."""
    name = text.strip().lower().removeprefix("standard_").removeprefix("ml.")
    family, _, size = name.rpartition(".")
    if family in _AMAZON and re.fullmatch(r"[0-9]*xlarge|metal", size):
        card, several = _AMAZON[family]
        return card, several.get(size, 1)
    if (match := re.fullmatch(r"(a[234]-[a-z]+)gpu-([0-9]+)g(-nolssd)?", name)) and match[1] in _GOOGLE:
        return _GOOGLE[match[1]], int(match[2])
    if match := re.fullmatch(r"(g[24])-standard-([0-9]+)", name):
        return {"g2": "l4-24", "g4": "rtx-pro-6000-96"}[match[1]], _OF_CORES.get(f"{match[1]}-{match[2]}", 1)
    return next(((card, count) for form, card, count in _OTHERS if re.fullmatch(form, name)), ("", 0))


def card_in(text: str) -> tuple[str, int]:
    """The one card that the words of a longer text name, and its number, 0 if the text has none; empty for no card.

    A PCI id decides; else a card's short name is a word of its own, and `pcie`, `nvl` or a size chooses the board.
    Without a size it is the smallest, as an A100 of Lambda. `x16` is no number of cards.
    """
    low = text.lower()
    if of_id := [row.name for row in GPUS.values() if row.pci_id in low]:
        return of_id[0], 0
    words = re.sub(r"[^a-z0-9]+", " ", low)
    families = sorted({re.sub(r"-[0-9]+$|-(pcie|nvl|ws|maxq)-[0-9]+$", "", name) for name in GPUS}, key=len)
    numbered = [
        (family, match)
        for family in families
        if (
            match := re.search(
                rf"(?<![a-z0-9])([0-9]{{1,2}}x)?{family.replace('-', ' ')}(x[0-9]{{1,2}})?(ib)?\b", words
            )
        )
    ]
    if len(numbered) != 1 or any(re.search(form, words) for form in LISTED):
        return "", 0
    (family, match) = numbered[0]
    if words.strip() == family.replace("-", " "):  # any of its boards
        return "", 0
    rows = [row for row in GPUS.values() if re.match(rf"{family}-([a-z]+-)?[0-9]+$", row.name)]
    boards = {"pcie": "pcie", "nvl": "nvl", "max q": "maxq", "workstation": "ws"}
    board = next((name for word, name in boards.items() if f" {word} " in f" {words} "), "")
    chosen = [row for row in rows if f"-{board}-" in row.name] if board else rows
    if not chosen:
        return "", 0
    sized = [row for row in chosen if re.search(rf"\b{row.name.rpartition('-')[2]} ?(g|gb)\b", words)]
    count = match[1] or match[2] or next(iter(re.findall(r"\b[0-9]{1,2}x\b|\bx[1-8]\b", words)), "")
    last = re.search(r"^[bv]m\..*\.([1248])$", low) or re.search(rf"{family}(?:-sxm)?-([1248])-[0-9]+g$", low)
    number = int(count.strip("x")) if count else int(last[1]) if last else 0
    return (min(sized or chosen, key=lambda row: row.total_mib).name, number)


def listed(text: str) -> tuple[str, int]:
    """SM and MiB of a card that an inventory has to declare; empty and 0 for any other text."""
    words = re.sub(r"[^a-z0-9]+", " ", text.lower())
    return next((row for form, row in LISTED.items() if re.search(rf"(?<![a-z0-9]){form}\b", words)), ("", 0))


def not_here(text: str) -> str:
    """The end of a sentence about a card of another maker, processor or time; empty for any other text."""
    words = re.sub(r"[^a-z0-9]+", " ", text.lower())
    return next((end for form, end in NOT_HERE if re.search(rf"(?<![a-z0-9])({form})(?![a-z])", words)), "")
