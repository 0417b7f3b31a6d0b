"""Limits of keys and tenants in the file of a gateway's keys: names, bounds and words of limits; a tenant's line."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Protocol

from deploy.refusals import Refusal

MOST = 2**31 - 1
MOST_OF_PERIOD = 10**15
"""Tokens of a day or a month."""
MICRO = 10**6
"""Parts of a unit of money: the file has whole numbers of them, and an operator types up to six decimals."""
MOST_COST = 10**12 * MICRO
PERIODS = ("tokens_per_day", "tokens_per_month", "cost_per_day", "cost_per_month")
LIMITS = ("requests_per_minute", "tokens_per_minute", "concurrent", *PERIODS)
PAIRS = (("tokens_per_day", "tokens_per_month"), ("cost_per_day", "cost_per_month"))
CURRENCY = re.compile(r"[A-Z]{3}")
CURRENCIES = {
    **dict.fromkeys(("euro", "euros", "€"), "EUR"),
    **dict.fromkeys(("dollar", "dollars", "$", "us$"), "USD"),
    **dict.fromkeys(("pound", "pounds", "£"), "GBP"),
}
"""Words and signs of currencies, and their codes."""
TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
NO_NAMES = ("all", "any", "none", "null", "every", "default")
"""Words for all models or for no model, which are no model's name."""
UNTOUCHED = "the file of keys is as it was"
WORDS = {
    "requests_per_minute": "requests/min",
    "tokens_per_minute": "tokens/min",
    "concurrent": "at once",
    "tokens_per_day": "tokens/day",
    "tokens_per_month": "tokens/month",
}


class Limited(Protocol):
    """A key or a tenant, which may have any of `LIMITS`."""

    @property
    def currency(self) -> str:
        """The currency of its budgets of money."""


@dataclass(frozen=True, kw_only=True)
class TenantLimits:
    """A tenant's line: budgets that all its keys share. 0 is no limit; cost is in 10^-6 of `currency`."""

    tenant: str
    tokens_per_day: int = 0
    tokens_per_month: int = 0
    cost_per_day: int = 0
    cost_per_month: int = 0
    currency: str = ""

    @property
    def has_budget(self) -> bool:
        return any(getattr(self, name) for name in PERIODS)

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value}


def tenant_limits(tenant: str, currency: str, **limits: int | None) -> TenantLimits:
    """The line of a tenant's budgets.

    Raises: Refusal for a tenant or a limit that the gateway would not take.
    """
    check_tenant(tenant)
    return TenantLimits(tenant=tenant, **checked_limits(limits, currency))


def confirm_budgets(tenant: str, budgets: tuple[object, ...], without: bool) -> None:
    """Raises: Refusal for a tenant's line with neither a budget nor `without`, and for a line with both."""
    if without == any(budget is not None for budget in budgets):
        raise Refusal(
            f"both a budget of {tenant} and none" if without else f"no budget of {tenant} is named",
            facts={"seen": "--none and a budget" if without else "no option", "wanted": "budgets, or --none"},
            attempt=f"enginehouse key tenant {tenant} --cost-per-month 250; without any: "
            f"enginehouse key tenant {tenant} --none",
            state=UNTOUCHED,
            kind="no-such-key-rights",
        )


def check_tenant(tenant: str) -> None:
    """Raises: Refusal for a name that the audit's lines cannot have, and for the name of a file."""
    if tenant.endswith((".py", ".json")):
        problem = "a tenant's name is a person or a team, and this is the name of a file"
        option = "--inventory" if tenant.endswith(".py") else "--file"
        raise rights_refusal(problem, tenant, "a name", f"enginehouse key new TENANT {option} {tenant}")
    if not TENANT.fullmatch(tenant):
        problem = "a tenant's name stands in each line of the audit"
        plain = re.sub(r"[^A-Za-z0-9._@-]+", "-", tenant).strip("-._@")[:64]
        typed = f"enginehouse key new {plain}" if plain else ""
        raise rights_refusal(problem, tenant, "letters, digits, . _ @ -; up to 64", typed)


def checked_limits(limits: Mapping[str, int | None], currency: str) -> dict[str, Any]:
    """The limits that are set, with the currency if one is a budget of money.

    Raises: Refusal for a limit that admits no request, is too large, or contradicts another.
    """
    for name, limit in limits.items():
        most = most_of(name)
        if limit is not None and not 1 <= limit <= most:
            problem = "lets nothing through" if limit < 1 else "is more than a gateway counts"
            raise rights_refusal(
                f"--{name.replace('_', '-')} {problem}",
                amount(name, limit),
                f"{amount(name, 1)} to {amount(name, most)}",
                "--concurrent 64, or unlimited"
                if name == "concurrent"
                else f"leave --{name.replace('_', '-')} out: no limit",
            )
    for day_name, month_name in PAIRS:
        day, month = limits.get(day_name) or 0, limits.get(month_name) or 0
        if month and day > month:
            seen = f"{amount(day_name, day)} a day, {amount(month_name, month)} a month"
            option = day_name.replace("_", "-")
            smaller = f"--{option} of up to {amount(month_name, month)}, or a larger --{month_name.replace('_', '-')}"
            what = "tokens" if day_name.startswith("tokens") else "money"
            raise rights_refusal(f"the budget of a day has more {what} than that of its month", seen, smaller)
    kept: dict[str, Any] = {name: limit for name, limit in limits.items() if limit}
    has_cost = any(name.startswith("cost") for name in kept)
    if has_cost or currency:
        if not CURRENCY.fullmatch(currency):
            wanted = "that of the gateway's prices: --currency USD"
            code = CURRENCIES.get(currency.strip().lower(), currency.strip().upper())
            typed = f"--currency {code if CURRENCY.fullmatch(code) else 'USD'}"
            raise rights_refusal("a budget of money has no currency of three capital letters", currency, wanted, typed)
        kept |= {"currency": currency} if has_cost else {}
    return kept


