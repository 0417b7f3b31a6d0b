"""A key's line with other rights: `enginehouse key change` keeps the key and every right that is not named."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from deploy.inventory.gateway_keys import GatewayKey, gateway_key
from deploy.inventory.key_limits import LIMITS, UNTOUCHED, money_text, rights_refusal
from deploy.refusals import Refusal

UNLIMITED = 2**63
"""The value that removes a limit; the gateway refuses 0 as a limit."""
COSTS = ("cost_per_day", "cost_per_month")


def changed_key(
    line: GatewayKey, models: Sequence[str] | None, expires: str | None, now: datetime, currency: str, **limits: Any
) -> GatewayKey:
    """The line with the rights that are not None; a limit of `UNLIMITED` is removed.

    Raises: Refusal for a right that the gateway would not take, and for a change without rights.
    """
    named = {name: limit for name, limit in limits.items() if limit is not None}
    if models is None and expires is None and not named:
        raise Refusal(
            "no right of the key is to be changed",
            facts={"key": f"{line.prefix} of {line.tenant}", "wanted": "at least one option"},
            attempt=f"enginehouse key change {line.prefix} --expires 90d; all options: enginehouse key change --help",
            state=UNTOUCHED,
            kind="no-such-key-rights",
        )
    kept: dict[str, Any] = {name: getattr(line, name) or None for name in LIMITS} | named
    has_cost = bool(kept["cost_per_day"] or kept["cost_per_month"])
    unnamed = next((name for name in COSTS if getattr(line, name) and name not in named), "")
    if unnamed and currency not in ("", line.currency):
        option = f"--{unnamed.replace('_', '-')} {money_text(getattr(line, unnamed))}"
        raise rights_refusal("the key's other budget is in another currency", currency, line.currency, option)
    checked = gateway_key(
        "",
        line.tenant,
        line.models if models is None else models,
        "never" if expires is None else expires,
        now,
        (currency or line.currency or "USD") if has_cost else "",
        **{name: None if limit == UNLIMITED else limit for name, limit in kept.items()},
    )
    ends = line.expires if expires is None else checked.expires
    return replace(checked, sha256=line.sha256, prefix=line.prefix, created=line.created, expires=ends)
