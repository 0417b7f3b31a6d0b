"""Rendering of templates/triton: a missing variable is a mistake of ours; the same variables give the same bytes."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from roles.texts import HERE


def rendered(file: str, /, **variables: object) -> bytes:
    """One template, filled."""
    environment = Environment(
        loader=FileSystemLoader(Path(HERE) / "templates" / "triton"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template(file).render(**variables).encode()
