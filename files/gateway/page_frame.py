"""The frame of the pages for people: their templates, and the origin of a form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import jinja2

from gateway.errors import ApiError
from gateway.exchange import Exchange
from gateway.forms import is_of_another_site
from gateway.gateway import Gateway
from gateway.keys import Key
from gateway.settings import ModelSettings

FOLDER = Path(__file__).parent
TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(FOLDER),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
# Keeps the order of fields: a request begins with its model.
TEMPLATES.policies["json.dumps_kwargs"] = {"sort_keys": False}
LINKS = {
    "/": "Models",
    "/try": "Chat",
    "/try/embed": "Embed",
    "/try/rerank": "Rerank",
    "/usage": "Usage",
}


def rendered(template: str, **values: object) -> bytes:
    return TEMPLATES.get_template(template).render(links=LINKS, **values).encode()


def refuse_another_site(gateway: Gateway, exchange: Exchange) -> None:
    """Refuses a form that a page of another site sent in a person's name.

    Raises: ApiError 403.
    """
    if is_of_another_site(exchange.headers, gateway.settings.url):
        raise ApiError(403, "a page of another site sent this form; fill it in on this page", code="other_site")


def holder(gateway: Gateway, exchange: Exchange, form: Mapping[str, str]) -> tuple[Key | None, str]:
    """The key of the form, else of the header; None without one. The second value is the reason for a refusal."""
    authorization = key_of(form) or exchange.authorization
    if authorization is None and gateway.keys.path:
        return None, ""
    try:
        return gateway.keys.holder(authorization), ""
    except ApiError as refusal:
        return None, refusal.message


def key_of(form: Mapping[str, str]) -> bytes | None:
    """The key that a form sent, as an `Authorization` header."""
    typed = form.get("key", "").strip()
    return b"Bearer " + typed.encode() if typed else None


def first(named: Mapping[str, ModelSettings], kind: str) -> str:
    """The first model of this kind, by its own name if the key has it; "" for none."""
    names = (name for name in named if named[name].kind == kind)
    return min(names, key=lambda name: (name != named[name].name, name), default="")
