"""`GET /v1/models`: what the key may use."""

from __future__ import annotations

from typing import Any

from gateway.request import Request
from gateway.settings import ModelSettings


async def list_models(request: Request) -> None:
    """The models and aliases of the key are answered, sorted by name."""
    settings, key = request.gateway.settings, request.key
    named = {name: model for name, model in settings.models.items() if key.may_use(name)}
    for name, alias in settings.aliases.items():
        if key.may_use(name) or key.may_use(alias.model):
            named[name] = settings.models[alias.model]
    data = [described(name, named[name]) for name in sorted(named)]
    await request.exchange.json({"object": "list", "data": data})


def described(name: str, model: ModelSettings) -> dict[str, Any]:
    """OpenAI's fields of a model, and what people ask next."""
    found: dict[str, Any] = {"id": name, "object": "model", "created": model.created, "owned_by": "enginehouse"}
    found |= {"kind": model.kind, "root": model.name}
    if model.kind == "llm":
        return found | {"max_model_len": model.context_tokens}
    return found | {"max_model_len": model.max_tokens} | ({"dimensions": model.dimensions} if model.dimensions else {})
