"""The rehearsal's inventory with changes, for the inventories beside, which stay ordinary inventory files."""

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
    """Returns every host of the rehearsal with the changes of `change(its data, the rehearsal's state directory)`.

    They have no gateway unless the change names one, since other tests cover it.
    """
    inventory = runpy.run_path("inventories/rehearsal.py")
    return [
        (name, data | {"gateway": None} | change(data, inventory["_state"])) for name, data in inventory["rehearsal"]
    ]


def llama() -> LLM:
    """Returns the rehearsal's engine LLM."""
    model: LLM = runpy.run_path("inventories/rehearsal.py")["_llama"]
    return model


def with_model(data: Data, name: str, **changes: Any) -> tuple[Server, ...]:
    """Returns the host's servers, one of their models changed."""
    return tuple(
        replace(
            server, models=tuple(replace(model, **changes) if model.name == name else model for model in server.models)
        )
        for server in data["servers"]
    )
