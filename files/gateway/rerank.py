"""`POST /v1/rerank` (Cohere v1, Jina and Voyage), `/v2/rerank` (Cohere) and `/score` (vLLM): passages by relevance."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.embeddings import cuts_at_the_end
from gateway.exchange import compact
from gateway.fields import FieldError, Fields
from gateway.parts import Options, in_parts, most_tokens
from gateway.request import Request
from gateway.settings import ModelSettings
from gateway.tensors import Input, strings

Document = dict[str, Any]
SIDES = (("text_1", "text_2"), ("queries", "documents"), ("queries", "items"), ("data_1", "data_2"))
"""vLLM's names of the two sides of a pair."""


@dataclass(frozen=True)
class Ranked:
    """Passages by falling score: their places in the request, their scores, and the tokens that were read."""

    order: list[int]
    scores: list[float]
    tokens: int


async def cohere_v1(request: Request) -> None:
    """Answers Cohere's first version, Jina's and Voyage's alike: each client reads its own field names."""
    fields = request.fields()
    documents = documents_of(fields, request.exchange.limits.documents)
    fields.ignore("max_chunks_per_doc", 1, because="documents are read once, from their beginning")
    await _cohere(request, fields, documents, fields.flag("return_documents", False), "1")


async def cohere_v2(request: Request) -> None:
    """Answers Cohere's second version, in which documents are texts."""
    fields = request.fields()
    documents = documents_of(fields, request.exchange.limits.documents)
    await _cohere(request, fields, documents, fields.flag("return_documents", False), "2")


async def _cohere(request: Request, fields: Fields, documents: list[Document], returns: bool, version: str) -> None:
    name = fields.text("model")
    model, _ = request.model(name, "reranker")
    query = fields.text("query")
    is_voyages = fields.has("top_k") or fields.has("truncation")
    # Cohere's name and Voyage's name.
    most = min(fields.whole(name, 1, 2**31 - 1, len(documents)) for name in ("top_n", "top_k"))
    kept = fields.whole("max_tokens_per_doc", 1, 2**31 - 1, model.max_tokens)
    if kept < model.max_tokens:  # the model truncates query and document together, at its own length
        reason = f"a document and its query are cut at {model.max_tokens} tokens together; no other length is supported"
        raise FieldError("max_tokens_per_doc", f"`max_tokens_per_doc`: {reason}", "unsupported")
    fields.ignore("priority", 0, because="all requests have the same priority")
    fields.only("rank_fields", ["text"], because="documents have only the field `text`")
    truncates = fields.flag("truncation", True)
    cuts_at_the_end(fields)  # accepted without effect: texts are truncated anyway
    is_raw = fields.flag("raw_scores", False)
    fields.only("instruction", because="the model's own instruction is used")
    fields.only("max_doc_length", because="documents can only be cut at the model's length")
    fields.only("return_embeddings", False, because="a reranker returns no vectors")
    fields.close()
    texts = [document["text"] for document in documents]
    ranked = await rank(request, model, query, texts, {"raw_scores": is_raw, "truncate": truncates})
    pairs = list(zip(ranked.order, ranked.scores, strict=True))[:most]
    meta = {"api_version": {"version": version}, "tokens": {"input_tokens": ranked.tokens}}
    usage = {"prompt_tokens": ranked.tokens, "total_tokens": ranked.tokens}
    before = compact({"id": request.exchange.identity, "model": name})[:-1]
    after = compact({"meta": meta, "usage": usage})[1:]
    lists = [('"results":', _results(pairs, documents if returns else []))]
    if is_voyages:
        lists.append(('"data":', _results(pairs, texts if returns else [])))
    await request.exchange.json_of_lists(f"{before},", lists, f",{after}")


def _results(pairs: list[tuple[int, float]], documents: Sequence[object]) -> Iterator[Document]:
    for index, score in pairs:
        yield {"index": index, "relevance_score": score, **({"document": documents[index]} if documents else {})}


async def score(request: Request) -> None:
    """Answers the score of each of vLLM's pairs: one text with each of a list, or two lists in order."""
    fields = request.fields()
    name = fields.text("model")
    model, _ = request.model(name, "reranker")
    first, second = next((pair for pair in SIDES if all(map(fields.has, pair))), SIDES[0])
    queries, texts = (_listed(fields, side, request.exchange.limits.documents) for side in (first, second))
    if len(queries) not in (1, len(texts)):
        raise fields.wrong(first, f"a text, or as many texts as `{second}` has: {len(texts)}")
    truncates = cuts_at_the_end(fields)
    fields.only("use_activation", True, because="a score is a number from 0 to 1; POST /rerank has `raw_scores`")
    fields.text("user", "")  # accepted without effect
    fields.close()
    options: Options = {"raw_scores": False, "truncate": truncates}
    places = dict[str, list[int]]()
    for place, query in enumerate(queries * len(texts) if len(queries) == 1 else queries):
        places.setdefault(query, []).append(place)
    groups = {query: [texts[place] for place in group] for query, group in places.items()}
    request.reserve(sum(most_tokens(model, group, query) for query, group in groups.items()))
    scores, tokens = dict[int, float](), 0
    for query, group in groups.items():
        numbers, read = await scores_of(request, model, query, group, options)
        scores |= zip(places[query], numbers, strict=True)
        tokens += read
    request.exchange.record.prompt_tokens = tokens
    data = ({"index": index, "object": "score", "score": scores[index]} for index in range(len(texts)))
    head = {"id": f"score-{request.exchange.identity}", "object": "list", "created": int(time.time()), "model": name}
    usage = compact({"usage": {"prompt_tokens": tokens, "total_tokens": tokens}})[1:]
    await request.exchange.json_of_many(f'{compact(head)[:-1]},"data":', data, f",{usage}")


def _listed(fields: Fields, name: str, most: int) -> list[str]:
    value = fields.value(name)
    return Fields({name: [value] if isinstance(value, str) else value}).texts(name, most)


def documents_of(fields: Fields, most: int) -> list[Document]:
    """The documents, each a text or an object: its `text` is ranked, and its other fields only come back."""
    documents = fields.items("documents", most)
    return [
        {"text": document} if isinstance(document, str) else _document(document, f"documents[{index}]")
        for index, document in enumerate(documents)
    ]


def _document(document: object, where: str) -> Document:
    Fields(document, where).text("text")
    assert isinstance(document, dict)
    return document


async def rank(request: Request, model: ModelSettings, query: str, passages: list[str], options: Options) -> Ranked:
    """The passages, best first; equal ones in the order of the request."""
    request.reserve(most_tokens(model, passages, query))
    scores, tokens = await scores_of(request, model, query, passages, options)
    request.exchange.record.prompt_tokens = tokens
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    return Ranked(order, [scores[index] for index in order], tokens)


async def scores_of(
    request: Request, model: ModelSettings, query: str, passages: list[str], options: Options
) -> tuple[list[float], int]:
    """The scores of the passages in their order, and the tokens that were read."""

    def tensors(part: Sequence[str]) -> list[Input]:
        return [strings("query", [query], (1, 1)), strings("passages", part, (1, len(part)))]

    outputs, tokens = await in_parts(request, model, passages, options, tensors)
    return [score for output in outputs for score in output["scores"].floats()], tokens
