"""Formats of weights, by the names of `deploy.spec.Precision`: bytes, first SM, and the needs of their conversion.

Sources: TensorRT-LLM docs/source/reference/precision.md (hardware matrix) and examples/quantization/quantize.py of the
1.x line, cpp/tensorrt_llm/common/attentionOp.cpp for the two rules about the key/value cache,
tensorrt_llm/_torch/pyexecutor/model_loader.py for the formats of the PyTorch backend; read 2026-11-20 and 2026-11-21.
quantize.py loads calibration texts for every format, and its default set comes from the model hub.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PrecisionRow:
    """A precision. A weight takes `numerator / denominator` bytes, scales included.

    `calibrated`: conversion reads calibration texts. `stored`: the precision exists only in checkpoints that are
    published in it, because no program here converts to it.
    """

    name: str
    numerator: int
    denominator: int = 1
    first_sm: int = 80
    last_sm: int = 999
    calibrated: bool = False
    stored: str = ""
    why: str = ""
    """The reason for `first_sm` or `last_sm`, in words for a message."""


_FP8 = "FP8 tensor cores came with Ada (SM 89) and Hopper (SM 90)"

_ROWS = (
    # name, numerator, denominator
    PrecisionRow("float16", 2),
    PrecisionRow("bfloat16", 2),
    PrecisionRow("fp8", 1, first_sm=89, calibrated=True, why=_FP8),
    PrecisionRow(
        "fp8_rowwise",
        1,
        first_sm=90,
        last_sm=90,
        calibrated=True,
        why="the row-wise FP8 kernels are Hopper's (SM 90) alone",
    ),
    PrecisionRow("int8_sq", 1, calibrated=True),
    PrecisionRow("int8_wo", 1),
    PrecisionRow("int4_wo", 1, 2),
    PrecisionRow("int4_awq", 17, 32, calibrated=True),  # 4 bits, a 16-bit scale for 128
    PrecisionRow(
        "w4a8_awq",
        17,
        32,
        first_sm=89,
        last_sm=90,
        calibrated=True,
        why="4-bit weights with FP8 activations have kernels for SM 89 and SM 90",
    ),
    PrecisionRow("int4_gptq", 17, 32, stored="gptq"),
    PrecisionRow(
        "nvfp4",
        9,  # 4 bits, an 8-bit scale for 16
        16,
        first_sm=100,
        calibrated=True,
        why="FP4 tensor cores came with Blackwell (SM 100); Hopper would have to emulate them",
    ),
    PrecisionRow(
        "mxfp4",
        17,  # 4 bits, an 8-bit scale for 32
        32,
        first_sm=90,
        stored="mxfp4",
        why="the MXFP4 expert kernels start with Hopper (SM 90)",
    ),
)

PRECISIONS: dict[str, PrecisionRow] = {row.name: row for row in _ROWS}

STORED: dict[str, str] = {"": "bfloat16", "fp8": "fp8", "nvfp4": "nvfp4", "mxfp4": "mxfp4", "gptq": "int4_gptq"}
"""The word for a checkpoint's `quantisation` when it is served as stored."""

KV_FIRST_SM = {"auto": 0, "bfloat16": 80, "float16": 0, "fp8": 89, "int8": 80}
"""The first SM with kernels for a key/value cache of this kind."""
