"""The rehearsal's inventory with the two smallest models, each sent in a way that a kill can interrupt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from deploy.spec import Weights
from tests.faults import variants
from tests.rehearsal.variants import Data, with_model

BANDWIDTH = "25m"
"""Limit for rsync. With it sending minilm (87 MiB) takes seconds, as larger models do."""


def hosts(fetch_on: Literal["host", "control"]) -> list[tuple[str, Data]]:
    """Returns every host of the rehearsal: minilm is a local directory, nomic-moe comes from the hub."""

    def change(data: Data, state: Path) -> dict[str, Any]:
        services = json.loads((state / "services/services.json").read_text())
        repository = "rehearsal/nomic-moe"
        sent = Weights.local(f"{services['checkpoints']}/minilm")
        fetched = Weights.hub(repository, services["revisions"][repository], fetch_on=fetch_on)
        servers = with_model(data, "minilm", weights=sent)
        servers = with_model(data | {"servers": servers}, "nomic-moe", weights=fetched)
        return {"servers": servers, "model_store_settings": {"bandwidth_limit": BANDWIDTH}}

    return variants.hosts(change)
