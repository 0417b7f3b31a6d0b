"""API keys and their rights, stored as hashes in a file that is reread when it changes.

    {"keys": [{"sha256": "9f86d0…", "prefix": "eh-4k2pxt", "tenant": "search", "models": ["*"], "created": 1763856000,
               "expires": 1767225600, "requests_per_minute": 600, "tokens_per_minute": 100000, "concurrent": 8}],
     "tenants": [{"tenant": "search", "cost_per_month": 250000000, "currency": "EUR"}]}

A key is random, of at least 128 bits, so its plain SHA-256 is enough: the key cannot be derived from the file. The hash
of a client's key is looked up in a dictionary, so the time of the lookup reveals nothing about any key's text. A tenant
may have several valid keys, each with its own limits. `tenants`, which older files lack, has budgets for all keys of a
tenant together. Budgets of money are in 10^-6 of their currency. `enginehouse key` writes the file.

Removing a line from the file ends its key: within a second new requests are refused, and within another second an open
stream ends with an error event. Changed limits or another expiry apply to new requests and end none.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from gateway.errors import ApiError
from gateway.fields import FieldError, Fields

LONGEST_KEY = 256
BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +([\x21-\x7e]+)[ \t]*")
MOST_KEYS = 100_000
MOST, MOST_OF_PERIOD, MOST_COST = 2**31 - 1, 10**15, 10**18


@dataclass(frozen=True)
class KeyLimits:
    """Limits of a key; 0 is no limit."""

    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    """Tokens of prompts and answers in a minute."""
    concurrent: int = 0
    """Limit of simultaneous open requests."""
    tokens_per_day: int = 0
    tokens_per_month: int = 0
    """Tokens of prompts and answers, in a day and a month of the calendar (UTC)."""
    cost_per_day: int = 0
    cost_per_month: int = 0
    """By the gateway's prices, in 10^-6 of `currency`; requests that cost another currency do not count."""
    currency: str = ""

    @property
    def has_periods(self) -> bool:
        return any(getattr(self, name) for name in PERIODS)

    def shared(self, share: int) -> KeyLimits:
        """The limits of one of `share` gateways, rounded up, so that no gateway gets a limit of 0."""
        parts: dict[str, Any] = {name: -(-getattr(self, name) // share) for name in NUMBERS}
        return KeyLimits(**parts, currency=self.currency)


PERIODS = ("tokens_per_day", "tokens_per_month", "cost_per_day", "cost_per_month")
NUMBERS = tuple(limit.name for limit in fields(KeyLimits) if limit.name != "currency")


@dataclass(frozen=True)
class Key:
    """A key's tenant and rights. Messages show `prefix`; empty `models` means all, and `expires` 0 means never.

    Equal keys have equal rights, whatever their limits.
    """

    digest: str
    prefix: str
    tenant: str
    models: frozenset[str]
    expires: int = field(compare=False)
    limits: KeyLimits = field(default=KeyLimits(), compare=False)
    tenant_limits: KeyLimits = field(default=KeyLimits(), compare=False)
    """Budgets that the tenant's keys share."""

    def may_use(self, model: str) -> bool:
        return not self.models or model in self.models


NOBODY = Key("", "-", "-", frozenset(), 0)
"""The key of every client if none is required."""


class Keys:
    """The keys of a file; "" for no file, if no key is required."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._keys: Mapping[str, Key] = {}

    def refresh(self) -> bool:
        """Rereads the keys; True if the file has changed since last time.

        Raises: OSError, or ValueError if the file is not a file of keys; the keys then do not change.
        """
        if not self.path:
            return False
        status = Path(self.path).stat()
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp == self._stamp:
            return False
        self._keys = keys_of(json.loads(Path(self.path).read_text("utf-8")))
        self._stamp = stamp
        return True

    def holder(self, authorization: bytes | None) -> Key:
        """The key in this `Authorization` header.

        Raises: ApiError 401 for a missing, unknown or expired key.
        """
        if not self.path:
            return NOBODY
        match = BEARER.fullmatch(authorization or b"")
        if not match:
            message = "no API key: send the header `Authorization: Bearer KEY`"
            raise ApiError(401, message, code="invalid_api_key")
        key = self._keys.get(digest_of(match[1])) if len(match[1]) <= LONGEST_KEY else None
        if key is None or not self.lives(key):
            raise ApiError(401, "this API key is unknown, revoked or expired", code="invalid_api_key")
        return key

    def lives(self, key: Key) -> bool:
        """True if the key is still in the file, with the same rights, and has not expired."""
        if key is NOBODY:
            return not self.path
        known = self._keys.get(key.digest)
        return known is not None and known == key and (not known.expires or time.time() < known.expires)


def digest_of(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()


def keys_of(data: object) -> dict[str, Key]:
    """The keys in a parsed file, by their hash.

    Raises: FieldError for unknown content, so that an unknown right is not granted.
    """
    top = Fields(data)
    listed, tenants = top.value("keys"), _tenants(top)
    top.close()
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise top.wrong("keys", f"a list of up to {MOST_KEYS} keys")
    keys = [_key(Fields(line, f"keys[{number}]"), tenants) for number, line in enumerate(listed)]
    if len({key.digest for key in keys}) != len(keys):
        raise FieldError("keys", "a key is in the file twice")
    return {key.digest: key for key in keys}


def _tenants(top: Fields) -> dict[str, KeyLimits]:
    """The budgets of tenants; none in a file of an earlier version."""
    listed = top.value("tenants") or []
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise top.wrong("tenants", f"a list of up to {MOST_KEYS} tenants")
    limits: dict[str, KeyLimits] = {}
    for number, line in enumerate(listed):
        fields_ = Fields(line, f"tenants[{number}]")
        name = fields_.text("tenant")
        if name in limits:
            raise FieldError("tenants", "a tenant is in the file twice")
        limits[name] = _limits(fields_, PERIODS)
        fields_.close()
    return limits


def _limits(entry: Fields, names: tuple[str, ...]) -> KeyLimits:
    numbers = {name: entry.whole(name, 0, _most(name), 0) for name in names}
    currency = entry.text("currency", "")
    if bool(currency) != bool(numbers["cost_per_day"] or numbers["cost_per_month"]):
        raise entry.wrong("currency", "the currency of a budget of money; absent without such a budget")
    if currency and not re.fullmatch(r"[A-Z]{3}", currency):
        raise entry.wrong("currency", "three capital letters")
    return KeyLimits(**numbers, currency=currency)


def _key(entry: Fields, tenants: Mapping[str, KeyLimits]) -> Key:
    digest = entry.text("sha256")
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise entry.wrong("sha256", "64 hexadecimal digits")
    models, tenant = entry.texts("models", MOST_KEYS), entry.text("tenant")
    key = Key(
        digest=digest,
        prefix=entry.text("prefix"),
        tenant=tenant,
        models=frozenset() if models == ["*"] else frozenset(models),
        expires=entry.whole("expires", 0, 2**53, 0),
        limits=_limits(entry, NUMBERS),
        tenant_limits=tenants.get(tenant, KeyLimits()),
    )
    entry.whole("created", 0, 2**53, 0)  # for people
    entry.close()
    return key


def _most(limit: str) -> int:
    if limit.startswith("cost"):
        return MOST_COST
    return MOST_OF_PERIOD if limit in PERIODS else MOST
