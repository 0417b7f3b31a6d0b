"""Checkpoints with random weights in the published shapes, names, config keys and tokenizers.

The time of a forward pass depends on shapes, not on trained values. With a deviation of 0.02, that of an untrained
model, a swapped answer stands far above 16-bit noise (logits spread over 0.05 and err by 0.001), so a soak can judge;
with wider weights the noise grows faster than the spread.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from benchmarks import sized_texts

BGE: dict[str, Any] = {
    "architectures": ["XLMRobertaForSequenceClassification"], "model_type": "xlm-roberta", "hidden_act": "gelu",
    "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
    "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-05, "vocab_size": 250_002,
    "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "position_embedding_type": "absolute",
    "attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1, "classifier_dropout": None,
    "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0},
}  # fmt: skip
NOMIC: dict[str, Any] = {
    "architectures": ["NomicBertModel"], "model_type": "nomic_bert", "activation_function": "gelu", "causal": False,
    "expert_choice_router": False, "ffn_div": 1, "layer_norm_epsilon": 1e-05, "max_trained_positions": 2048,
    "mlp_fc1_bias": True, "mlp_fc2_bias": True, "moe_every_n_layers": 2, "moe_normalize_expert_weights": False,
    "moe_top_k": 2, "n_embd": 768, "n_head": 12, "n_inner": 3072, "n_layer": 12, "n_positions": 2048,
    "num_experts": 8, "num_shared_experts": 0, "pad_token_id": 1, "parallel_block": False, "prenorm": False,
    "qkv_proj_bias": True, "rotary_emb_base": 10000, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None, "rotary_scaling_factor": None, "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True, "type_vocab_size": 1, "use_rms_norm": None, "vocab_size": 250_048,
}  # fmt: skip
SMALL_BGE = BGE | {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
SMALL_NOMIC = NOMIC | {"n_embd": 64, "n_head": 4, "n_inner": 128, "n_layer": 2}
SMALL_ENTRIES = 4_000
DEVIATION = 0.02
SMALL_DEVIATION = 0.15


def make(folder: Path, device: str, small: bool) -> dict[str, Path]:
    """Writes a directory for each kind, `reranker` and `embedder`; equal arguments give equal bytes."""
    entries = SMALL_ENTRIES if small else sized_texts.ENTRIES
    tokenizer = sized_texts.tokenizer(entries)
    rows = {"reranker": entries, "embedder": -(-entries // 64) * 64}
    configs = {"reranker": SMALL_BGE if small else BGE, "embedder": SMALL_NOMIC if small else NOMIC}
    for seed, (kind, config) in enumerate(configs.items(), start=1):
        deviation = SMALL_DEVIATION if small else DEVIATION
        directory = folder / kind
        directory.mkdir(parents=True)
        config = config | {"vocab_size": rows[kind]}
        (directory / "config.json").write_text(json.dumps(config, indent=2))
        tokenizer.save(str(directory / "tokenizer.json"))
        save_file(_weights(config, seed, deviation, device), directory / "model.safetensors")
    if device != "cpu":
        torch.cuda.empty_cache()  # otherwise this process would hold gigabytes of a GPU whose memory is measured next
    return {kind: folder / kind for kind in configs}


def _weights(config: dict[str, Any], seed: int, deviation: float, device: str) -> dict[str, torch.Tensor]:
    generator = torch.Generator(device).manual_seed(seed)
    shapes = nomic_shapes(config) if config["model_type"] == "nomic_bert" else bge_shapes(config)
    made = {}
    for name, shape in shapes:
        values = torch.randn(shape, generator=generator, device=device) * deviation
        is_scale = name.endswith("weight") and ("norm" in name.lower() or "emb_ln" in name)
        made[name] = (values + 1 if is_scale else values).cpu()
    return made


def bge_shapes(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields names and shapes of XLM-RoBERTa with a one-label head, 393 tensors in the published size."""
    h, inner = config["hidden_size"], config["intermediate_size"]
    at = "roberta.embeddings"
    yield f"{at}.word_embeddings.weight", (config["vocab_size"], h)
    yield f"{at}.position_embeddings.weight", (config["max_position_embeddings"], h)
    yield f"{at}.token_type_embeddings.weight", (config["type_vocab_size"], h)
    yield from _pair(f"{at}.LayerNorm", h)
    for number in range(config["num_hidden_layers"]):
        at = f"roberta.encoder.layer.{number}"
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            yield from _pair(f"{at}.{name}", h, h)
        yield from _pair(f"{at}.attention.output.LayerNorm", h)
        yield from _pair(f"{at}.intermediate.dense", inner, h)
        yield from _pair(f"{at}.output.dense", h, inner)
        yield from _pair(f"{at}.output.LayerNorm", h)
    yield from _pair("classifier.dense", h, h)
    yield from _pair("classifier.out_proj", 1, h)


def nomic_shapes(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields names and shapes of NomicBert v2 with experts on layers 1, 3, 5, …; 148 tensors in the published size."""
    h, inner, experts = config["n_embd"], config["n_inner"], config["num_experts"]
    yield "embeddings.word_embeddings.weight", (config["vocab_size"], h)
    yield "embeddings.token_type_embeddings.weight", (config["type_vocab_size"], h)
    yield from _pair("emb_ln", h)
    for number in range(config["n_layer"]):
        at = f"encoder.layers.{number}"
        yield from _pair(f"{at}.attn.Wqkv", 3 * h, h)
        yield from _pair(f"{at}.attn.out_proj", h, h)
        yield from _pair(f"{at}.norm1", h)
        yield from _pair(f"{at}.norm2", h)
        if number % 2 == 1:
            yield f"{at}.mlp.router.layer.weight", (experts, h)
            yield f"{at}.mlp.experts.mlp.w1", (experts * inner, h)
            yield f"{at}.mlp.experts.mlp.w2", (experts * inner, h)
            yield f"{at}.mlp.experts.bias", (h,)
        else:
            yield from _pair(f"{at}.mlp.fc1", inner, h)
            yield from _pair(f"{at}.mlp.fc2", h, inner)


def _pair(name: str, *shape: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", shape
    yield f"{name}.bias", shape[:1]
