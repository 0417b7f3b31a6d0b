"""Measured throughput of a model under a load, from bench files.

Two files are known: the results of `enginehouse bench`, and the results of `benchmarks/encoders.py`, which measures the
shapes of bge-reranker-large and nomic-embed-text-v2-moe on one card.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from deploy.catalog import CHECKPOINTS
from deploy.refusals import refuse
from deploy.slices.host import ModelSlice

ENCODERS = {"reranker": "bge-reranker-large", "embedder": "nomic-embed-text-v2-moe"}
"""The checkpoints whose shapes benchmarks/encoders.py measures, by kind."""
PRODUCTS = {"ours": "fp16", "fp8": "fp8"}
CARDS = {"NVIDIA H100 80GB HBM3": "h100-80"}
"""Cards of the catalog by their name in nvidia-smi; only names that were read on a machine."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """Measured throughput of a load of a model on `gpus` cards of one kind; rates are a second, of all cards together.

    `alone`: its cards served no other model meanwhile. `saturated`: each of the load's clients asked again as soon as
    it had an answer, so the rate is the highest for this number of clients.
    """

    name: str
    model: str
    kind: str
    card: str
    gpus: int
    replica_gpus: int = 1
    """Number of GPUs over which one replica of the model was split."""
    products: str = ""
    clients: int = 0
    alone: bool = True
    saturated: bool = True
    documents: float = 0.0
    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0
    prompt_length: float = 0.0
    """Mean tokens of a request's prompt, or of a document."""
    answer_length: float = 0.0
    first_token_p95_seconds: float | None = None
    source: str = ""

    def is_of(self, model: ModelSlice, card: str) -> bool:
        """True if this load measured that model in the same serving mode on that card."""
        known = CHECKPOINTS.get(self.model)
        same = self.model == model.name or (known is not None and known.repository == model.weights.repository)
        products = str(model.settings.get("products", model.settings.get("dtype", "")))
        is_there = self.card == card and model.settings.get("device") != "cpu"
        return same and is_there and self.kind == model.kind and self.products in ("", products)


def loads_of(record: Any, source: str) -> tuple[Load, ...]:
    """The loads of a bench file. Raises: a Refusal for a file that neither program wrote."""
    kind = record.get("benchmark") if isinstance(record, Mapping) else None
    try:
        if kind == "encoders":
            return tuple(_of_encoders(record, source))
        if kind == "enginehouse bench":
            return tuple(_of_bench(record, source))
    except (KeyError, TypeError, ValueError) as error:
        raise _unknown(source, f"{type(error).__name__}: {error}") from None
    raise _unknown(source, f"benchmark={kind!r}")


def bench_of(record: Any, source: str) -> Mapping[str, Any]:
    """A whole result of `enginehouse bench`. Raises: a Refusal for any other file."""
    loads_of(record, source)
    if record["benchmark"] != "enginehouse bench":
        raise _unknown(source, f"benchmark={record['benchmark']!r}, which has no runs of requests")
    return cast(Mapping[str, Any], record)


def _of_encoders(record: Mapping[str, Any], source: str) -> Iterable[Load]:
    card = CARDS.get(record["machine"]["gpu"], record["machine"]["gpu"])
    for case in record["cases"]:
        for column, products in PRODUCTS.items():
            if measured := case.get(column):
                yield Load(
                    name=case["name"],
                    model=ENCODERS[case["kind"]],
                    kind=case["kind"],
                    card=card,
                    gpus=1,
                    products=products,
                    clients=case["clients"],
                    saturated=not case["is_latency"],
                    documents=measured["documents_per_second"],
                    prompt_tokens=measured["tokens_per_second"],
                    prompt_length=case["tokens_per_document"],
                    source=f"{source}, {record['date']}",
                )


def _of_bench(record: Mapping[str, Any], source: str) -> Iterable[Load]:
    for case in record["cases"]:
        middle = case["median"]
        yield Load(
            name=case["name"],
            model=case["model"],
            kind=case["kind"],
            card=record["machine"]["card"],
            gpus=case["gpus"],
            replica_gpus=case["replica_gpus"],
            products=case.get("products", ""),
            clients=case["clients"],
            alone=not case["beside"],
            saturated=case["clients"] > 0,
            documents=middle["documents_per_second"],
            prompt_tokens=middle["prompt_tokens_per_second"],
            completion_tokens=middle["completion_tokens_per_second"],
            prompt_length=case["prompt_tokens"],
            answer_length=case["answer_tokens"],
            first_token_p95_seconds=middle["first_token_p95_ms"] / 1000 if middle.get("first_token_p95_ms") else None,
            source=f"{source}, {record['date']}",
        )


def _unknown(source: str, seen: str) -> Exception:
    return refuse(
        "unknown-bench",
        f"{source} is not a result of `enginehouse bench`",
        where=source,
        seen=seen,
        wanted='JSON with "benchmark" of "enginehouse bench" or of benchmarks/encoders.py ("encoders")',
        attempt="enginehouse bench INVENTORY --to bench.json",
    )
