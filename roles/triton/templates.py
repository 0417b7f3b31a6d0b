"""Rendering of templates/triton."""

from __future__ import annotations

from roles._shipping.templates import template


def rendered(file: str, /, **variables: object) -> bytes:
    return template("triton", file).render(**variables).encode()
