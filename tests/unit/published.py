"""Forty-three published repositories: config.json, elements by type, and the names of their files.

Typed from memory of the public repositories (2026-11-25); no weights. The verdict of each is in `test_published`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.io.local_weights import BITS
from deploy.models.config_json import architecture_of, kept
from deploy.models.kinds import fetched, kind_problem
from deploy.spec.surroundings import LocalWeights

ENTRIES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("published_models.json").read_text(encoding="utf-8")
)
COMMIT = "c" * 40


def locked(name: str, entries: Mapping[str, dict[str, Any]] = ENTRIES) -> LocalWeights:
    """The files of one repository in a lock's form. Raises: a Refusal if it has no checkpoint."""
    entry = entries[name]
    config, names, elements = entry["config"], entry["files"], entry["elements"]
    source = name if "/" in name else f"x/{name}"
    if problem := kind_problem(source, names, config, is_hub=True):
        raise problem
    architecture = architecture_of(config)
    return LocalWeights(
        revision=COMMIT,
        stored_bytes=sum(count * BITS.get(kind, 8) // 8 for kind, count in elements.items()),
        parameters=sum(elements.values()),
        files=tuple(names),
        config=kept(config),
        repository=source,
        fetched=fetched(names, architecture),
    )
