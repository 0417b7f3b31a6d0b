"""`GET /`: the gateway's page for people, without a script. With a key: its models, its usage, and requests to paste.

The key comes in a form's body, never in an address, and is not sent back. Models are shown to whoever has a key for
them: a name may tell of a tenant. Where no key is asked for, everybody sees all. The address in the requests is that of
the settings: `Host` is the client's own word.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jinja2

from gateway import clock
from gateway.errors import ApiError
from gateway.exchange import Exchange
from gateway.gateway import Gateway
from gateway.keys import NOBODY, Key
from gateway.models import usable
from gateway.quotas import duration
from gateway.settings import ModelSettings
from gateway.usage import PICO

PAGES = ("/", "/page.css")
FOLDER = Path(__file__).parent
POLICY = (
    b"default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; sandbox "
    b"allow-forms allow-same-origin"
)
HEADERS = ((b"content-security-policy", POLICY), (b"referrer-policy", b"no-referrer"), (b"x-frame-options", b"DENY"))
TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(FOLDER),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.policies["json.dumps_kwargs"] = {"sort_keys": False}  # a request reads from its model on
KINDS = {"llm": "LLM", "embedder": "embedder", "reranker": "reranker"}


@dataclass(frozen=True)
class Row:
    """A model as people read it."""

    name: str
    kind: str
    context: str
    more: str
    state: str


async def page(gateway: Gateway, exchange: Exchange) -> None:
    """The page, or its style, is sent.

    Raises: ApiError for another method; a key that is none is told in the page, with status 401.
    """
    if exchange.path == "/page.css":
        if exchange.method not in ("GET", "HEAD"):
            raise ApiError(405, "GET is the only method here", allow="GET")
        await exchange.whole((FOLDER / "page.css").read_bytes(), b"text/css; charset=utf-8", 200, HEADERS)
        return
    if exchange.method not in ("GET", "HEAD", "POST"):
        raise ApiError(405, "GET and POST are the only methods here", allow="GET, POST")
    key, problem = await who(gateway, exchange)
    if key:
        exchange.record.tenant, exchange.record.key = key.tenant, key.prefix
    values = told(gateway, key, problem)
    if key and key is not NOBODY:
        values["usage"] += await asyncio.to_thread(usage_by_day, gateway, key, clock.now())
    text = TEMPLATES.get_template("page.html.j2").render(values)
    await exchange.whole(text.encode(), b"text/html; charset=utf-8", 401 if problem else 200, HEADERS)


async def who(gateway: Gateway, exchange: Exchange) -> tuple[Key | None, str]:
    """The key that the form or the header has, None where there is none; and what is wrong with it."""
    authorization = exchange.headers.get(b"authorization")
    if exchange.method == "POST":
        given = (await exchange.form()).get("key", "").strip()
        authorization = b"Bearer " + given.encode() if given else authorization
    if authorization is None and gateway.keys.path:
        return None, ""
    try:
        return gateway.keys.holder(authorization), ""
    except ApiError as refusal:
        return None, refusal.message


def told(gateway: Gateway, key: Key | None, problem: str) -> dict[str, Any]:
    """What the page's template is handed."""
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
    """A model's line."""
    state = "ready" if standing.get(model.name) else "away"
    if model.kind == "llm":
        return Row(name, KINDS[model.kind], f"{model.context_tokens:,} tokens", "", state)
    more = f"{model.dimensions} dimensions" if model.dimensions else ""
    return Row(name, KINDS[model.kind], f"{model.max_tokens:,} tokens a text", more, state)


def usage(gateway: Gateway, key: Key) -> Iterator[tuple[str, str, str, int]]:
    """Each count of the key: its name, its value, what else is to say, and the percentage of the limit, -1 for none."""
    found = gateway.budgets.usage(key)
    spent, limits = found.spent, found.limits
    kinds = (
        ("requests in the last minute", 1, spent.requests, limits.requests_per_minute),
        ("tokens in the last minute", 2, spent.tokens, limits.tokens_per_minute),
    )
    for name, kind, count, limit in kinds:
        wait = f"all free in {duration(spent.free_in(kind, count))}" if count else ""
        yield name, of(count, limit), wait, share(count, limit)
    yield "requests under way", of(spent.running, limits.concurrent), "", share(spent.running, limits.concurrent)
    ended = found.ended
    counts = f"{ended.prompt_tokens:,} tokens of prompts, {ended.completion_tokens:,} of answers"
    yield "requests since this host's gateways started", f"{ended.requests:,}", counts, -1


def usage_by_day(gateway: Gateway, key: Key, now: datetime) -> list[tuple[str, str, str, int]]:
    """The key's counts of this day and of this month (UTC) on this host, as `usage` has them."""
    rows = gateway.usage.of_key(key.prefix, f"{now:%Y-%m}-01")
    today = [row for row in rows if row["day"] == f"{now:%Y-%m-%d}"]
    periods = (("today (UTC)", today), ("this month (UTC)", rows))
    return [(f"requests {name}", f"{total(rows, 'requests'):,}", spent(rows), -1) for name, rows in periods if rows]


def total(rows: list[dict[str, Any]], name: str) -> int:
    """The sum of a count."""
    return sum(int(row[name]) for row in rows)


def spent(rows: list[dict[str, Any]]) -> str:
    """Tokens, errors, and the cost in each currency."""
    read, cached, made = (total(rows, f"{kind}_tokens") for kind in ("prompt", "cached", "completion"))
    costs: Counter[str] = Counter()
    for row in rows:
        costs[row["currency"]] += row["cost"]
    money = "".join(f"; {cost / PICO:,.4f} {currency}" for currency, cost in sorted(costs.items()) if currency)
    errors = f"{total(rows, 'errors'):,} errors"
    return f"{errors}; {read:,} tokens of prompts, {cached:,} of them cached, {made:,} of answers{money}"


def of(count: int, limit: int) -> str:
    """The count beside its limit."""
    return f"{count:,} of {limit:,}" if limit else f"{count:,}"


def share(count: int, limit: int) -> int:
    """Whole percent of the limit; -1 without one."""
    return min(100 * count // limit, 100) if limit else -1


def first(named: dict[str, ModelSettings], kind: str) -> str:
    """The first model of this kind, by its own name where the key has it; "" for none."""
    names = (name for name in named if named[name].kind == kind)
    return min(names, key=lambda name: (name != named[name].name, name), default="")


def day(seconds: int) -> str:
    """A time for people, in UTC."""
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M} UTC"
