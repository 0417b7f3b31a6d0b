"""The config.json of EmbeddingGemma, a Gemma 3: bidirectional attention, with a sliding window in most layers."""

from functools import partial
from pathlib import Path
from typing import Any

from .errors import CheckpointError
from .family import Family, Network, embeds, must_be
from .gated import FLOAT32, Names, Shape, Trunk, bases, shapes

FIXED = {
    "hidden_activation": "gelu_pytorch_tanh",
    "attention_bias": False,
    "attn_logit_softcapping": None,
    "use_bidirectional_attention": True,
}
LEGACY = {"full_attention": "rope_theta", "sliding_attention": "rope_local_base_freq"}
PREFIXES = {
    "search_query": "task: search result | query: ",
    "search_document": "title: none | text: ",
    "classification": "task: classification | query: ",
    "clustering": "task: clustering | query: ",
}
"""Prefixes by task, from config_sentence_transformers.json of google/embeddinggemma-300m."""


@embeds("Gemma3TextModel")
def read(directory: Path, config: dict[str, Any], name: str) -> Family:
    """The family of a Gemma 3 embedder.

    Raises: CheckpointError for an unsupported setting, KeyError for a missing one.
    """
    must_be(directory, {"use_bidirectional_attention": False} | FIXED | config, FIXED)
    if config["query_pre_attn_scalar"] != config["head_dim"]:
        raise CheckpointError(f"{directory}/config.json: query_pre_attn_scalar is not head_dim; only that is served")
    layers = config["num_hidden_layers"]
    kinds = tuple(config.get("layer_types") or _every(config, layers))
    shape = Shape(
        names=Names(
            word="embed_tokens",
            layer="layers.{}",
            qkv=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            out="self_attn.o_proj",
            before=("input_layernorm", "pre_feedforward_layernorm"),
            after=("post_attention_layernorm", "post_feedforward_layernorm"),
            gates=("mlp.gate_proj", "mlp.up_proj"),
            down="mlp.down_proj",
            final="norm",
            heads=("self_attn.q_norm", "self_attn.k_norm"),
        ),
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        head=config["head_dim"],
        inner=config["intermediate_size"],
        positions=config["max_position_embeddings"],
        epsilon=config["rms_norm_eps"],
        bases=bases(directory, config, kinds, LEGACY),
        windows=tuple(config["sliding_window"] // 2 if kind == "sliding_attention" else 0 for kind in kinds),
        activation="gelu_pytorch_tanh",
        shifted=True,
        scale=config["hidden_size"] ** 0.5,
    )
    return Family(
        build=lambda weights, kernels: Network(Trunk(shape, weights, kernels)),
        shapes=partial(shapes, shape),
        hidden=shape.hidden,
        vocabulary=shape.vocabulary,
        position_limit=shape.positions,
        padding_id=config.get("pad_token_id") or 0,
        prefixes=PREFIXES,
        float32=FLOAT32,
        float32_residuals=True,
        fits_float16=False,
    )


def _every(config: dict[str, Any], layers: int) -> list[str]:
    every = config.get("sliding_window_pattern") or config["_sliding_window_pattern"]
    return ["sliding_attention" if (index + 1) % every else "full_attention" for index in range(layers)]
