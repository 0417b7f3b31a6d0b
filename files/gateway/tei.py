"""TEI's `POST /embed` and `/rerank`, and `GET /info`. They name no model and use the key's only one of a kind.

An extra field `model` chooses among several.
"""

from __future__ import annotations

from gateway.embeddings import embedded, vectors_of
from gateway.errors import ApiError
from gateway.fields import Fields
from gateway.parts import Options
from gateway.request import Request
from gateway.rerank import cohere_v1, rank


async def embed(request: Request) -> None:
    """Answers the vectors of the texts, in their order."""
    fields = request.fields()
    model, alias = request.model(fields.text("model", "") or request.only_name("embedder"), "embedder")
    inputs = fields.value("inputs")
    most = request.exchange.limits.inputs
    texts = [inputs] if isinstance(inputs, str) else Fields({"inputs": inputs}).texts("inputs", most)
    options: Options = {"truncate": truncates(fields), "normalize": fields.flag("normalize", True)}
    fields.only("prompt_name", because="a task is part of a model's name, as `name:query`")
    if dimensions := fields.maybe_whole("dimensions", 1, model.dimensions):
        options["dimensions"] = dimensions
    fields.close()
    options |= {"task": alias.task} if alias.task else {}
    outputs, _ = await embedded(request, model, texts, options, "float")
    await request.exchange.json_of_many("", vectors_of(outputs, "float"), "")


async def rerank(request: Request) -> None:
    """Answers the texts' places and scores, best first; a body with `documents` is read as Jina's."""
    if isinstance(request.body, dict) and "documents" in request.body and "texts" not in request.body:
        return await cohere_v1(request)
    fields = request.fields()
    model, _ = request.model(fields.text("model", "") or request.only_name("reranker"), "reranker")
    query, texts = fields.text("query"), fields.texts("texts", request.exchange.limits.documents)
    raw, returns = fields.flag("raw_scores", False), fields.flag("return_text", False)
    options: Options = {"raw_scores": raw, "truncate": truncates(fields)}
    fields.close()
    ranked = await rank(request, model, query, texts, options)
    pairs = zip(ranked.order, ranked.scores, strict=True)
    answer = ({"index": index, "score": score, **({"text": texts[index]} if returns else {})} for index, score in pairs)
    await request.exchange.json_of_many("", answer, "")


async def info(request: Request) -> None:
    """Describes the gateway's default encoder or the key's only one: name, kind, and the sizes of its requests."""
    limits = request.exchange.limits
    sizes = {"embedder": ("embedding", limits.inputs), "reranker": ("reranker", limits.documents)}
    settings, may_use = request.gateway.settings, request.key.may_use
    defaults = {settings.default_embedder: "embedder", settings.default_reranker: "reranker"}
    kinds = {name: model.kind for name, model in settings.models.items() if model.kind in sizes} | defaults
    names = [name for name in defaults if name and may_use(name)][:1]
    names = names or [name for name in kinds if name and may_use(name)]
    if len(names) != 1:
        shown = ", ".join(names) or "none"
        raise ApiError(400, f"this path describes a key's only encoder, and this key has {shown}; ask GET /v1/models")
    model, _ = request.model(names[0], kinds[names[0]])
    kind, most = sizes[model.kind]
    about = {"model_id": model.name, "model_type": {kind: {}}, "max_input_length": model.max_tokens}
    await request.exchange.json({**about, "max_client_batch_size": most, "auto_truncate": False})


def truncates(fields: Fields) -> bool:
    """True if too long a text has to be truncated, which is done at its end."""
    fields.only("truncation_direction", "Right", "right", because="texts are cut at their end")
    fields.ignore("options", because="models are always loaded, and answers are not cached")  # of Hugging Face's hub
    return fields.flag("truncate", False)
