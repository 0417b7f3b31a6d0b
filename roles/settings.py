"""Merges what an inventory says under a role's name into that role's `Defaults`. The only place roles read
`host.data`."""

from __future__ import annotations

from dataclasses import fields, replace
from difflib import get_close_matches
from typing import TypeVar

from pyinfra.api import Host

from deploy.errors import Refusal

D = TypeVar("D")


def overridden(host: Host, role: str, defaults: D) -> D:
    """`defaults` with the keys of the dictionary `host.data.<role>_settings`; a key that is none of its fields is
    refused.

    The suffix keeps them apart from the spec's own keys (`docker = Docker(…)`, `registry = Registry(…)`).
    """
    given = host.data.get(f"{role}_settings") or {}
    known = [field.name for field in fields(defaults)]  # type: ignore[arg-type]
    for key in given:
        if key not in known:
            raise _unknown(role, key, known)
    return replace(defaults, **given)  # type: ignore[type-var]


def _unknown(role: str, key: str, known: list[str]) -> Refusal:
    near = get_close_matches(key, known, n=1, cutoff=0.4)
    return Refusal(
        f"{role}_settings knows no key `{key}`",
        facts={"known": ", ".join(known)},
        attempt=f"did you mean `{near[0]}`?" if near else "remove it",
        kind="unknown-setting",
    )
