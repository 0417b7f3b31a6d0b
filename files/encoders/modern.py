"""ModernBERT's config.json: embedders, and rerankers with its one-label head."""

from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from .choices import Kernels
from .family import Family, Network, embeds, must_be, reranks
from .gated import FLOAT32, Names, Shape, Trunk, bases, shapes
from .gated_steps import Scale
from .packing import Packed, firsts
from .weights import Shapes, Weights

FIXED = {"hidden_activation": "gelu", "attention_bias": False, "mlp_bias": False, "norm_bias": False}
HEAD = {"classifier_activation": "gelu", "classifier_bias": False}
LEGACY = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}


@embeds("ModernBertModel")
@reranks("ModernBertForSequenceClassification")
def read(directory: Path, config: dict[str, Any], name: str) -> Family:
    """The family of a ModernBERT checkpoint.

    Raises: CheckpointError for an unsupported setting, KeyError for a missing one.
    """
    classifies = name != "ModernBertModel"
    fixed = FIXED | (HEAD if classifies else {})
    must_be(directory, fixed | config, fixed)
    layers = config["num_hidden_layers"]
    kinds = tuple(config.get("layer_types") or _every(config, layers))
    at = "model." if classifies else ""
    shape = Shape(
        names=Names(
            word=f"{at}embeddings.tok_embeddings",
            embedded=f"{at}embeddings.norm",
            layer=f"{at}layers.{{}}",
            qkv=("attn.Wqkv",),
            out="attn.Wo",
            before=("attn_norm", "mlp_norm"),
            gates=("mlp.Wi",),
            down="mlp.Wo",
            final=f"{at}final_norm",
        ),
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_attention_heads"],
        head=config["hidden_size"] // config["num_attention_heads"],
        inner=config["intermediate_size"],
        positions=config["max_position_embeddings"],
        epsilon=config["norm_eps"],
        bases=bases(directory, config, kinds, LEGACY),
        windows=tuple(config["local_attention"] // 2 if kind == "sliding_attention" else 0 for kind in kinds),
        activation="gelu",
        centred=True,
        first_norm=False,
    )
    pooling = config.get("classifier_pooling", "cls") if classifies else ""
    return Family(
        build=partial(_network, shape, pooling),
        shapes=partial(_shapes, shape, classifies),
        hidden=shape.hidden,
        vocabulary=shape.vocabulary,
        position_limit=shape.positions,
        padding_id=config["pad_token_id"],
        float32=FLOAT32,
        float32_residuals=True,
        longest_first=True,
    )


def _every(config: dict[str, Any], layers: int) -> list[str]:
    every = config["global_attn_every_n_layers"]
    return ["sliding_attention" if index % every else "full_attention" for index in range(layers)]


def _shapes(shape: Shape, classifies: bool) -> Shapes:
    h = shape.hidden
    head: Shapes = {"head.dense.weight": (h, h), "head.norm.weight": (h,)}
    head |= {"classifier.weight": (1, h), "classifier.bias": (1,)}
    return shapes(shape) | (head if classifies else {})


def _network(shape: Shape, pooling: str, weights: Weights, kernels: Kernels) -> Network:
    trunk = Trunk(shape, weights, kernels)
    return Network(trunk, Classifier(shape, weights, pooling, kernels) if pooling else None)


class Classifier:
    """The one-label head: the state of the first token, or the mean of all tokens, to one float32 logit."""

    def __init__(self, shape: Shape, weights: Weights, pooling: str, kernels: Kernels) -> None:
        self.pooling, self.kernels = pooling, kernels
        self.dense, self.score = weights.linear("head.dense").weight, weights.linear("classifier")
        self.norm = Scale(weights["head.norm.weight"].float(), shape.epsilon, shape.centred)

    def __call__(self, trunk: Trunk, batch: Packed) -> Tensor:
        """The float32 logit of every sequence, [sequences]."""
        states = trunk(batch)
        mean = self.pooling == "mean"
        pooled = self.kernels.steps.mean(states, batch.starts) if mean else states[firsts(batch)]
        return self.score(self.norm(F.gelu(F.linear(pooled, self.dense)))).squeeze(-1)
