"""Container releases: the Triton, TensorRT-LLM, CUDA and torch in each, and its known defects.

Source: triton-inference-server/server docs/introduction/compatibility.md, main of 2026-08-19, and branch r26.08 of
2026-08-20; the 24.12 and 26.03 version labels disagree upstream (this table follows that file). `driver` is the image's
bundled version; `floor` is the oldest driver on which it runs: CUDA minor-version compatibility, 525.60.13 for 12.x and
580.65.06 for 13.x (NVIDIA CUDA compatibility guide). This project serves the `offered` rows; the others distinguish an
old release from a misspelt one.
"""

from dataclasses import dataclass

from deploy.catalog.versions import at_least, version

DEFAULT_RELEASE = "26.07"
ENGINES_END = (1, 3)
"""The first TensorRT-LLM that neither builds nor loads engines."""

FLOOR_CUDA_12 = "525.60.13"
FLOOR_CUDA_13 = "580.65.06"


@dataclass(frozen=True, kw_only=True)
class Defect:
    """A defect inside an image that the host has to repair before serving."""

    name: str
    what: str
    source: str


OPENAI_TOO_OLD = Defect(
    name="openai",
    what="bundled openai 1.107.3 lacks PartReasoningText, which TensorRT-LLM 1.2 imports",
    source="triton-inference-server/server PR 8896, verified there on 26.03 and 26.07",
)


