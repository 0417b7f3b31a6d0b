"""Choose the network from a checkpoint's config.json, and refuse every setting it would silently get wrong.

A config value this code does not read is a value it may contradict; so each that changes the arithmetic is compared
with the only value the networks here implement.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import bert, nomic
from .checkpoint import Kind, load_strictly, read_json
from .choices import Kernels
from .errors import CheckpointError
from .packing import Packed
from .settings import TASKS
from .weights import Shapes, Weights

EMBEDDERS = ("BertModel", "XLMRobertaModel", "NomicBertModel")
RERANKERS = ("XLMRobertaForSequenceClassification",)
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

BERT_FIXED = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
NOMIC_FIXED = {
    "activation_function": "gelu",
    "causal": False,
    "prenorm": False,
    "parallel_block": False,
    "qkv_proj_bias": True,
    "mlp_fc1_bias": True,
    "mlp_fc2_bias": True,
    "num_shared_experts": 0,
    "ffn_div": 1,
    "expert_choice_router": False,
    "moe_normalize_expert_weights": False,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "use_rms_norm": None,
}


@dataclass(frozen=True)
class Network:
    """A trunk and, for a reranker, its head."""

    trunk: Any
    head: bert.Classifier | None = None

    def __call__(self, batch: Packed) -> Tensor:
        """One float32 logit per sequence, [sequences]; without a head the hidden states, [tokens, hidden]."""
        return self.trunk(batch) if self.head is None else self.head(self.trunk(batch, only_first=True))


@dataclass(frozen=True)
class Family:
    """A network not yet loaded, and what its checkpoint settles for the code around it."""

    shape: bert.Shape | nomic.Shape
    hidden: int
    vocabulary: int
    position_limit: int
    """Most tokens a sequence can have, special tokens included."""
    padding_id: int
    prefixes: Mapping[str, str]
    """Task name to the words put before a text; empty where the family was trained without."""
    counted_from: int = 0
    """Position of a sequence's first token."""
    uncounted: int = -1
    """A token that takes no position when it stands inside a text; none by default."""

    @property
    def mixture(self) -> bool:
        """True if some of its layers have experts."""
        return isinstance(self.shape, nomic.Shape)

    def shapes(self) -> Shapes:
        """Names and shapes of every tensor of its checkpoint."""
        return nomic.shapes(self.shape) if isinstance(self.shape, nomic.Shape) else bert.shapes(self.shape)


def choose(directory: Path, architectures: tuple[str, ...]) -> Family:
    """The family of the checkpoint in `directory`, one of `architectures`.

    Raises: CheckpointError for any other, by name, and for a setting that the networks here do not compute.
    """
    config = read_json(directory, "config.json")
    named = config.get("architectures") or []
    if len(named) != 1 or named[0] not in architectures:
        shown = ", ".join(named) or "none"
        raise CheckpointError(
            f"{directory}/config.json: architecture is {shown}; this model serves {', '.join(architectures)}"
        )
    build = _nomic if named[0] == "NomicBertModel" else _bert
    try:
        return build(directory, config, named[0])
    except KeyError as error:
        raise CheckpointError(f"{directory}/config.json: {error} is missing") from None


def load(family: Family, directory: Path, kernels: Kernels) -> Network:
    """`family`'s network with the weights of `directory` on the kernels' device, in their type.

    Raises: CheckpointError where the weights are not this network's, or where there is no memory for them.
    """
    kind = Kind(kernels.dtype, (nomic.NomicMoe if family.mixture else bert.Trunk).FLOAT32)
    try:
        weights = Weights(load_strictly(family.shapes(), directory, kind), kernels.device)
        return network_of(family.shape, weights, kernels)
    except torch.OutOfMemoryError:
        raise CheckpointError(
            f"{kernels.device}: no memory for the weights of {directory} in {kernels.dtype}; raise memory_mib"
        ) from None


def network_of(shape: bert.Shape | nomic.Shape, weights: Weights, kernels: Kernels) -> Network:
    """The network of `shape`; takes `weights` as it goes."""
    if isinstance(shape, nomic.Shape):
        return Network(nomic.NomicMoe(shape, weights, kernels))
    return Network(bert.Trunk(shape, weights, kernels), bert.Classifier(weights) if shape.classifies else None)


def _bert(directory: Path, config: dict[str, Any], name: str) -> Family:
    _must_be(directory, BERT_FIXED | config, BERT_FIXED)
    roberta = name != "BertModel"
    padding = config["pad_token_id"] if roberta else config.get("pad_token_id", 0)
    shape = bert.Shape(
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        inner=config["intermediate_size"],
        positions=config["max_position_embeddings"],
        segments=config["type_vocab_size"],
        epsilon=config["layer_norm_eps"],
        padding_id=padding if roberta else None,
        classifies=name in RERANKERS,
    )
    limit = shape.positions - padding - 1 if roberta else shape.positions
    counted = (padding + 1, padding) if roberta else (0, -1)
    return Family(shape, shape.hidden, shape.vocabulary, limit, padding, {}, *counted)


def _nomic(directory: Path, config: dict[str, Any], name: str) -> Family:
    if not config.get("num_experts"):
        raise CheckpointError(
            f"{directory}/config.json: {name} without experts (v1, v1.5) is another network; only v2-moe is served"
        )
    _must_be(directory, config, NOMIC_FIXED)
    shape = nomic.Shape(
        vocabulary=config["vocab_size"],
        hidden=config["n_embd"],
        layers=config["n_layer"],
        heads=config["n_head"],
        inner=config["n_inner"] or 4 * config["n_embd"],
        segments=config["type_vocab_size"],
        epsilon=config["layer_norm_epsilon"],
        rotary_base=config["rotary_emb_base"],
        experts=config["num_experts"],
        chosen=config["moe_top_k"],
        moe_every=config["moe_every_n_layers"],
        positions=config.get("max_trained_positions") or config["n_positions"],
    )
    prefixes = {task: f"{task}: " for task in TASKS}
    return Family(shape, shape.hidden, shape.vocabulary, shape.positions, config["pad_token_id"], prefixes)


def _must_be(directory: Path, config: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    for key, wanted in fixed.items():
        if (config[key] or None) != (wanted or None):  # null, false and 0 all mean "without"
            raise CheckpointError(f"{directory}/config.json: {key} is {config[key]!r}; only {wanted!r} is served")
