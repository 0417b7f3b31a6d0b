"""The environment variables of public guides for this stack, each translated into the typed setting it meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deploy.errors import Refusal
from deploy.spec import Host


def translate(data: Mapping[str, Any], host: Host | None) -> Iterator[Refusal]:
    """A refusal that translates, for each of the guides' names found among the data keys."""
    yield from ()
