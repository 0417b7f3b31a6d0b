"""Prices of tokens by which a gateway counts cost."""

import re
from collections.abc import Iterator

from deploy.catalog.names import offer
from deploy.refusals import Refusal, at, refuse
from deploy.spec import Gateway, Price

MOST_PRICE = 1_000_000
STRONG, MOST_STRONG = ("USD", "EUR", "GBP", "CHF"), 10_000
"""Currencies with large units, and a price for a million tokens above every real one."""


def price_problems(gateway: Gateway, models: list[str]) -> Iterator[Refusal]:
    """A refusal for each invalid price, and for each price of a model that the gateway does not offer."""
    for name, price in gateway.prices.items():
        place = at("gateway", "prices", f'"{name}"')
        if name not in models:
            yield refuse(
                "price-of-nothing",
                f"prices has {name}, which this gateway does not serve",
                where=place,
                seen=repr(name),
                wanted=", ".join(models) or "a model",
                attempt=offer(name, models),
            )
        if not _is_price(price):
            yield refuse(
                "not-a-price",
                f"the price of {name} is not a valid price",
                where=place,
                seen=repr(price),
                wanted=f"0 to {MOST_PRICE:,} for a million tokens",
                attempt=f'prices={{"{name}": Price(prompt=0.1, completion=0.4)}}',
            )
        elif price.currency in STRONG and max(price.prompt, price.completion, price.cached or 0) > MOST_STRONG:
            typed = f"prompt={price.prompt / MOST_PRICE:g}, completion={price.completion / MOST_PRICE:g}"
            yield refuse(
                "unbelievable-number",
                f"a million tokens of {name} would cost more than {MOST_STRONG:,} {price.currency}",
                where=place,
                seen=repr(price),
                wanted=f"the price of a million tokens, not of one token: up to {MOST_STRONG:,}",
                attempt=f'prices={{"{name}": Price({typed})}}',
            )
        elif price.cached is not None and price.cached > price.prompt:
            yield refuse(
                "cached-dearer",
                f"cached tokens of {name} would cost more than tokens that are computed",
                where=at(place, "cached"),
                seen=f"cached={price.cached:g}, prompt={price.prompt:g}",
                wanted="cached of at most prompt; None is the same price",
                attempt=f'prices={{"{name}": Price(prompt={price.cached:g}, cached={price.prompt:g}, '
                f"completion={price.completion:g})}}; or leave cached out",
            )
        elif not re.fullmatch(r"[A-Z]{3}", price.currency):
            yield refuse(
                "not-a-currency",
                f"{price.currency!r} is not a currency code",
                where=at(place, "currency"),
                seen=repr(price.currency),
                wanted="three capital letters, such as USD",
                attempt='Price(…, currency="USD"), the default',
            )


def _is_price(price: object) -> bool:
    """True for a `Price` of numbers; an inventory is Python, and may have any object here."""
    if not isinstance(price, Price) or not isinstance(price.currency, str):
        return False
    numbers = [price.prompt, price.completion, 0.0 if price.cached is None else price.cached]
    return all(type(number) in (int, float) and 0 <= number <= MOST_PRICE for number in numbers)