@dataclass(frozen=True, kw_only=True)
class ReleaseRow:
    """A release of `nvcr.io/nvidia/tritonserver`; `trtllm` is empty if no image with TensorRT-LLM exists."""

    name: str
    triton_core: str
    trtllm: str
    cuda: str
    driver: str
    torch: str = ""
    size_gb: float = 0.0
    offered: bool = False
    instead: str = ""
    """The advice to an operator who asks for a row that is not offered."""
    defects: tuple[Defect, ...] = ()

    @property
    def floor(self) -> str:
        """The oldest driver on which any CUDA of this major version runs."""
        return FLOOR_CUDA_12 if self.cuda.startswith("12.") else FLOOR_CUDA_13

    @property
    def image(self) -> str:
        return f"nvcr.io/nvidia/tritonserver:{self.name}-trtllm-python-py3"

    @property
    def size_mib(self) -> int:
        """Compressed download in MiB (the matrix counts in units of 10^9 bytes)."""
        return -(-round(self.size_gb * 10**9) // 2**20)


_TOO_OLD = f"older than anything served here; take {DEFAULT_RELEASE}, or 24.12 with a finished checkpoint"
_SAME_TRTLLM = f"{DEFAULT_RELEASE} carries the same TensorRT-LLM 1.2.1 with a newer Triton core"
_LABELS = f"its labels disagree; take {DEFAULT_RELEASE}"
_OPENAI = (OPENAI_TOO_OLD,)

# name, core, TensorRT-LLM, CUDA, bundled driver, torch, GB, what to take instead ("" = offered), defects
_MATRIX: tuple[tuple[str, str, str, str, str, str, float, str, tuple[Defect, ...]], ...] = (
    ("24.04", "2.45.0", "0.9.0", "12.3.2", "545.23.08", "2.3.0a0", 34.0, _TOO_OLD, ()),
    ("24.05", "2.46.0", "0.9.0", "12.3.2", "545.23.08", "2.3.0a0", 34.0, _TOO_OLD, ()),
    ("24.06", "2.47.0", "0.10.0", "12.4.0", "550.54.14", "2.3.0a0", 31.0, _TOO_OLD, ()),
    ("24.07", "2.48.0", "0.11.0", "12.4.1", "550.54.15", "2.4.0a0", 23.0, _TOO_OLD, ()),
    ("24.08", "2.49.0", "0.12.0", "12.5.1", "555.42.06", "2.4.0a0", 21.0, _TOO_OLD, ()),
    ("24.09", "2.50.0", "0.13.0", "12.5.1", "555.42.06", "2.4.0a0", 21.0, _TOO_OLD, ()),
    ("24.10", "2.51.0", "0.14.0", "12.5.1", "555.42.06", "2.4.0a0", 23.3, _TOO_OLD, ()),
    ("24.11", "2.52.0", "0.15.0", "12.6.3", "555.42.06", "2.5.0a0", 24.8, _TOO_OLD, ()),
    ("24.12", "2.53.0", "0.16.0", "12.6.3", "560.35.05", "2.6.0a0", 22.0, "", ()),
    ("25.01", "2.54.0", "0.17.0", "12.8.0", "570.86.10", "2.6.0a0", 30.0, "take 25.04", ()),
    ("25.02", "2.55.0", "0.17.0.post1", "12.8.0", "570.86.10", "2.6.0a0", 28.0, "take 25.04", ()),
    ("25.03", "2.56.0", "0.18.0", "12.8.1", "570.124.06", "2.7.0a0", 28.0, "take 25.04", ()),
    ("25.04", "2.57.0", "0.18.2", "12.8.1", "570.124.06", "2.7.0a0", 17.0, "", ()),
    ("25.05", "2.58.0", "0.19.0", "12.8.1", "570.124.06", "2.7.0a0", 17.0, "take 25.10", ()),
    ("25.06", "2.59.0", "0.20.0", "12.9.0", "575.51.03", "2.7.0a0", 18.3, "take 25.10", ()),
    ("25.07", "2.59.0", "0.20.0", "12.9.0", "575.51.03", "2.7.0a0", 18.3, "take 25.10", ()),
    ("25.08", "2.60.0", "0.21.0", "12.9.0", "575.51.03", "2.8.0a0", 20.5, "take 25.10", ()),
    ("25.09", "2.61.0", "1.0.0", "12.9.1", "575.57.08", "2.8.0a0", 16.2, "take 25.10", ()),
    ("25.10", "2.62.0", "1.0.0", "12.9.1", "575.57.08", "2.8.0a0", 16.2, "", ()),
    ("25.11", "2.63.0", "1.0.3.2510", "13.0.2", "580.95.05", "2.9.0a0", 12.3, "take 26.02", ()),
    ("25.12", "2.64.0", "1.1.0", "13.0.2", "580.95.05", "2.9.0a0", 16.0, "take 26.02", ()),
    ("26.01", "2.65.0", "1.1.0", "13.0.2", "580.95.05", "2.9.0a0", 16.2, "take 26.02", ()),
    ("26.02", "2.66.0", "1.1.0", "13.0.2", "580.95.05", "2.9.0a0", 16.2, "", ()),
    ("26.03", "2.67.0", "1.2.0", "13.1.0", "590.44.01", "2.10.0a0", 14.2, _LABELS, _OPENAI),
    ("26.04", "2.68.0", "1.2.1", "13.1.0", "590.44.01", "2.10.0a0", 14.2, _SAME_TRTLLM, _OPENAI),
    ("26.05", "2.69.0", "1.2.1", "13.1.0", "590.44.01", "2.10.0a0", 14.2, _SAME_TRTLLM, _OPENAI),
    ("26.06", "2.70.0", "1.2.1", "13.1.0", "590.44.01", "2.10.0a0", 14.2, _SAME_TRTLLM, _OPENAI),
    ("26.07", "2.71.0", "1.2.1", "13.1.0", "590.44.01", "2.10.0a0", 14.2, "", _OPENAI),
    (
        "26.08",
        "2.72.0",
        "",
        "13.4.1",
        "615.61",
        "",
        0.0,
        f"it has no TensorRT-LLM image (read 2026-08-20); take {DEFAULT_RELEASE}",
        (),
    ),
)

RELEASES: dict[str, ReleaseRow] = {
    name: ReleaseRow(
        name=name,
        triton_core=core,
        trtllm=trtllm,
        cuda=cuda,
        driver=driver,
        torch=torch,
        size_gb=size_gb,
        offered=not instead,
        instead=instead,
        defects=defects,
    )
    for name, core, trtllm, cuda, driver, torch, size_gb, instead, defects in _MATRIX
}

OFFERED = tuple(row.name for row in RELEASES.values() if row.offered)
"""The releases this project serves, oldest first."""
LAST_WITH_ENGINES = max(row.name for row in RELEASES.values() if row.trtllm and version(row.trtllm) < ENGINES_END)
"""The last release whose TensorRT-LLM builds and loads engines."""
LAST_ENGINE_TRTLLM = RELEASES[LAST_WITH_ENGINES].trtllm
LAST_WITH_CUDA_12 = max(name for name in OFFERED if RELEASES[name].floor == FLOOR_CUDA_12)
"""The newest offered release that runs on a driver older than FLOOR_CUDA_13."""


def first_offered(trtllm: str) -> str:
    return next((name for name in OFFERED if at_least(RELEASES[name].trtllm, trtllm)), DEFAULT_RELEASE)
