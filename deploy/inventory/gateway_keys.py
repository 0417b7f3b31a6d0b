"""The file of a gateway's API keys, as text and as values: `enginehouse key …` writes it, the gateway reads it.

The file has no key, only each key's SHA-256: a key has 200 random bits, so nobody finds it from the hash. The file may
be committed beside the inventory. Which keys live, for whom and how long, is then reviewed like any other change.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from deploy.refusals.errors import Refusal

ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
"""32 letters and digits that nobody takes for another: no l, o, 0 or 1."""
FILE = "secrets/gateway-keys.json"
"""Where the verbs `enginehouse key …` keep the hashes on the control machine, from where pyinfra is started."""
START = "eh-"
SHOWN, LENGTH = 6, 40
"""Characters after `eh-`: shown to people, and in all."""

MOST = 2**31 - 1
MOST_OF_PERIOD = 10**15
"""Tokens of a day or a month."""
LONGEST = 128
TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
DURATION = re.compile(r"([1-9][0-9]{0,4})([hdw])")
HOURS = {"h": 1, "d": 24, "w": 168}
CONCURRENT = 64
"""Requests of a new key that may be under way, unless its operator says otherwise."""
UNLIMITED = "unlimited"
LIMITS = ("requests_per_minute", "tokens_per_minute", "concurrent", "tokens_per_day", "tokens_per_month")
PERIODS = ("tokens_per_day", "tokens_per_month")
UNTOUCHED = "the file of keys is as it was"


@dataclass(frozen=True, kw_only=True)
class GatewayKey:
    """A line of the file. `models` ("*",) are all; times are seconds of the epoch; 0 is "never", or no limit."""

    sha256: str
    prefix: str
    tenant: str
    models: tuple[str, ...]
    created: int
    expires: int = 0
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    concurrent: int = 0
    tokens_per_day: int = 0
    tokens_per_month: int = 0

    def to_json(self) -> dict[str, Any]:
        """The line without what says nothing."""
        told = asdict(self) | {"models": list(self.models)}
        return {name: value for name, value in told.items() if value != 0}


def key_text(numbers: bytes, taken: Iterable[str] = ()) -> str:
    """The key that these random bytes spell, `LENGTH` of them; "" where its shown beginning is another key's."""
    text = START + "".join(ALPHABET[number % len(ALPHABET)] for number in numbers[:LENGTH])
    return "" if prefix_of(text) in set(taken) else text


def prefix_of(key: str) -> str:
    """What people are shown of a key."""
    return key[: len(START) + SHOWN]


def gateway_key(
    text: str, tenant: str, models: Sequence[str], expires: str, now: datetime, **limits: int | None
) -> GatewayKey:
    """The line of a new key.

    Raises: Refusal for a tenant, model, limit or expiry that the gateway would not take.
    """
    if not TENANT.fullmatch(tenant):
        raise _refusal("a tenant's name stands in each line of the audit", tenant, "letters, digits, . _ @ -; up to 64")
    wanted = tuple(dict.fromkeys(models)) or ("*",)
    if wrong := [name for name in wanted if not name.isprintable() or not 1 <= len(name) <= LONGEST]:
        raise _refusal("this is no model's name", wrong[0], "--models NAME,NAME, or no --models for all")
    if "*" in wanted and len(wanted) > 1:
        raise _refusal("* is every model", ",".join(wanted), "--models NAME,NAME, or no --models for all")
    for name, limit in limits.items():
        most = MOST_OF_PERIOD if name in PERIODS else MOST
        if limit is not None and not 1 <= limit <= most:
            problem = "lets nothing through" if limit < 1 else "is more than a gateway counts"
            raise _refusal(f"--{name.replace('_', '-')} {problem}", str(limit), f"1 to {most}, or no limit")
    day, month = (limits.get(name) or 0 for name in PERIODS)
    if month and day > month:
        smaller = f"--tokens-per-day of up to {month}, or a larger --tokens-per-month"
        raise _refusal("a day has more tokens than its month", f"{day} a day, {month} a month", smaller)
    given = {name: limit for name, limit in limits.items() if limit}
    return GatewayKey(
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        prefix=prefix_of(text),
        tenant=tenant,
        models=wanted,
        created=int(now.timestamp()),
        expires=expiry(expires, now),
        **given,
    )


def concurrency(word: str) -> int | None:
    """How many requests of a key may be under way: `8`; None for `unlimited`.

    Raises: Refusal for another word.
    """
    if word == UNLIMITED:
        return None
    if not re.fullmatch(r"-?[0-9]{1,10}", word):
        raise _refusal("--concurrent is no number", word, f"1 to {MOST}, or {UNLIMITED}")
    return int(word)


def expiry(word: str, now: datetime) -> int:
    """When a key ends: after `90d`, `12h` or `2w`, with the day `2027-03-01` (UTC), or never.

    Raises: Refusal for another word, and for a time that is over.
    """
    if word == "never":
        return 0
    if told := DURATION.fullmatch(word):
        return int((now + timedelta(hours=int(told[1]) * HOURS[told[2]])).timestamp())
    try:
        day = datetime.combine(date.fromisoformat(word), datetime.min.time(), UTC)
    except ValueError:
        raise _refusal("--expires is no time", word, "90d, 12h, 2w, a day as 2027-03-01, or never") from None
    if (ends := day + timedelta(days=1)) <= now:
        raise _refusal("--expires is over", word, f"a day from {now.date()} on")
    return int(ends.timestamp())


