"""The rehearsal's inventory with something changed, for the inventories beside: they stay ordinary inventory files."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.spec import LLM, Server

Data = dict[str, Any]
UNLOADABLE = "unloadable"
"""Directory, in the rehearsal's state, of a checkpoint that lacks a tensor."""


def hosts(change: Callable[[Data, Path], Data]) -> list[tuple[str, Data]]:
    """Every host of the rehearsal with what `change(its data, the rehearsal's state directory)` says instead.

    No gateway stands before them unless the change names one: it has stories of its own.
    """
    inventory = runpy.run_path("inventories/rehearsal.py")
    return [
        (name, data | {"gateway": None} | change(data, inventory["_state"])) for name, data in inventory["rehearsal"]
    ]


def llama() -> LLM:
    """The rehearsal's engine LLM."""
    model: LLM = runpy.run_path("inventories/rehearsal.py")["_llama"]
    return model


def with_model(data: Data, name: str, **changes: Any) -> tuple[Server, ...]:
    """The host's servers, one of their models changed."""
    return tuple(
        replace(
            server, models=tuple(replace(model, **changes) if model.name == name else model for model in server.models)
        )
        for server in data["servers"]
    )
