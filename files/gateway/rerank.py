"""`POST /v1/rerank` (Cohere v1 and Jina) and `/v2/rerank` (Cohere): passages ranked by relevance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.exchange import compact
from gateway.fields import FieldError, Fields
from gateway.parts import Options, in_parts, most_tokens
from gateway.request import Request
from gateway.settings import ModelSettings
from gateway.tensors import Input, strings

Document = dict[str, Any]


@dataclass(frozen=True)
class Ranked:
    """Passages by falling score: their places in the request, their scores, and the tokens that were read."""

    order: list[int]
    scores: list[float]
    tokens: int


async def cohere_v1(request: Request) -> None:
    """Answers Cohere's first version and Jina's alike: each client reads its own field names."""
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
    most = min(fields.whole(name, 1, 2**31 - 1, len(documents)) for name in ("top_n", "top_k"))  # Cohere's and Voyage's
    kept = fields.whole("max_tokens_per_doc", 1, 2**31 - 1, model.max_tokens)
    if kept < model.max_tokens:  # the model cuts query and document together, at its own length
        reason = f"a document and its query are cut at {model.max_tokens} tokens together; no other length is supported"
        raise FieldError("max_tokens_per_doc", f"`max_tokens_per_doc`: {reason}", "unsupported")
    fields.ignore("priority", 0, because="all requests have the same priority")
    fields.only("rank_fields", ["text"], because="documents have only the field `text`")
    fields.only("truncation", True, because="documents are cut at the model's length")
    fields.only("max_doc_length", because="documents can only be cut at the model's length")
    fields.only("return_embeddings", False, because="a reranker returns no vectors")
    fields.close()
    texts = [document["text"] for document in documents]
    ranked = await rank(request, model, query, texts, {"raw_scores": False, "truncate": True})
    results = (
        {"index": index, "relevance_score": score, **({"document": documents[index]} if returns else {})}
        for index, score in list(zip(ranked.order, ranked.scores, strict=True))[:most]
    )
    meta = {"api_version": {"version": version}, "tokens": {"input_tokens": ranked.tokens}}
    usage = {"prompt_tokens": ranked.tokens, "total_tokens": ranked.tokens}
    before = compact({"id": request.exchange.identity, "model": name})[:-1]
    after = compact({"meta": meta, "usage": usage})[1:]
    await request.exchange.json_of_many(f'{before},"results":', results, f",{after}")


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

    def tensors(part: Sequence[str]) -> list[Input]:
        return [strings("query", [query], (1, 1)), strings("passages", part, (1, len(part)))]

    request.reserve(most_tokens(model, passages, query))
    outputs = await in_parts(request, model, passages, options, tensors)
    scores: list[Any] = [score for output in outputs for score in output["scores"].floats()]
    tokens = request.exchange.record.prompt_tokens = sum(sum(output["token_counts"].ints()) for output in outputs)
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    return Ranked(order, [scores[index] for index in order], tokens)