def keys_in(text: str, file: str) -> tuple[GatewayKey, ...]:
    """The keys of the file's text.

    Raises: Refusal where the text is no file of keys, whole: a line that is not understood is not lost in writing.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise _no_keys(file, f"no JSON: {error}") from None
    if not isinstance(given, dict) or set(given) != {"keys"} or not isinstance(given["keys"], list):
        raise _no_keys(file, 'not {"keys": […]}')
    keys = tuple(_line(line, f"keys[{number}]", file) for number, line in enumerate(given["keys"]))
    for name in ("sha256", "prefix"):
        if len({getattr(key, name) for key in keys}) != len(keys):
            raise _no_keys(file, f"two keys with the same {name}")
    return keys


def check_usage_days(keys: Iterable[GatewayKey], days: int) -> None:
    """The gateway keeps its counters as long as the budgets of these keys last.

    Raises: Refusal naming the first key whose budget a restart would forget.
    """
    for key in keys:
        wanted = 31 if key.tokens_per_month else 1 if key.tokens_per_day else 0
        if days < wanted:
            raise Refusal(
                f"the gateway would forget what {key.prefix} of {key.tenant} used of its tokens",
                facts={"seen": f"usage_days={days}", "wanted": f"{wanted} or more"},
                attempt=f"Gateway(usage_days={wanted}), or a key without --tokens-per-day and --tokens-per-month",
                state="the host's keys and settings are as they were",
                kind="budget-without-usage",
            )


def text_of(keys: Iterable[GatewayKey]) -> str:
    """The file's text: a line for each key, so that a change is a line of the diff."""
    lines = ",\n".join(f"  {json.dumps(key.to_json(), ensure_ascii=False)}" for key in keys)
    return f'{{"keys": [\n{lines}\n]}}\n' if lines else '{"keys": []}\n'


def without(keys: tuple[GatewayKey, ...], prefix: str, file: str) -> tuple[tuple[GatewayKey, ...], GatewayKey]:
    """The keys but one, and that one: its prefix is this, or begins so and no other's does.

    Raises: Refusal where none or several begin so, or the whole key was typed.
    """
    if len(prefix) > len(START) + SHOWN:
        facts = {"file": file, "wanted": f"the first {len(START) + SHOWN} characters"}
        problem = "this is longer than a prefix; a key typed here stays in the shell's history"
        raise Refusal(problem, facts=facts, attempt="enginehouse key list", state=UNTOUCHED, kind="no-such-key")
    found = [key for key in keys if key.prefix == prefix] or [key for key in keys if key.prefix.startswith(prefix)]
    if len(found) != 1 or not prefix:
        facts = {"file": file, "seen": ", ".join(key.prefix for key in found) or f"{len(keys)} keys, none of them this"}
        problem = f"{'several keys begin' if found else 'no key begins'} with {prefix or 'nothing'}"
        raise Refusal(problem, facts=facts, attempt="enginehouse key list", state=UNTOUCHED, kind="no-such-key")
    return tuple(key for key in keys if key is not found[0]), found[0]


def rows(keys: Iterable[GatewayKey], now: datetime) -> list[tuple[str, str, str, str, str]]:
    """Prefix, tenant, models, expiry and limits of each key, for people; the tenants in order, old keys first."""
    ordered = sorted(keys, key=lambda key: (key.tenant, key.created, key.prefix))
    return [(key.prefix, key.tenant, ",".join(key.models), expiry_text(key, now), limits_text(key)) for key in ordered]


def expiry_text(key: GatewayKey, now: datetime) -> str:
    """When the key ends, in UTC."""
    if not key.expires:
        return "never"
    ends = datetime.fromtimestamp(key.expires, UTC)
    return f"{ends:%Y-%m-%d %H:%M}{' (over)' if ends <= now else ''}"


def limits_text(key: GatewayKey) -> str:
    """The key's limits in words."""
    words = ("requests/min", "tokens/min", "at once", "tokens/day", "tokens/month")
    told = [f"{getattr(key, name):,} {word}" for name, word in zip(LIMITS, words, strict=True) if getattr(key, name)]
    return ", ".join(told) or "none"


def _line(given: object, where: str, file: str) -> GatewayKey:
    if not isinstance(given, dict):
        raise _no_keys(file, f"{where} is no object")
    known: dict[str, type] = {
        "sha256": str,
        "prefix": str,
        "tenant": str,
        "models": list,
        "created": int,
        "expires": int,
    }
    known |= dict.fromkeys(LIMITS, int)
    for name, value in given.items():
        if name not in known or type(value) is not known[name] or (isinstance(value, int) and value < 0):
            raise _no_keys(file, f"{where}.{name} is not understood")
    if missing := {"sha256", "prefix", "tenant", "models"} - set(given):
        raise _no_keys(file, f"{where} has no {min(missing)}")
    models = given["models"]
    if not re.fullmatch(r"[0-9a-f]{64}", given["sha256"]):
        raise _no_keys(file, f"{where}.sha256 is no hash")
    if not models or not all(isinstance(name, str) for name in models):
        raise _no_keys(file, f"{where}.models is no list of names")
    day, month = (given.get(name, 0) for name in PERIODS)
    if month and day > month:
        raise _no_keys(file, f"{where} has more tokens in a day than in its month")
    line: dict[str, Any] = {"created": 0} | given | {"models": tuple(models)}
    return GatewayKey(**line)


def _refusal(problem: str, seen: str, wanted: str) -> Refusal:
    return Refusal(problem, facts={"seen": seen, "wanted": wanted}, state=UNTOUCHED, kind="no-such-key-rights")


def _no_keys(file: str, seen: str) -> Refusal:
    return Refusal(
        f"{file} is no file of keys",
        facts={"seen": seen},
        attempt="put the last good one back (git log), or name another with --file",
        state=UNTOUCHED,
        kind="no-key-file",
    )
