"""The price of a card an hour: typed, or from a file that names its date and source. No price is built in."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deploy.catalog import GPUS
from deploy.catalog.names import nearest
from deploy.inventory.key_limits import day_meant
from deploy.planning.fit import near_card
from deploy.refusals import Refusal, refuse

MOST_DOLLARS = 100
"""Dollars of one GPU and hour; the dearest card of a cloud's list price costs below 20."""
HOURS_OF_A_MONTH = 730
WORD = re.compile(
    r"(?:([A-Za-z][\w.-]*?)\s*[:=]\s*)?[$€]?\s*([0-9]+(?:[.,][0-9]+)?)\s*(?:\$|€|usd|dollars?)?(?:/h\w*)?", re.I
)
"""A price with a sign, a code, a decimal comma, or a colon behind its card."""


@dataclass(frozen=True)
class Prices:
    """Dollars per GPU-hour, by card; `rest` is the price of every card without its own."""

    by_card: Mapping[str, float] = field(default_factory=dict)
    rest: float | None = None
    source: str = "typed"

    def of(self, card: str) -> float:
        """Dollars per hour of a GPU of this kind. Raises: a Refusal without a price."""
        price = self.by_card.get(card, self.rest)
        if price is None:
            raise refuse(
                "no-price",
                f"no price per hour is known for {card}",
                where="--per-hour",
                seen=f"prices of {', '.join(sorted(self.by_card)) or 'no card'}",
                wanted="dollars for one GPU and hour, its share of the host included",
                attempt=f"--per-hour {card}=DOLLARS",
            )
        return price


def typed_prices(words: Iterable[str], option: str) -> Prices:
    """Prices in words such as `2.49`, for every card, and `h100=2.49`, for one card. Raises: a Refusal for any other
    word."""
    by_card, rest = {}, None
    for word in words:
        card, equals, number = word.rpartition("=")
        price = _dollars(number, word, option)
        if price > MOST_DOLLARS:
            raise _too_dear(price, card + equals, word, option)
        if not equals:
            rest = price
            continue
        known, _ = near_card(card)
        if known not in GPUS:
            close = nearest(card, list(GPUS))
            raise _not_a_price(option, word, "no card of the catalog", f"{option} {close or 'h100-80'}={number}")
        by_card[known] = price
    return Prices(by_card, rest)


def prices_of_file(document: Any, name: str) -> tuple[Prices, Prices]:
    """Prices on demand and of spot machines, from a file {"date", "source", "per_hour": {CARD: DOLLARS}, "spot_…"}.

    Raises: a Refusal for a file without a date, or with a price that is not a positive number.
    """
    if not isinstance(document, Mapping) or not document.get("date"):
        wanted = '{"date": "2026-11-01", "source": "…", "per_hour": {"h100-80": 2.49}}'
        raise _not_a_price("--prices", name, "no date", f"write {wanted}")
    if not re.fullmatch(r"20[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])", str(document["date"])):
        day = day_meant(str(document["date"])) or "2026-11-01"
        raise _not_a_price("--prices", name, f"the date {document['date']}", f'write "date": "{day}"')
    source = f"{name}: {document.get('source', 'no source')}, {document['date']}"
    price_lists = []
    for key in ("per_hour", "spot_per_hour"):
        table = document.get(key, {})
        if not isinstance(table, Mapping):
            raise _not_a_price("--prices", name, f"{key} is not a table of cards", "see enginehouse cost --help")
        typed = typed_prices((f"{card}={price}" for card, price in table.items()), "--prices")
        price_lists.append(Prices(typed.by_card, source=source))
    return price_lists[0], price_lists[1]


def _dollars(number: str, word: str, option: str) -> float:
    try:
        price = float(number)
    except ValueError:
        price = -1.0
    if not math.isfinite(price) or price < 0:
        parts = WORD.fullmatch(word)
        typed = f"{parts[1] + '=' if parts[1] else ''}{parts[2].replace(',', '.')}" if parts else ""
        attempt = f"{option} {typed}" if typed else f"{option} 2.49, or {option} h100=2.49"
        raise _not_a_price(option, word, "no number of dollars", attempt)
    return price


def _too_dear(price: float, before: str, word: str, option: str) -> Refusal:
    """The refusal of a price in cents, or of a month's."""
    is_month = price >= 10 * MOST_DOLLARS
    meant = f"{before}{price / (HOURS_OF_A_MONTH if is_month else 100):.4g}"
    of_file = f"write {meant.replace('=', ': ')} there" if option == "--prices" else f"{option} {meant}"
    return _not_a_price(option, word, "the dollars of a month" if is_month else "cents, by its size", of_file)


def _not_a_price(option: str, word: str, seen: str, attempt: str) -> Refusal:
    return refuse(
        "not-a-price",
        f"{word} is not a price",
        where=option,
        seen=seen,
        wanted=f"dollars for one GPU and hour, up to {MOST_DOLLARS}, for every card or as CARD=DOLLARS",
        attempt=attempt,
    )
