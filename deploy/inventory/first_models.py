"""The models of an inventory that `enginehouse init` writes: the named models, or the shipped inventory's models."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword

from deploy.refusals import source

SHIPPED = """gpt_oss = LLM(
    name="gpt-oss-20b",
    checkpoint="gpt-oss-20b",
    weights=Weights.hub("openai/gpt-oss-20b", "6cee5e81ee83917806bbde320786a8fb61efebee"),
)
reranker = Reranker(
    name="bge-reranker-large",
    checkpoint="bge-reranker-large",
    weights=Weights.hub("BAAI/bge-reranker-large", "55611d7bca2a7133960a6d3b71e083071bbfc312"),
)
embedder = Embedder(
    name="nomic-embed-text-v2-moe",
    checkpoint="nomic-embed-text-v2-moe",
    weights=Weights.hub("nomic-ai/nomic-embed-text-v2-moe", "1066b6599d099fbb93dfcb64f9c37a7c9e503e85"),
)
"""
SHIPPED_VARIABLES = ("reranker", "embedder", "gpt_oss")


@dataclass(frozen=True)
class Named:
    """A model by its source, the class that declares it (LLM, Embedder or Reranker), and further settings as text."""

    kind: str
    source: str
    settings: str = ""


def variables_of(models: Sequence[Named]) -> tuple[str, ...]:
    """A variable name for each model, after the last part of its source; a number distinguishes equal names."""
    variables: list[str] = []
    for model in models:
        name = model.source.partition("@")[0].rstrip("/").rsplit("/", 1)[-1].lower()
        word = re.sub(r"[^a-z0-9]+", "_", name).strip("_")
        word = word if word and not word[0].isdigit() and not iskeyword(word) else f"model_{word}".rstrip("_")
        variables.append(word if word not in variables else f"{word}_{len(variables) + 1}")
    return tuple(variables)


def declared_models(models: Sequence[Named], variables: Sequence[str]) -> str:
    """An assignment for each model, as Python text."""
    pairs = zip(variables, models, strict=True)
    return "".join(f"{variable} = {model.kind}({source(model.source)}{model.settings})\n" for variable, model in pairs)
