"""Writes corrected settings of a container as YAML: only the changed keys, no other part of the file."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from deploy.linter.fields import Fields, rows_of, shown
from deploy.linter.manifests import COMPOSE, Container


def fragment(container: Container, mended: Mapping[str, Any]) -> list[str]:
    """The lines of a fragment for compose or Kubernetes; none without a change."""
    if not mended:
        return []
    if container.kind == COMPOSE:
        document: dict[str, Any] = {"services": {container.name or "NAME": dict(mended)}}
    else:
        document = {"containers": [({"name": container.name} if container.name else {}) | dict(mended)]}
    text: str = yaml.safe_dump(_plain(document), sort_keys=False, width=110, allow_unicode=True)
    return text.rstrip().split("\n")


def _plain(value: Any) -> Any:
    """The value as new plain objects, so that YAML writes a repeated object out instead of as an alias."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def variables(value: object) -> Iterator[tuple[str, str, bool]]:
    """Every variable of an `environment` or `env`: its name, its value, and True if a value is written at all."""
    if isinstance(value, Fields):
        for name, inner in value.items():
            yield name, shown(inner), inner is not None
    for entry in rows_of(value):
        if isinstance(entry, Fields):
            yield shown(entry.get("name")), shown(entry.get("value")), "value" in entry
        else:
            name, equals, inner = shown(entry).partition("=")
            yield name, inner, bool(equals)
