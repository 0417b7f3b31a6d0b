"""The published shape of gpt-oss-20b for vLLM's dummy weights, and a tokenizer that has a word for each of its ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

CONTEXT = 4_096
GPT_OSS: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "attention_bias": True,
    "attention_dropout": 0.0,
    "bos_token_id": 199_998,
    "eos_token_id": 200_002,
    "pad_token_id": 199_999,
    "hidden_act": "silu",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "experts_per_token": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "sliding_window": 128,
    "swiglu_limit": 7.0,
    "initial_context_length": 4096,
    "max_position_embeddings": 131_072,
    "rope_theta": 150_000,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "original_max_position_embeddings": 4096,
        "truncate": False,
    },
    "rms_norm_eps": 1e-5,
    "initializer_range": 0.02,
    "tie_word_embeddings": False,
    "vocab_size": 201_088,
    "torch_dtype": "bfloat16",
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
    },
}
"""config.json of openai/gpt-oss-20b as published."""
TEMPLATE = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"
ENVIRONMENT = {"VLLM_USE_FLASHINFER_SAMPLER": "0", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


def model(folder: Path, shape: dict[str, Any]) -> Path:
    """Writes the files of a published model, except its weights."""
    folder.mkdir()
    entries = shape["vocab_size"]
    vocabulary = {f"w{number}": number for number in range(entries - 2)}
    special = {"<bos>": entries - 2, "<eos>": entries - 1}
    tokenizer = Tokenizer(models.WordLevel(vocabulary | special, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<bos>", "eos_token": "<eos>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": TEMPLATE}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "config.json").write_text(json.dumps(shape))
    return folder
