"""The script of the image that converts a model to a TensorRT-LLM checkpoint, and the flags of the lesser scripts.

Sources: triton-inference-server/tensorrtllm_backend dockerfile/Dockerfile.triton.trt_llm_backend (0.17.0 is the first
image with /app/examples) and NVIDIA/TensorRT-LLM examples/, where the model scripts moved in 0.20; read 2026-11-21.
Flags of the llama, qwen and gpt scripts and of quantize.py are in `deploy.catalog.flags`.
"""

from deploy.catalog.flags import convert_script
from deploy.catalog.versions import at_least
from deploy.spec import Eagle, Medusa, ReDrafter, Speculative

APP = "/app"
QUANTIZE_SCRIPT = f"{APP}/examples/quantization/quantize.py"
FIRST_WITH_SCRIPTS = "0.17"

FAMILIES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "MixtralForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen",
    "Qwen3ForCausalLM": "qwen",
    "Qwen3MoeForCausalLM": "qwen",
    "GPT2LMHeadModel": "gpt",
}
"""Architectures whose convert script was read. All others use quantize.py, which exports 16 bit too."""

HEAD_FLAGS = {
    # examples/eagle/convert_checkpoint.py at 65b31db1b4, and an earlier revision: both have all of these
    "eagle": (
        *("--model_dir", "--eagle_model_dir", "--output_dir", "--dtype", "--tp_size", "--pp_size", "--workers"),
        *("--max_draft_len", "--num_eagle_layers", "--use_weight_only", "--weight_only_precision"),
    ),
    # examples/medusa/convert_checkpoint.py, two revisions; --model_type came with the second, after 0.18
    "medusa": (
        *("--model_dir", "--medusa_model_dir", "--output_dir", "--dtype", "--tp_size", "--pp_size", "--workers"),
        *("--num_medusa_heads", "--max_medusa_token_len", "--use_weight_only", "--weight_only_precision"),
        "--model_type",
    ),
    # examples/redrafter/convert_checkpoint.py, three revisions; --base_model_checkpoint_dir took the place of
    # --model_dir between 0.18 and 1.0 (README of the script, and tests/integration/defs/common.py)
    "redrafter": (
        *("--model_dir", "--base_model_checkpoint_dir", "--drafter_model_dir", "--output_dir", "--dtype", "--tp_size"),
        *("--workers", "--redrafter_num_beams", "--redrafter_draft_len_per_beam"),
    ),
}
"""Flags of the scripts that add heads to a model, by the script's directory; no other flag is emitted."""

_HEADS: dict[type, str] = {Eagle: "eagle", Medusa: "medusa", ReDrafter: "redrafter"}


def family_of(architecture: str) -> str:
    return FAMILIES.get(architecture, "")


def convert_path(trtllm: str, family: str) -> str:
    return f"{APP}/{convert_script(trtllm, family)[-1]}"


def heads_of(speculative: Speculative | None) -> str:
    """The directory of the script that puts these heads on a model; empty for a draft model, n-grams or no
    speculation."""
    return _HEADS.get(type(speculative), "")


def heads_path(heads: str) -> str:
    return f"{APP}/examples/{heads}/convert_checkpoint.py"


def attaches_to_checkpoint(trtllm: str) -> bool:
    """True if ReDrafter's script takes a converted model instead of the published one."""
    return at_least(trtllm, "0.20")
