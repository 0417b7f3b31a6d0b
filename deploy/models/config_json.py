"""A checkpoint's config.json as the planner's `Checkpoint`: the numbers memory is counted by. Opens no file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploy.refusals.refuse import refuse
from deploy.spec import Checkpoint

NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocabulary": ("vocab_size",),
    "positions": ("max_position_embeddings", "n_positions", "max_trained_positions"),
}
"""Each number the planner needs, and what config.json calls it in one family or another."""
MORE = {
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "intermediate": ("intermediate_size", "n_inner"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "active_experts": ("num_experts_per_tok", "moe_top_k"),
    "kv_lora_rank": ("kv_lora_rank",),
    "qk_rope_head_dim": ("qk_rope_head_dim",),
    "q_lora_rank": ("q_lora_rank",),
}
STORED_AS = {"mxfp4": "mxfp4", "fp8": "fp8", "gptq": "gptq", "NVFP4": "nvfp4", "FP8": "fp8"}
"""`quant_method` of config.json, or `quant_algo` where that says modelopt, as the planner calls it."""


def checkpoint_of(config: Mapping[str, Any], parameters: int, where: str) -> Checkpoint:
    """The shape that config.json describes; `parameters` are those of the safetensors headers beside it.

    Raises: a Refusal for a number that is not there, or for weights stored in a way the planner cannot count.
    """
    numbers = {**config, **config.get("text_config", {})}
    required = {name: _first(numbers, keys) for name, keys in NAMES.items()}
    architecture = next(iter(config.get("architectures") or ()), "")
    missing = [NAMES[name][0] for name, number in required.items() if not number]
    missing += [] if architecture else ["architectures"]
    if missing:
        raise refuse(
            "config-json",
            f"{where} does not say {', '.join(missing)}",
            where=where,
            seen=f"{len(config)} keys",
            wanted="config.json of a transformers checkpoint",
            attempt="name the directory the weights were downloaded to",
        )
    optional = {name: _first(numbers, keys) for name, keys in MORE.items()}
    if optional["kv_lora_rank"]:
        optional["head_dim"] = int(numbers.get("v_head_dim") or 0)
    return Checkpoint(
        architecture=architecture,
        parameters=parameters,
        quantisation=_stored_as(config.get("quantization_config") or {}, where),  # type: ignore[arg-type]  # of STORED_AS
        **required,
        **optional,
    )


def _first(numbers: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    """The first of these keys that holds a whole number; 0 where none does."""
    return next((numbers[key] for key in keys if isinstance(numbers.get(key), int)), 0)


def _stored_as(quantization: Mapping[str, Any], where: str) -> str:
    """The planner's name for how the weights are stored; empty for plain numbers."""
    method = str(quantization.get("quant_method") or "")
    word = str(quantization.get("quant_algo") or "") if method == "modelopt" else method
    if word in ("", *STORED_AS):
        return STORED_AS.get(word, "")
    raise refuse(
        "unknown-quantisation",
        f"the planner cannot count weights that are stored as {word}",
        where=f"{where}: quantization_config",
        seen=word,
        wanted=f"plain numbers, or one of {', '.join(sorted(set(STORED_AS.values())))}",
        attempt="the same checkpoint in 16 bit",
    )
