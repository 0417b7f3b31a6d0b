"""Whether the numbers of a checkpoint of one's own can be those of a network; the catalog's rows are tested instead."""

from __future__ import annotations

from deploy.errors import Refusal
from deploy.refuse import model_at, refuse
from deploy.spec import Checkpoint, Model, Server

POSITIVE = ("parameters", "layers", "hidden", "heads", "vocabulary", "positions")


def shape_problems(server: Server, model: Model) -> list[Refusal]:
    """Every impossible number of the model's own checkpoint; nothing for a name of the catalog."""
    shape = model.checkpoint
    if not isinstance(shape, Checkpoint):
        return []
    found = [_impossible(server, model, name, "1 or more") for name in POSITIVE if getattr(shape, name) < 1]
    if shape.kv_heads and (shape.kv_heads < 0 or shape.heads % shape.kv_heads):
        found.append(_impossible(server, model, "kv_heads", f"a divisor of {shape.heads} heads, or 0 for as many"))
    if not 0 <= shape.active_experts <= shape.experts or bool(shape.experts) != bool(shape.active_experts):
        found.append(_impossible(server, model, "active_experts", f"1 to {shape.experts}, or neither of the two"))
    return found


def _impossible(server: Server, model: Model, name: str, wanted: str) -> Refusal:
    value = getattr(model.checkpoint, name)
    return refuse(
        "impossible-shape",
        f"{model.name}: no network has {name} of {value}",
        where=model_at(server.name, model.name, "checkpoint", name),
        seen=str(value),
        wanted=wanted,
        attempt="the number in the checkpoint's config.json",
    )
