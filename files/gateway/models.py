"""`GET /v1/models` and `/v1/models/NAME`: the models of the key."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from gateway.errors import ApiError
from gateway.keys import Key
from gateway.request import Request
from gateway.settings import ModelSettings, Settings

ENDPOINTS = {"llm": ["chat"], "embedder": ["embed"], "reranker": ["rerank"]}
"""Cohere's words for the paths of a kind of models."""


async def list_models(request: Request) -> None:
    """Answers the models and aliases of the key, sorted by name."""
    named = usable(request.gateway.settings, request.key)
    if wanted := request.exchange.wanted(b"endpoint"):
        named = {name: model for name, model in named.items() if wanted in ENDPOINTS[model.kind]}
    data = [_shown(request, name, named[name]) for name in sorted(named)]
    page = {"has_more": False, "first_id": min(named, default=None), "last_id": max(named, default=None)}
    cohere = [_cohere(name, named[name]) for name in sorted(named)]
    await request.exchange.json(
        {"object": "list", "data": data, "models": cohere} | (page if is_anthropics(request) else {})
    )


async def one_model(request: Request) -> None:
    """Answers the model or alias that the path names."""
    name = request.exchange.path.removeprefix("/v1/models/")
    if (model := usable(request.gateway.settings, request.key).get(name)) is None:
        raise ApiError(404, "the model does not exist, or this key may not use it", code="model_not_found")
    await request.exchange.json(_shown(request, name, model) | _cohere(name, model))


def _cohere(name: str, model: ModelSettings) -> dict[str, Any]:
    """The fields that Cohere's clients read."""
    return {"name": name, "endpoints": ENDPOINTS[model.kind], "finetuned": False, "context_length": size_of(model)}


def size_of(model: ModelSettings) -> int:
    return model.context_tokens or model.max_tokens


def is_anthropics(request: Request) -> bool:
    return b"anthropic-version" in request.exchange.headers


def _shown(request: Request, name: str, model: ModelSettings) -> dict[str, Any]:
    """The fields of a model; for Anthropic's clients also those that they read."""
    created = datetime.fromtimestamp(model.created, timezone.utc).isoformat()
    more = {"type": "model", "display_name": name, "created_at": created, "max_input_tokens": model.context_tokens}
    return described(name, model) | (more if is_anthropics(request) else {})


async def version(request: Request) -> None:
    await request.exchange.json({"version": request.gateway.settings.fingerprint or "enginehouse"})


def usable(settings: Settings, key: Key) -> dict[str, ModelSettings]:
    """The models of the key, by name and by alias."""
    named = {name: model for name, model in settings.models.items() if key.may_use(name)}
    for name, alias in settings.aliases.items():
        if key.may_use(name) or all(map(key.may_use, alias.models)):
            models = [settings.models[member] for member in alias.models]
            named[name] = min(models, key=size_of)
    return named


def described(name: str, model: ModelSettings) -> dict[str, Any]:
    """OpenAI's fields of a model, and others that clients often need."""
    fields: dict[str, Any] = {"id": name, "object": "model", "created": model.created, "owned_by": "enginehouse"}
    fields |= {"kind": model.kind, "root": model.name}
    fields |= {"max_model_len": size_of(model)}
    return fields | ({"dimensions": model.dimensions} if model.dimensions else {})
