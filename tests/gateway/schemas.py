"""Calls held against `/openapi.json`: every accepted body and every answer of the tests keeps its schema."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from gateway.app import ROUTES
from gateway.openapi import document
from gateway.settings import Limits, Settings

TYPES = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "array": list, "object": dict}
BOUNDS = {"array": "Items", "string": "Length", "object": "Properties"}


@functools.cache
def described(dimensions: int, limits: Limits) -> Any:
    return json.loads(document(tuple(ROUTES.items()), (), dimensions, limits, True))


def outside(value: Any, schema: Any, shared: Any, place: str = "") -> str:
    """The first place where the value breaks the schema, with the broken part; "" if it keeps the schema.

    `shared` has the schemas that others refer to. Only the words of the gateway's document are read.
    """
    if "$ref" in schema:
        return outside(value, shared[schema["$ref"].rpartition("/")[2]], shared, place)
    if "anyOf" in schema:
        broken = [outside(value, choice, shared, place) for choice in schema["anyOf"]]
        return "" if "" in broken else max(broken, key=lambda words: words.count("."))
    accepted = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if accepted is not None:
        return "" if value in accepted else f"{place}: none of {accepted}"
    kind = schema.get("type", "")
    if kind == "null" or not kind:
        return "" if value is None or not kind else f"{place}: not null"
    if not isinstance(value, TYPES[kind]) or (kind != "boolean" and isinstance(value, bool)):
        return f"{place}: no {kind}"
    size = value if kind in ("integer", "number") else 0 if kind == "boolean" else len(value)
    least, most = ("minimum", "maximum") if kind not in BOUNDS else (f"min{BOUNDS[kind]}", f"max{BOUNDS[kind]}")
    if not schema.get(least, size) <= size <= schema.get(most, size):
        return f"{place}: {size} is out of bounds"
    if kind == "string" and not re.search(schema.get("pattern", ""), value):
        return f"{place}: not of the pattern"
    inner = [(f"{place}.", item, schema["items"]) for item in value] if kind == "array" else []
    if kind == "object":
        if missing := [name for name in schema.get("required", []) if name not in value]:
            return f"{place}: no {missing[0]}"
        known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, item in value.items():
            if name in known or more is not True:
                inner.append((f"{place}.{name}", item, known.get(name, more or {"enum": []})))
    return next(filter(None, (outside(item, of, shared, where) for where, item, of in inner)), "")


def check(settings: Settings, method: str, path: str, body: bytes, answer: bytes) -> None:
    """Asserts that an accepted body and its answer keep the schemas of the path; `answer`: empty for other types."""
    route = ROUTES.get(path)
    if not route or route.method != method or path.endswith("/"):
        return
    whole = described(max([1, *(model.dimensions for model in settings.models.values())]), settings.limits)
    shared, operation = whole["components"]["schemas"], whole["paths"][path][route.method.lower()]
    sent = {body: operation["requestBody"]} if route.body else {}
    for text, part in (sent | ({answer: operation["responses"]["200"]} if answer else {})).items():
        broken = outside(json.loads(text), part["content"]["application/json"]["schema"], shared)
        assert not broken, f"{path} accepts or answers what its schema forbids: {broken}"
