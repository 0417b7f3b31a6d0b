"""Formats in which weights are published, and the path on which TensorRT-LLM reads each of them.

Sources, read 2026-11-27: `load_modelopt_quant_config` and `load_hf_quant_config` of TensorRT-LLM's
tensorrt_llm/_torch/model_config.py. The file of the 1.1 line knows `hf_quant_config.json` of ModelOpt, `fp8` in blocks
of 128 x 128 (it asserts this size) and `mxfp4`; it leaves every other `quant_method` without an algorithm, so that
packed weights are read as plain ones. `compressed-tensors` came with PR 10796 (reviewed 2026-01-21, after the branch of
1.2 was cut): `channel` with `token`, and `block` with `group` of 128; it raises for every other pair and for 4 bits.
NVIDIA's page on quantisation (1.0.0 to 1.4.0rc4) promises checkpoints of ModelOpt only. Per-channel FP8 has no method
for experts (review of PR 17433, 2026-08-08). The engine path's convert scripts read plain weights and GPTQ.

Blocks and the split: fused_moe/quantization.py cuts weights and block scales separately, each into pieces of ceil(width
/ GPUs), so that scales fit their weights only if every GPU gets whole blocks. Otherwise a rank has too few scales:
loading raises, or one row of scales is copied over several blocks.
"""

from dataclasses import dataclass

from deploy.catalog.versions import at_least

FP8_BLOCK = 128
"""Edge of the squares that share a scale in `fp8-blocks`."""


@dataclass(frozen=True)
class Format:
    """A way to publish weights. `quantisation` is the planner's name for counting their size.

    `pytorch_since` is the first TensorRT-LLM whose PyTorch backend reads it, empty for none; 1.3 exists as release
    candidates only (2026-11-25).
    """

    name: str
    title: str
    quantisation: str = ""
    pytorch_since: str = ""
    engine: bool = False
    vllm: bool = True
    """True if vLLM 0.26.0 reads it, by its wheel's list of quantisation methods, and its size is counted here."""
    vllm_sm: int = 80
    """The first SM on which vLLM reads it: `get_min_capability` of the method, read 2026-11-28. FP8, MXFP4 and NVFP4
    run on older cards than their own by Marlin's kernels, which multiply in 16 bit."""
    experts_lack_sm: tuple[int, ...] = ()
    """SMs for which TensorRT-LLM has no MoE kernel of this format (fused_moe_cutlass.py, read 2026-11-28)."""
    why: str = ""
    vllm_why: str = "this was never tried with this project"

    def is_read(self, trtllm: str) -> bool:
        """True if this TensorRT-LLM's PyTorch backend reads it."""
        return bool(self.pytorch_since) and at_least(trtllm, self.pytorch_since)


_NO_BRANCH = "its loader has no branch for it and would take the packed numbers for plain weights"
_CANDIDATES = "its loader reads it from 1.3 on (PR 10796), which is not released"

_ROWS = (
    # name, title, quantisation, first TensorRT-LLM
    Format("fp8-modelopt", "FP8 per tensor by ModelOpt", "fp8", "1.0.0", vllm_sm=89),
    Format("fp8-blocks", f"FP8 in blocks of {FP8_BLOCK} x {FP8_BLOCK}", "fp8", "1.0.0", experts_lack_sm=(89,)),
    Format("nvfp4", "NVFP4 by ModelOpt", "nvfp4", "1.0.0"),
    Format("mxfp4", "MXFP4", "mxfp4", "1.1.0"),
    Format("fp8-tensor", "FP8 per tensor without ModelOpt", "fp8", why=_NO_BRANCH),
    Format(
        "fp8-other-blocks",
        "FP8 in blocks of another size",
        "fp8",
        vllm=False,
        why=f"its loader asserts blocks of {FP8_BLOCK} x {FP8_BLOCK}",
    ),
    Format(
        "modelopt-inline",
        "ModelOpt without hf_quant_config.json",
        "fp8",
        vllm_sm=89,
        why="its loader reads ModelOpt's formats from hf_quant_config.json, which the repository lacks",
    ),
    Format("modelopt-other", "another format of ModelOpt", vllm=False, why="this project has not counted it"),
    Format("compressed-channels", "compressed-tensors, FP8 per channel", "fp8", "1.3.0", why=_CANDIDATES),
    Format("compressed-blocks", "compressed-tensors, FP8 in blocks", "fp8", "1.3.0", why=_CANDIDATES),
    Format(
        "compressed-tensor",
        "compressed-tensors, FP8 per tensor",
        "fp8",
        why="its loader, from 1.3 on, raises for every strategy but channel and block",
    ),
    Format(
        "compressed-other",
        "compressed-tensors, not FP8",
        why="its loader, from 1.3 on, raises for everything but 8-bit floating point",
    ),
    Format("awq", "AWQ", why=_NO_BRANCH),
    Format("gptq", "GPTQ", "gptq", engine=True, why=_NO_BRANCH),
    Format(
        "bitsandbytes",
        "bitsandbytes",
        vllm=False,
        why=_NO_BRANCH,
        vllm_why="its loader takes these only on one GPU, and unpacks their scales to a size that is not counted here",
    ),
    Format("quark-fp8", "FP8 by AMD's Quark", "fp8", vllm_sm=89, why=_NO_BRANCH),
    Format(
        "fbgemm",
        "FP8 by FBGEMM, which vLLM takes only with --allow-deprecated-quantization",
        "fp8",
        vllm=False,
        why=_NO_BRANCH,
    ),
    Format("auto-round", "AutoRound", why=_NO_BRANCH),
    Format("mlx", "MLX, the format of Apple's computers", vllm=False, why=_NO_BRANCH),
    Format("exl", "EXL2 or EXL3, ExLlama's format", vllm=False, why=_NO_BRANCH),
    Format("unknown", "a format that this project does not know", vllm=False, why=_NO_BRANCH),
)

NAMED = (
    ("awq", "awq"),
    ("gptq", "gptq"),
    ("autoround", "auto-round"),
    ("exl2", "exl"),
    ("exl3", "exl"),
    ("bnb-4bit", "bitsandbytes"),
    ("bnb-8bit", "bitsandbytes"),
    ("fp8-dynamic", "compressed-channels"),
    ("quantized.w8a8", "compressed-other"),
    ("quantized.w4a16", "compressed-other"),
    ("w4a16", "compressed-other"),
)
"""Words at the end of repositories' names, and the format that publishers mean by each."""

FORMATS: dict[str, Format] = {row.name: row for row in _ROWS}
