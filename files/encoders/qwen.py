"""Qwen3's config.json: decoders that embed by their last token's state, and rerank by the logits of their next token.

The reranker's prompt is a chat that asks whether a document meets a query; the score is the logit of "yes" minus that
of "no". The prompt is that of Qwen3-Reranker's model card.
"""

from functools import partial
from pathlib import Path
from typing import Any

import tokenizers
from torch import Tensor

from .checkpoint import tensor_names
from .choices import Kernels
from .errors import CheckpointError
from .family import Family, Network, Template, embeds, must_be, reranks
from .gated import FLOAT32, Names, Shape, Trunk, bases, shapes
from .packing import Packed, lasts
from .weights import Weights

FIXED = {"hidden_act": "silu", "attention_bias": False, "use_sliding_window": False}
TASK = "Given a web search query, retrieve relevant passages that answer the query"
PREFIXES = {"search_query": f"Instruct: {TASK}\nQuery:", "search_document": ""}
TEMPLATE = Template(
    before="<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct"
    ' provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n',
    text=f"<Instruct>: {TASK}\n<Query>: {{query}}\n<Document>: {{passage}}",
    after="<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
)
WORDS = ("yes", "no")


@embeds("Qwen3ForCausalLM", "Qwen3Model")
def read_embedder(directory: Path, config: dict[str, Any], name: str) -> Family:
    """The family of a Qwen3 embedder.

    Raises: CheckpointError for an unsupported setting, KeyError for a missing one.
    """
    shape = _shape(directory, config)
    return _family(
        shape,
        config,
        build=lambda weights, kernels: Network(Trunk(shape, weights, kernels)),
        shapes=partial(shapes, shape),
        prefixes=PREFIXES,
        pooling="last",
    )


@reranks("Qwen3ForCausalLM")
def read_reranker(directory: Path, config: dict[str, Any], name: str) -> Family:
    """The family of a Qwen3 reranker.

    Raises: CheckpointError for an unsupported setting, KeyError for a missing one.
    """
    shape = _shape(directory, config)
    words = _word_ids(directory)
    table = f"{shape.names.word}.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return _family(
        shape,
        config,
        build=lambda weights, kernels: _reranker(shape, table, words, weights, kernels),
        shapes=lambda: shapes(shape) | {table: (shape.vocabulary, shape.hidden)},
        template=TEMPLATE,
    )


def _shape(directory: Path, config: dict[str, Any]) -> Shape:
    must_be(directory, FIXED | config, FIXED)
    at = "model." if any(name.startswith("model.") for name in tensor_names(directory)) else ""
    layers = config["num_hidden_layers"]
    return Shape(
        names=Names(
            word=f"{at}embed_tokens",
            layer=f"{at}layers.{{}}",
            qkv=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            out="self_attn.o_proj",
            before=("input_layernorm", "post_attention_layernorm"),
            gates=("mlp.gate_proj", "mlp.up_proj"),
            down="mlp.down_proj",
            final=f"{at}norm",
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
        bases=bases(directory, config, ("full_attention",) * layers, {"full_attention": "rope_theta"}),
        windows=(0,) * layers,
        activation="silu",
        causal=True,
    )


def _family(shape: Shape, config: dict[str, Any], **more: Any) -> Family:
    return Family(
        hidden=shape.hidden,
        vocabulary=shape.vocabulary,
        position_limit=shape.positions,
        padding_id=config.get("pad_token_id") or 0,
        float32=FLOAT32,
        float32_residuals=True,
        fits_float16=False,
        **more,
    )


def _word_ids(directory: Path) -> tuple[int, ...]:
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise CheckpointError(f"{directory}: tokenizer.json is missing")
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    ids = tuple(number for word in WORDS if (number := tokenizer.token_to_id(word)) is not None)
    if len(ids) < len(WORDS):
        raise CheckpointError(f"{path}: has no token for {' or '.join(WORDS)}, between which the score decides")
    return ids


def _reranker(shape: Shape, table: str, words: tuple[int, ...], weights: Weights, kernels: Kernels) -> Network:
    rows = weights.peek(table)[list(words)].float()
    if table == "lm_head.weight":
        del weights[table]
    return Network(Trunk(shape, weights, kernels), YesNo((rows[0] - rows[1]).to(kernels.device)))


class YesNo:
    """The head: the logit of "yes" minus the logit of "no", as the next token."""

    def __init__(self, direction: Tensor) -> None:
        self.direction = direction

    def __call__(self, trunk: Trunk, batch: Packed) -> Tensor:
        """The float32 logit of every sequence, [sequences]."""
        return trunk(batch)[lasts(batch)] @ self.direction
