"""The cases of the table: model, length of the texts, texts per request, number of clients; with fixed seeds.

Lengths are the network's tokens: special tokens, prefix and, for the reranker, the query included. Each
case is written once as a file of requests that every client process reads, so both backends get the same texts.
"""

import json
import math
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.sized_texts import Writer, token_counts

DOCUMENT, QUERY = "search_document: ", "search_query: "
QUERY_TOKENS = 8
DOCUMENTS = 1536  # approximate number of different texts of a case; each client starts at another one


@dataclass(frozen=True)
class Case:
    """A row of the table."""

    name: str
    kind: str
    """`reranker` or `embedder`."""
    tokens: tuple[int, int]
    """Shortest and longest length in tokens."""
    mean_tokens: int
    """Mean of the lengths, with a log-normal distribution within `tokens`; 0 means a uniform distribution."""
    items: int
    clients: int
    floor: float
    aim: float
    is_latency: bool = False
    """True if floor and aim are milliseconds of the median request instead of documents a second."""
    lumps: tuple[tuple[int, int], ...] = ()
    """Shortest and longest length of each group of texts; groups have equally many texts, and `tokens` bounds all
    lengths."""


TABLE = (
    Case("rerank 128 tokens, 100 a request", "reranker", (128, 128), 0, 100, 8, 6_500, 7_500),
    Case("rerank 512 tokens, 100 a request", "reranker", (512, 512), 0, 100, 4, 1_500, 1_650),
    Case("rerank log-normal, mean 123, 32 clients x 8", "reranker", (16, 512), 123, 8, 32, 5_500, 7_000),
    Case("embed 128 tokens, 32 a request", "embedder", (128, 128), 0, 32, 16, 13_000, 16_000),
    Case("embed 512 tokens, 32 a request", "embedder", (512, 512), 0, 32, 8, 3_200, 4_000),
    Case("embed one query of 16 to 32 tokens", "embedder", (16, 32), 0, 1, 1, 4.0, 2.0, is_latency=True),
)
TABLE_NAMES = ("rerank-128", "rerank-512", "rerank-mixed", "embed-128", "embed-512", "embed-query")
# Run only when named: loads that the host's CPU limits, where 8-bit products of an embedder cost (checks.products).
HOST_BOUND = {
    "embed-192": Case("embed 192 tokens, 64 a request", "embedder", (192, 192), 0, 64, 12, 0, 0),
    "embed-mixed": Case("embed log-normal, mean 200, 24 clients x 8", "embedder", (16, 512), 200, 8, 24, 0, 0),
}
# Run only when named: loads from real clients' descriptions, which were not used for tuning.
OF_CLIENTS = {
    "rerank-lumps": Case(
        "rerank two lumps of lengths, 20 clients x 12", "reranker", (32, 288), 0, 12, 20, 0, 0,
        lumps=((32, 64), (224, 288)),
    ),
    "rerank-uniform": Case("rerank 40 to 400 tokens, 6 clients x 50", "reranker", (40, 400), 0, 50, 6, 0, 0),
    "embed-mixed-64": Case("embed log-normal, mean 200, 12 clients x 64", "embedder", (16, 512), 200, 64, 12, 0, 0),
    "embed-query-8": Case(
        "embed one query of 16 to 32 tokens, 8 clients", "embedder", (16, 32), 0, 1, 8, 3.5, 2.5, is_latency=True
    ),
}  # fmt: skip
NAMED = dict(zip(TABLE_NAMES, TABLE, strict=True)) | HOST_BOUND | OF_CLIENTS


def chosen(names: list[str], small: bool) -> list[Case]:
    """Returns the cases of these short names, by default all; `small` cases end in a second on a CPU."""
    cases = [NAMED[name] for name in names] or list(TABLE)
    return [_small(case) for case in cases] if small else cases


def _small(case: Case) -> Case:
    return replace(case, items=min(case.items, 4), clients=min(case.clients, 4), floor=0, aim=0)


@dataclass(frozen=True)
class Workload:
    """A case and its written requests."""

    case: Case
    path: Path
    tokens_per_document: float
    squares_per_document: float
    """Mean of the squared lengths, to which the cost of attention is proportional."""


def write(case: Case, tokenizer_json: Path, folder: Path, seed: str = "") -> Workload:
    """Writes the case's requests to a file of `folder`; returns the workload with the texts' mean length, by the
    tokenizer.

    Another `seed` draws other lengths and other texts.
    """
    rng = random.Random(case.name + seed)
    writer = Writer(tokenizer_json, rng.randrange(2**32))
    prefix = token_counts(tokenizer_json, [_prefix(case)])[0] if case.kind == "embedder" else 0
    lengths = [_lengths(case, rng) for _ in range(min(256, -(-DOCUMENTS // case.items)))]
    requests = [_request(case, writer, row, prefix) for row in lengths]
    _check(case, tokenizer_json, requests[0], lengths[0])
    path = folder / f"{'-'.join(case.name.replace(',', '').split())}.json"
    path.write_text(json.dumps(requests), "utf-8")
    flat = [length for row in lengths for length in row]
    return Workload(case, path, sum(flat) / len(flat), sum(n * n for n in flat) / len(flat))


def _prefix(case: Case) -> str:
    return QUERY if case.is_latency else DOCUMENT


def _lengths(case: Case, rng: random.Random) -> list[int]:
    if case.lumps:
        return [rng.randint(*rng.choice(case.lumps)) for _ in range(case.items)]
    low, high = case.tokens
    if not case.mean_tokens:
        return [rng.randint(low, high) for _ in range(case.items)]
    return [min(high, max(low, round(rng.lognormvariate(*_log_normal(case))))) for _ in range(case.items)]


def _log_normal(case: Case) -> tuple[float, float]:
    """Returns mean and deviation of the logarithms, with 2 % added to the mean for the tail cut at 512."""
    deviation = 0.75
    return math.log(case.mean_tokens * 1.015) - deviation**2 / 2, deviation


def _request(case: Case, writer: Writer, lengths: list[int], prefix: int) -> dict[str, Any]:
    if case.kind == "embedder":
        task = _prefix(case).removesuffix(": ")
        return {"texts": [writer.text(length - 2 - prefix) for length in lengths], "options": {"task": task}}
    passages = [writer.text(length - 4 - QUERY_TOKENS) for length in lengths]
    return {"query": writer.text(QUERY_TOKENS), "passages": passages, "options": {}}


def _check(case: Case, tokenizer_json: Path, request: dict[str, Any], wanted: list[int]) -> None:
    if case.kind == "embedder":
        texts, extra = [_prefix(case) + text for text in request["texts"]], 2
    else:
        texts, extra = request["passages"], 4 + QUERY_TOKENS
    counts = [count + extra for count in token_counts(tokenizer_json, texts)]
    assert counts == wanted, f"{case.name}: texts came to {counts} tokens, wanted {wanted}"
