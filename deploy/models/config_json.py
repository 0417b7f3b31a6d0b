"""A checkpoint's config.json as the planner's `Checkpoint`: the numbers behind its memory. Opens no file."""

from collections.abc import Collection, Mapping
from typing import Any

from deploy.catalog import ARCHITECTURES
from deploy.catalog.formats import FORMATS
from deploy.models.formats import MODELOPT_FILE, format_of, stored_of
from deploy.models.sentence_steps import kept_settings
from deploy.refusals import Refusal, refuse
from deploy.spec import Checkpoint

NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocabulary": ("vocab_size",),
    "positions": ("max_position_embeddings", "max_trained_positions", "n_positions"),
}
"""The planner's numbers, with config.json's names for each in the different families."""
MORE = {
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("head_dim", "attention_head_dim"),
    "intermediate": ("intermediate_size", "n_inner", "ffn_dim"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "active_experts": ("num_experts_per_tok", "moe_top_k", "moe_topk", "moe_k"),
    "kv_lora_rank": ("kv_lora_rank",),
    "qk_rope_head_dim": ("qk_rope_head_dim",),
    "q_lora_rank": ("q_lora_rank",),
}
FURTHER_KEYS = (
    *("moe_intermediate_size", "v_head_dim", "sliding_window", "multi_query", "model_type", "auto_map", "peft_type"),
    *("activation_function", "tie_word_embeddings", "torch_dtype", "dtype"),
)
"""Further keys that a verdict depends on, or that a reader of a lock wants to see."""
MODALITIES = ("vision", "audio", "speech", "image", "video", "visual", "vit")
"""Words in the names of parts of config.json about inputs that are no text."""
SERVED = ("llm", "embedder", "reranker")


def kept(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of config.json that this module reads, sorted, as a lock stores it. Lists of modules are left out."""
    names = {*(key for keys in (*NAMES.values(), *MORE.values()) for key in keys), *FURTHER_KEYS, "architectures"}
    part = {name: value for name, value in _flat(config).items() if name in names and value is not None}
    part |= kept_settings(config, architecture_of(config))
    words = _words_of_parts(config)
    if modalities := [name for name in MODALITIES if name in words]:
        part["modalities"] = modalities
    row, layers = ARCHITECTURES.get(architecture_of(config)), config.get("layer_types")
    if row and row.extra_cache and isinstance(layers, list):
        part["layer_types"] = sorted({str(kind) for kind in layers})
    labels = config.get("id2label")
    if (
        architecture_of(config).endswith("ForSequenceClassification")
        and isinstance(labels, Mapping)
        and len(labels) > 1
    ):
        part["labels"] = len(labels)
    if stored := stored_of(config):
        part["quantization_config"] = {
            key: value
            for key, value in sorted(stored.items())
            if key not in ("ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules", "exclude")
        }
    return dict(sorted(part.items()))


def architecture_of(config: Mapping[str, Any]) -> str:
    """The first class string of config.json; empty without a class."""
    names = config.get("architectures")
    first = names[0] if isinstance(names, list | tuple) and names else ""
    return first if isinstance(first, str) else ""


def checkpoint_of(config: Mapping[str, Any], parameters: int, where: str, names: Collection[str] = ()) -> Checkpoint:
    """The shape that config.json describes; `parameters` are the counts in the safetensors headers beside it.

    `names` are all files of the repository, if known. An architecture that is not served needs no numbers, because it
    is refused anyway. Raises: a Refusal for a missing number.
    """
    numbers = _flat(config)
    architecture = architecture_of(config)
    row = ARCHITECTURES.get(architecture)
    required = {name: _first(numbers, keys) for name, keys in NAMES.items()}
    if (row and row.kind in SERVED) or not architecture:
        _confirm_numbers(required, architecture, config, where)
    optional = {name: _first(numbers, keys) for name, keys in MORE.items()}
    if numbers.get("multi_query") is True:  # all heads read one head of keys and values (Falcon 7B, StarCoder)
        optional["kv_heads"] = optional["kv_heads"] or 1
    if optional["kv_lora_rank"]:
        optional["head_dim"] = _first(numbers, ("v_head_dim",))
    dense, width = optional["intermediate"], _first(numbers, ("moe_intermediate_size",))
    if optional["experts"] and width:
        optional["intermediate"] = width
    quantization = stored_of(config)
    if not quantization and MODELOPT_FILE in names:
        raise _unread_format(where)
    stored = format_of(quantization, names)
    return Checkpoint(
        architecture=architecture,
        parameters=max(parameters, 1),
        quantisation=FORMATS[stored].quantisation if stored else "",  # type: ignore[arg-type]  # words of STORED
        format=stored,
        dense_intermediate=dense if dense != optional["intermediate"] else 0,
        **{name: max(number, 1) for name, number in required.items()},
        **optional,
    )


def _unread_format(where: str) -> Refusal:
    """The refusal of a lock without ModelOpt's own file, as earlier versions wrote it, or with a broken one."""
    return refuse(
        "format-unread",
        f"{where} names no format of its weights, and {MODELOPT_FILE} beside it was not read",
        where=where,
        seen="no quantization_config",
        wanted=f"the format that {MODELOPT_FILE} names",
        attempt=f"enginehouse pin --update INVENTORY, which reads it; in a directory, correct {MODELOPT_FILE}",
    )


def _confirm_numbers(required: Mapping[str, int], architecture: str, config: Mapping[str, Any], where: str) -> None:
    """Confirms the numbers that memory is calculated from. Raises: a Refusal with every missing one."""
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


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """config.json with the fields of its text model on top; the architecture is the whole model's."""
    text = config.get("text_config")
    inner = (
        {name: value for name, value in text.items() if name != "architectures"} if isinstance(text, Mapping) else {}
    )
    return {**config, **inner}


def _words_of_parts(config: Mapping[str, Any], depth: int = 3) -> set[str]:
    """The words in the names of all parts of config.json (`audio_encoder_config`), and of the parts inside them."""
    parts = {name: part for name, part in config.items() if name.endswith("_config") and isinstance(part, Mapping)}
    words = {word for name in parts for word in name.split("_")}
    return words.union(*(_words_of_parts(part, depth - 1) for part in parts.values() if depth))


def _first(numbers: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    """The whole number of the first key that has one, else 0; of numbers for each layer, the largest."""
    for key in keys:
        value = numbers.get(key)
        if isinstance(value, list) and value and all(type(number) is int for number in value):
            value = max(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return 0
