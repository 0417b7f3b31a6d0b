"""Small random checkpoints in the exact layout of the real ones.

Names, shapes, config keys and tokenizer layout are those of the published checkpoints; only the sizes are small and
the weights random, wide enough (std 0.15) that a wrong detail shows far above float32 noise.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from encoders.settings import Settings

Weights = dict[str, np.ndarray]

VOCABULARY = """
the a of and to in is for on with search query document classification clustering river bank water flows
money sea cat dog sat mat paris london city capital france england engine memory token wave quick brown fox jumps over
"""
WORDS = VOCABULARY.split()
LETTERS = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:.,!?-'éü猫語")

XLMR = {
    "architectures": ["XLMRobertaForSequenceClassification"],
    "model_type": "xlm-roberta",
    "hidden_act": "gelu",
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 130,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "position_embedding_type": "absolute",
    "id2label": {"0": "LABEL_0"},
    "label2id": {"LABEL_0": 0},
    "vocab_size": 200,
}
BERT = XLMR | {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 128,
    "type_vocab_size": 2,
    "pad_token_id": 0,
}
NOMIC: dict[str, Any] = {
    "architectures": ["NomicBertModel"],
    "model_type": "nomic_bert",
    "activation_function": "gelu",
    "causal": False,
    "expert_choice_router": False,
    "ffn_div": 1,
    "layer_norm_epsilon": 1e-05,
    "max_trained_positions": 2048,
    "mlp_fc1_bias": True,
    "mlp_fc2_bias": True,
    "moe_every_n_layers": 2,
    "moe_normalize_expert_weights": False,
    "moe_top_k": 2,
    "n_embd": 64,
    "n_head": 4,
    "n_inner": 96,
    "n_layer": 4,
    "n_positions": 2048,
    "num_experts": 8,
    "num_shared_experts": 0,
    "pad_token_id": 1,
    "parallel_block": False,
    "prenorm": False,
    "qkv_proj_bias": True,
    "rotary_emb_base": 10000,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "type_vocab_size": 1,
    "use_rms_norm": None,
    "vocab_size": 200,
}
NOMIC_1 = {key: value for key, value in NOMIC.items() if "moe" not in key and "expert" not in key} | {
    "activation_function": "swiglu",
    "layer_norm_epsilon": 1e-12,
    "rotary_emb_base": 1000,
    "type_vocab_size": 2,
    "pad_token_id": 0,
    "n_positions": 8192,
    **dict.fromkeys(("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"), False),
}
MODERN: dict[str, Any] = {
    "model_type": "modernbert",
    "hidden_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 512,
    "local_attention": 8,
    "global_attn_every_n_layers": 3,
    "vocab_size": 200,
    "pad_token_id": 0,
    "cls_token_id": 2,
    "sep_token_id": 3,
    "bos_token_id": 2,
    "eos_token_id": 3,
}


def write(directory: Path, config: dict[str, Any], weights: Weights, tokenizer: Tokenizer | None = None) -> Path:
    """Writes a checkpoint of `config` and `weights` to `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    save_file(weights, directory / "model.safetensors")
    roberta_layout = config["model_type"] != "bert" and config["pad_token_id"] == 1
    (tokenizer or (unigram() if roberta_layout else wordpiece())).save(str(directory / "tokenizer.json"))
    return directory


def on_cpu(directory: Path, **changes: Any) -> Settings:
    """Returns settings for `directory` in float32 on the CPU."""
    return Settings(**({"model_path": str(directory), "device": "cpu", "dtype": "fp32"} | changes))


def weights_for(config: dict[str, Any], seed: int = 0, deviation: float = 0.15) -> Weights:
    """Returns random weights under the names that a published checkpoint of this config has."""
    rng = np.random.default_rng(seed)
    names = _nomic_shapes(config) if config["model_type"] == "nomic_bert" else _bert_shapes(config)
    return {name: _random(rng, name, shape, deviation) for name, shape in names.items()}


def _random(rng: np.random.Generator, name: str, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    values = rng.normal(0.0, deviation, shape)
    if "norm" in name.lower() or "emb_ln" in name:
        values = values + (1.0 if name.endswith("weight") else 0.0)
    return values.astype(np.float32)


def _bert_shapes(c: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    h, inner = c["hidden_size"], c["intermediate_size"]
    classifies = c["architectures"] == ["XLMRobertaForSequenceClassification"]
    p = "roberta." if classifies else ""
    shapes: dict[str, tuple[int, ...]] = {
        f"{p}embeddings.word_embeddings.weight": (c["vocab_size"], h),
        f"{p}embeddings.position_embeddings.weight": (c["max_position_embeddings"], h),
        f"{p}embeddings.token_type_embeddings.weight": (c["type_vocab_size"], h),
        **_pair(f"{p}embeddings.LayerNorm", h),
    }
    for i in range(c["num_hidden_layers"]):
        layer = f"{p}encoder.layer.{i}"
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes |= _pair(f"{layer}.{name}", h, h)
        shapes |= _pair(f"{layer}.attention.output.LayerNorm", h) | _pair(f"{layer}.output.LayerNorm", h)
        shapes |= _pair(f"{layer}.intermediate.dense", inner, h) | _pair(f"{layer}.output.dense", h, inner)
    head = _pair("classifier.dense", h, h) | _pair("classifier.out_proj", 1, h)
    return shapes | (head if classifies else _pair("pooler.dense", h, h))


def _nomic_shapes(c: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    h, inner, experts = c["n_embd"], c["n_inner"], c.get("num_experts", 0)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (c["vocab_size"], h),
        "embeddings.token_type_embeddings.weight": (c["type_vocab_size"], h),
        **_pair("emb_ln", h),
    }
    for i in range(c["n_layer"]):
        layer = f"encoder.layers.{i}"
        if not c["qkv_proj_bias"]:
            sizes = {"attn.Wqkv": (3 * h, h), "attn.out_proj": (h, h), "mlp.fc11": (inner, h), "mlp.fc12": (inner, h)}
            shapes |= {f"{layer}.{name}.weight": size for name, size in (sizes | {"mlp.fc2": (h, inner)}).items()}
            shapes |= _pair(f"{layer}.norm1", h) | _pair(f"{layer}.norm2", h)
            continue
        shapes |= _pair(f"{layer}.attn.Wqkv", 3 * h, h) | _pair(f"{layer}.attn.out_proj", h, h)
        shapes |= _pair(f"{layer}.norm1", h) | _pair(f"{layer}.norm2", h)
        if i % 2 == 1:
            shapes[f"{layer}.mlp.router.layer.weight"] = (experts, h)
            shapes[f"{layer}.mlp.experts.mlp.w1"] = shapes[f"{layer}.mlp.experts.mlp.w2"] = (experts * inner, h)
            shapes[f"{layer}.mlp.experts.bias"] = (h,)
        else:
            shapes |= _pair(f"{layer}.mlp.fc1", inner, h) | _pair(f"{layer}.mlp.fc2", h, inner)
    return shapes


def _pair(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def unigram() -> Tokenizer:
    """Returns a tokenizer with XLM-RoBERTa's special ids, piece model and templates, and a small vocabulary."""
    pieces = [f"▁{word}" for word in WORDS] + ["▁"] + LETTERS
    vocabulary = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    vocabulary += [(piece, -float(rank) / 10 - (len(piece) < 3) * 9) for rank, piece in enumerate(pieces)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.enable_truncation(20)  # as published files do; a server must not inherit it
    tokenizer.enable_padding(length=20, pad_id=1, pad_token="<pad>")
    return tokenizer


def wordpiece() -> Tokenizer:
    """Returns a tokenizer with BERT's layout and a small vocabulary."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, *[f"##{letter}" for letter in LETTERS]]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer
