"""`GET /`: the gateway's page for people, without scripts. With a key: its models, its usage, and requests to paste.

The key comes in a form's body, never in a URL, and is not sent back. Models are shown only with a key for them, because
a name may reveal a tenant. If no key is required, all models are shown. The address in the requests is that of the
settings, because a client could forge `Host`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from gateway import clock
from gateway.errors import ApiError
from gateway.exchange import Exchange
from gateway.forms import HTML, PAGE_HEADERS
from gateway.gateway import Gateway
from gateway.keys import NOBODY, Key
from gateway.models import usable
from gateway.page_frame import FOLDER, first, holder, refuse_another_site, rendered
from gateway.quotas import duration
from gateway.settings import ModelSettings
from gateway.try_page import TRIALS, trial_page
from gateway.usage_page import budgets, costs, share, total, usage_page

PAGES = ("/", "/page.css", *TRIALS, "/usage")
KINDS = {"llm": "LLM", "embedder": "embedder", "reranker": "reranker"}


@dataclass(frozen=True)
class Row:
    """A model's row on the page."""

    name: str
    kind: str
    context: str
    more: str
    state: str


async def page(gateway: Gateway, exchange: Exchange) -> None:
    """Sends a page, or the style sheet. A form for trying an endpoint is passed to that endpoint instead.

    Raises: ApiError for another method and a form of another site; the page itself reports an unknown key, with 401.
    """
    if exchange.path == "/page.css":
        if exchange.method not in ("GET", "HEAD"):
            raise ApiError(405, "GET is the only method here", allow="GET")
        await exchange.whole((FOLDER / "page.css").read_bytes(), b"text/css; charset=utf-8", 200, PAGE_HEADERS)
        return
    if exchange.method not in ("GET", "HEAD", "POST"):
        raise ApiError(405, "GET and POST are the only methods here", allow="GET, POST")
    if exchange.method == "POST":
        refuse_another_site(gateway, exchange)
    form = await exchange.form() if exchange.method == "POST" else {}
    key, problem = holder(gateway, exchange, form)
    if key:
        exchange.record.tenant, exchange.record.key = key.tenant, key.prefix
    if exchange.path in TRIALS:
        text = trial_page(gateway, exchange, key, problem)
    elif exchange.path == "/usage":
        text = await usage_page(gateway, key, problem, form)
    else:
        text = await home(gateway, key, problem)
    await exchange.whole(text, HTML, 401 if problem else 200, PAGE_HEADERS)


async def home(gateway: Gateway, key: Key | None, problem: str) -> bytes:
    """The page of a key's models and usage."""
    values = template_variables(gateway, key, problem)
    if key and key is not NOBODY:
        async with gateway.usage_turn:  # in a thread; the turn lets the process's own counting in every second
            values["usage"] += await asyncio.to_thread(usage_by_day, gateway, key, clock.now())
    return rendered("page.html.j2", path="/", **values)


def template_variables(gateway: Gateway, key: Key | None, problem: str) -> dict[str, Any]:
    """The variables of the page's template."""
    settings = gateway.settings
    named = usable(settings, key) if key else {}
    standing = gateway.standing()
    return {
        "url": settings.url or f"http://{settings.listen.address}:{settings.listen.ports[0]}",
        "asks": bool(gateway.keys.path),
        "problem": problem,
        "key": key if key is not NOBODY else None,
        "expires": day(key.expires) if key and key.expires else "",
        "models": [row(name, named[name], standing) for name in sorted(named)],
        "usage": list(usage(gateway, key)) if key and key is not NOBODY else [],
        **{kind: first(named, kind) for kind in KINDS},
    }


def row(name: str, model: ModelSettings, standing: dict[str, bool]) -> Row:
    """The page's row of a model."""
    state = "ready" if standing.get(model.name) else "away"
    if model.kind == "llm":
        return Row(name, KINDS[model.kind], f"{model.context_tokens:,} tokens", "", state)
    more = f"{model.dimensions} dimensions" if model.dimensions else ""
    return Row(name, KINDS[model.kind], f"{model.max_tokens:,} tokens a text", more, state)


def usage(gateway: Gateway, key: Key) -> Iterator[tuple[str, str, str, int]]:
    """Each count of the key: its name, its value, a note, and the percentage of the limit, -1 without one."""
    key_usage = gateway.budgets.usage(key)
    spent, limits = key_usage.spent, key_usage.limits
    kinds = (
        ("requests in the last minute", 1, spent.requests, limits.requests_per_minute),
        ("tokens in the last minute", 2, spent.tokens, limits.tokens_per_minute),
    )
    for name, kind, count, limit in kinds:
        wait = f"all free in {duration(spent.free_in(kind, count))}" if count else ""
        yield name, of(count, limit), wait, share(count, limit)
    yield "requests under way", of(spent.running, limits.concurrent), "", share(spent.running, limits.concurrent)
    ended = key_usage.ended
    yield from budgets(gateway, key)
    counts = f"{ended.prompt_tokens:,} tokens of prompts, {ended.completion_tokens:,} of answers"
    yield "requests since this host's gateways started", f"{ended.requests:,}", counts, -1


def usage_by_day(gateway: Gateway, key: Key, now: datetime) -> list[tuple[str, str, str, int]]:
    """The key's counts of this day and this month (UTC) on this host, in the form of `usage`."""
    rows = gateway.usage.of_key(key.prefix, key.tenant, f"{now:%Y-%m}-01")
    today = [row for row in rows if row["day"] == f"{now:%Y-%m-%d}"]
    periods = (("today (UTC)", today), ("this month (UTC)", rows))
    return [(f"requests {name}", f"{total(rows, 'requests'):,}", spent(rows), -1) for name, rows in periods if rows]


def spent(rows: list[dict[str, Any]]) -> str:
    """Tokens, errors, and the cost in each currency."""
    read, cached, made = (total(rows, f"{kind}_tokens") for kind in ("prompt", "cached", "completion"))
    money = "".join(f"; {cost}" for cost in costs(rows))
    errors = f"{total(rows, 'errors'):,} errors"
    return f"{errors}; {read:,} tokens of prompts, {cached:,} of them cached, {made:,} of answers{money}"


def of(count: int, limit: int) -> str:
    return f"{count:,} of {limit:,}" if limit else f"{count:,}"


def day(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M} UTC"
