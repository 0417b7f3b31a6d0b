"""Renders the templates of templates/triton."""

from roles._shipping.templates import template


def rendered(file: str, /, **variables: object) -> bytes:
    return template("triton", file).render(**variables).encode()
