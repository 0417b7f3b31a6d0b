"""The rehearsal's inventory with only the two smallest models, so that a swap takes seconds; and changed versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.rehearsal import variants
from tests.rehearsal.variants import Data

MODELS = ("minilm", "nomic-moe")


def hosts(change: Callable[[Data, Path], Data] = lambda data, state: {}) -> list[tuple[str, Data]]:
    """Returns every host of the rehearsal, each changed by `change(its data, the rehearsal's state directory)`."""
    return variants.hosts(lambda data, state: {**_small(data), **change({**data, **_small(data)}, state)})


def _small(data: Data) -> dict[str, Any]:
    server = data["servers"][0]
    return {"servers": (replace(server, models=tuple(model for model in server.models if model.name in MODELS)),)}
