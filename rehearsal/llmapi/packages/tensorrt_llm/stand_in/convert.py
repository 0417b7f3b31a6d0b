"""The convert_checkpoint.py of one model family."""

import time

from tensorrt_llm import __version__

from . import checkpoint
from .flags import convert_parser

FAMILIES = {
    "llama": {"LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM"},
    "qwen": {"Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "QWenLMHeadModel"},
    "gpt": {"GPT2LMHeadModel", "GPTBigCodeForCausalLM", "NemotronForCausalLM", "Starcoder2ForCausalLM"},
}
# The engine path treats these architectures as one class.
AS = {"MistralForCausalLM": "LlamaForCausalLM", "MixtralForCausalLM": "LlamaForCausalLM"}


def main(family):
    """Writes the checkpoint; returns 0."""
    options = convert_parser(family).parse_args()
    print(__version__)
    print("rehearsal stand-in: nothing is converted", flush=True)
    began = time.time()
    source = checkpoint.published(options.model_dir)
    architecture = (source.get("architectures") or ["none"])[0]
    if architecture not in FAMILIES[family]:
        raise NotImplementedError(f"Unsupported model architecture: {architecture} is not of the {family} family")
    algorithm, cache = _quantization(options)
    for done in range(0, 101, 25):
        print(f"Weights loaded: {done}%", flush=True)
    checkpoint.write(
        options.model_dir, options.output_dir, AS.get(architecture, architecture), options.dtype, algorithm, cache,
        options.tp_size, options.pp_size,
    )  # fmt: skip
    print(f"Total time of converting checkpoints: {time.strftime('%H:%M:%S', time.gmtime(time.time() - began))}")
    return 0


def _quantization(options):
    values = vars(options)
    cache = "FP8" if values.get("fp8_kv_cache") else "INT8" if values.get("int8_kv_cache") else None
    if values.get("use_fp8"):
        return "FP8", cache
    if values.get("use_fp8_rowwise"):
        return "FP8_PER_CHANNEL_PER_TOKEN", cache
    if values.get("smoothquant") is not None:
        return "W8A8_SQ_PER_CHANNEL", cache
    if values.get("use_weight_only"):
        return {"int8": "W8A16", "int4": "W4A16"}.get(options.weight_only_precision, "W4A16_GPTQ"), cache
    return None, cache