def money(option: str, word: str | None) -> int | None:
    """An amount of money as typed, `12.50`, in 10^-6 of its currency; None if none was typed.

    Raises: Refusal for another word, and for more than six decimals.
    """
    if word is None:
        return None
    amount_typed = re.fullmatch(r"(-?)([0-9]{1,15})(?:\.([0-9]{1,6}))?", word)
    if not amount_typed:
        raise rights_refusal(
            f"{option} is not an amount of money",
            word,
            "a number with up to six decimals: 12.50",
            _money_meant(option, word),
        )
    sign, whole, decimals = amount_typed.groups("")
    return int(f"{sign}1") * (int(whole) * MICRO + int(decimals.ljust(6, "0")))


def _money_meant(option: str, word: str) -> str:
    """The option for an amount typed with a sign, a code or a decimal comma; empty for any other word."""
    number = word.strip(" $€£¥ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    if re.fullmatch(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]{1,6})?", number):
        return f"{option} {number.replace(',', '')}"
    return f"{option} {number.replace(',', '.')}" if re.fullmatch(r"[0-9]{1,15}(?:[.,][0-9]{1,6})?", number) else ""


def time_meant(word: str) -> str:
    """The option for a time that was typed in other words: 90, 90 days, 3 months, 01.03.2027."""
    number = re.match(r"([0-9]{1,4}) *(h|d|w|m|y|)", word.lower())
    if day := day_meant(word):
        return f"--expires {day}"
    if not number or not int(number[1]) or len(word) > 12:
        return "--expires 90d"
    days = {"m": 30, "y": 365}.get(number[2], 0)
    return f"--expires {int(number[1]) * days}d" if days else f"--expires {number[1]}{number[2] or 'd'}"


MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def day_meant(word: str) -> str:
    """The day of a date in another form, as 2027-03-01: 1.3.2027, 2027/3/1, 20270301, 1 Mar 2027; else empty."""
    months = rf"(?P<name>{'|'.join(MONTHS)})[a-z]*\.?,?"
    forms = (
        r"(?P<year>20[0-9]{2})[-./]?(?P<month>[0-9]{1,2})[-./]?(?P<day>[0-9]{1,2})(?:[t ].*)?",
        r"(?P<day>[0-9]{1,2})[-./ ](?P<month>[0-9]{1,2})[-./ ](?P<year>20[0-9]{2})",
        r"(?P<year>20[0-9]{2})[-./](?P<month>[0-9]{1,2})",
        rf"(?P<day>[0-9]{{1,2}})\.?[ -]{months}[ -](?P<year>20[0-9]{{2}})",
        rf"{months} +(?P<day>[0-9]{{1,2}}),? +(?P<year>20[0-9]{{2}})",
    )
    for form in forms:
        if match := re.fullmatch(form, word.strip().lower()):
            parts = {"day": "1", "name": "", "month": "0"} | {
                key: part for key, part in match.groupdict().items() if part
            }
            month = MONTHS.index(parts["name"]) + 1 if parts["name"] else int(parts["month"])
            try:
                return date(int(parts["year"]), month, int(parts["day"])).isoformat()
            except ValueError:
                return ""
    return ""


def most_of(name: str) -> int:
    """The largest limit of this name that a gateway accepts."""
    if name.startswith("cost"):
        return MOST_COST
    return MOST_OF_PERIOD if name in PERIODS else MOST


def amount(name: str, limit: int) -> str:
    return money_text(limit) if name.startswith("cost") else str(limit)


def money_text(micro: int) -> str:
    """An amount of money without trailing zeros: 12.5."""
    whole, rest = divmod(abs(micro), MICRO)
    return f"{'-' if micro < 0 else ''}{whole}.{rest:06d}".rstrip("0").rstrip(".")


def limits_text(line: Limited) -> str:
    """The limits of a key or a tenant in words; "none" without limits."""
    parts = [f"{getattr(line, name):,} {word}" for name, word in WORDS.items() if getattr(line, name, 0)]
    for name, period in (("cost_per_day", "day"), ("cost_per_month", "month")):
        if limit := getattr(line, name, 0):
            parts.append(f"{money_text(limit)} {line.currency}/{period}")
    return ", ".join(parts) or "none"


def rights_refusal(problem: str, seen: str, wanted: str, typed: str = "") -> Refusal:
    """The refusal of a key's or a tenant's rights; `typed` is the option that was probably meant."""
    return Refusal(
        problem,
        facts={"seen": seen or "nothing", "wanted": wanted},
        attempt=f"{typed}; all options: enginehouse key new --help" if typed else "enginehouse key new --help",
        state=UNTOUCHED,
        kind="no-such-key-rights",
    )
