"""The file of a gateway's API keys, as text and as values: `enginehouse key …` writes it, the gateway reads it.

The file has no key, only each key's SHA-256: a key has 200 random bits, so it cannot be derived from the hash. The file
may be committed beside the inventory. Keys, their owners and their expiry are then reviewed like any other change.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from deploy.inventory.key_limits import (
    CURRENCY,
    LIMITS,
    MOST,
    NO_NAMES,
    PAIRS,
    PERIODS,
    UNTOUCHED,
    TenantLimits,
    check_tenant,
    checked_limits,
    limits_text,
    time_meant,
)
from deploy.inventory.key_limits import rights_refusal as _refusal
from deploy.refusals import Refusal, json_fault

ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
"""32 letters and digits that cannot be confused: no l, o, 0 or 1."""
FILE = "secrets/gateway-keys.json"
"""File of the control machine with the hashes of `enginehouse key …`, relative to the directory in which pyinfra
starts."""
START = "eh-"
SHOWN, LENGTH = 6, 40
"""Number of characters after `eh-`: the number shown to people, and the number in a whole key."""

LONGEST = 128
DURATION = re.compile(r"([1-9][0-9]{0,4})([hdw])")
HOURS = {"h": 1, "d": 24, "w": 168}
CONCURRENT = 64
"""Default limit of a new key's simultaneous requests."""
UNLIMITED = "unlimited"


@dataclass(frozen=True, kw_only=True)
class GatewayKey:
    """A line of the file. `models` ("*",) means all; times are seconds of the epoch; 0 is "never", or no limit."""

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
    cost_per_day: int = 0
    cost_per_month: int = 0
    """Money per month by the prices of the gateway, in 10^-6 of `currency`."""
    currency: str = ""

    def to_json(self) -> dict[str, Any]:
        """The line without empty fields."""
        values = asdict(self) | {"models": list(self.models)}
        return {name: value for name, value in values.items() if value not in (0, "")}


@dataclass(frozen=True)
class KeyFile:
    """The content of the file: keys, and budgets that a tenant's keys share."""

    keys: tuple[GatewayKey, ...] = ()
    tenants: tuple[TenantLimits, ...] = ()

    @property
    def budgeted_tenants(self) -> frozenset[str]:
        return frozenset(line.tenant for line in self.tenants if line.has_budget)

    def with_tenant(self, line: TenantLimits) -> KeyFile:
        """The file with this line instead of the tenant's old one; a line without budgets is left out."""
        kept = [known for known in self.tenants if known.tenant != line.tenant]
        tenants = sorted([*kept, *([line] if line.has_budget else [])], key=lambda limits: limits.tenant)
        return KeyFile(self.keys, tuple(tenants))


def key_text(numbers: bytes, taken: Iterable[str] = ()) -> str:
    """The key made of `LENGTH` random bytes; "" if another key has the same prefix."""
    text = START + "".join(ALPHABET[number % len(ALPHABET)] for number in numbers[:LENGTH])
    return "" if prefix_of(text) in set(taken) else text


def prefix_of(key: str) -> str:
    """The beginning of a key, which lists and messages show instead of the key."""
    return key[: len(START) + SHOWN]


def gateway_key(
    text: str, tenant: str, models: Sequence[str], expires: str, now: datetime, currency: str = "", **limits: int | None
) -> GatewayKey:
    """The line of a new key.

    Raises: Refusal for a tenant, model, limit or expiry that the gateway would not take.
    """
    check_tenant(tenant)
    wanted = tuple(dict.fromkeys(models)) or ("*",)
    if wrong := [name for name in wanted if not _is_name(name)]:
        named = ",".join(name for name in wanted if _is_name(name) and "*" not in name)
        typed = f"--models {named}" if named else ""
        raise _refusal("this is not a model's name", wrong[0], "--models NAME,NAME, or no --models for all", typed)
    if "*" in wanted and len(wanted) > 1:
        raise _refusal("* is every model", ",".join(wanted), "--models NAME,NAME, or no --models for all")
    return GatewayKey(
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        prefix=prefix_of(text),
        tenant=tenant,
        models=wanted,
        created=int(now.timestamp()),
        expires=expiry(expires, now),
        **checked_limits(limits, currency),
    )


def _is_name(name: str) -> bool:
    if name.lower() in NO_NAMES or "://" in name or name[:1] in "-$=\u201c\u2018\"'":
        return False
    return name.isprintable() and 1 <= len(name) <= LONGEST and not re.search("[,;]", name)


def concurrency(word: str) -> int | None:
    """The number of a key's concurrent requests: `8`; None for `unlimited`.

    Raises: Refusal for another word.
    """
    if word == UNLIMITED:
        return None
    if not re.fullmatch(r"-?[0-9]{1,10}", word):
        number = re.match(r"[0-9]{1,6}", word)
        typed = f"--concurrent {number[0] if number and int(number[0]) else UNLIMITED}"
        raise _refusal("--concurrent is not a number", word, f"1 to {MOST}, or {UNLIMITED}", typed)
    return int(word)


def expiry(word: str, now: datetime) -> int:
    """The end of a key: after `90d`, `12h` or `2w`, on the day `2027-03-01` (UTC), or never.

    Raises: Refusal for another word, and for a time in the past.
    """
    if word == "never":
        return 0
    if duration := DURATION.fullmatch(word):
        return int((now + timedelta(hours=int(duration[1]) * HOURS[duration[2]])).timestamp())
    try:
        day = datetime.combine(date.fromisoformat(word), datetime.min.time(), UTC)
    except ValueError:
        raise _refusal(
            "--expires is not a time", word, "90d, 12h, 2w, a day as 2027-03-01, or never", time_meant(word)
        ) from None
    if (ends := day + timedelta(days=1)) <= now:
        raise _refusal("--expires is over", word, f"a day from {now.date()} on", "--expires 90d")
    return int(ends.timestamp())


def file_in(text: str, file: str) -> KeyFile:
    """The content of the file's text; files of earlier versions have no tenants.

    Raises: Refusal for any unreadable line, so that rewriting the file cannot lose it.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_keys(file, json_fault(text, error)) from None
    if not isinstance(content, dict) or not {"keys"} <= set(content) <= {"keys", "tenants"}:
        raise _no_keys(file, 'not {"keys": […]}')
    lists = [content["keys"], content.get("tenants", [])]
    if not all(isinstance(lines, list) for lines in lists):
        raise _no_keys(file, 'not {"keys": […]}')
    keys = tuple(_line(line, f"keys[{number}]", file) for number, line in enumerate(lists[0]))
    tenants = tuple(_tenant(line, f"tenants[{number}]", file) for number, line in enumerate(lists[1]))
    for name in ("sha256", "prefix"):
        if len({getattr(key, name) for key in keys}) != len(keys):
            raise _no_keys(file, f"two keys with the same {name}")
    if len({line.tenant for line in tenants}) != len(tenants):
        raise _no_keys(file, "two lines of the same tenant")
    return KeyFile(keys, tenants)


def text_of(keys: Iterable[GatewayKey], tenants: Iterable[TenantLimits] = ()) -> str:
    """The file's text: a line for each key and tenant, so that a change is a line of the diff."""
    shared = _listed(line.to_json() for line in tenants)
    more = f', "tenants": {shared}' if shared != "[]" else ""
    return f'{{"keys": {_listed(key.to_json() for key in keys)}{more}}}\n'


def _listed(lines: Iterable[dict[str, Any]]) -> str:
    text = ",\n".join(f"  {json.dumps(line, ensure_ascii=False)}" for line in lines)
    return f"[\n{text}\n]" if text else "[]"


def without(keys: tuple[GatewayKey, ...], prefix: str, file: str) -> tuple[tuple[GatewayKey, ...], GatewayKey]:
    """The other keys, and the key with this prefix, or the only key whose prefix begins with this text.

    Raises: Refusal if no key or several keys begin so, or the whole key was typed.
    """
    listing = f"enginehouse key list --file {shlex.quote(str(file))}"
    if len(prefix) > len(START) + SHOWN:
        facts = {"file": file, "wanted": f"the first {len(START) + SHOWN} characters"}
        problem = "this is longer than a prefix; a key typed here stays in the shell's history"
        raise Refusal(problem, facts=facts, attempt=listing, state=UNTOUCHED, kind="no-such-key")
    matching = [key for key in keys if key.prefix == prefix] or [key for key in keys if key.prefix.startswith(prefix)]
    if len(matching) != 1 or not prefix:
        facts = {
            "file": file,
            "seen": ", ".join(key.prefix for key in matching) or f"{len(keys)} keys, none of them this",
        }
        problem = f"{'several keys begin' if matching else 'no key begins'} with {prefix or 'nothing'}"
        raise Refusal(problem, facts=facts, attempt=listing, state=UNTOUCHED, kind="no-such-key")
    return tuple(key for key in keys if key is not matching[0]), matching[0]


def rows(keys: Iterable[GatewayKey], now: datetime) -> list[tuple[str, str, str, str, str]]:
    """Prefix, tenant, models, expiry and limits of each key, for people; sorted by tenant, old keys first."""
    ordered = sorted(keys, key=lambda key: (key.tenant, key.created, key.prefix))
    return [(key.prefix, key.tenant, ",".join(key.models), expiry_text(key, now), limits_text(key)) for key in ordered]


def expiry_text(key: GatewayKey, now: datetime) -> str:
    """The end of the key, in UTC."""
    if not key.expires:
        return "never"
    ends = datetime.fromtimestamp(key.expires, UTC)
    return f"{ends:%Y-%m-%d %H:%M}{' (over)' if ends <= now else ''}"


def _line(value: object, where: str, file: str) -> GatewayKey:
    known: dict[str, type] = {"sha256": str, "prefix": str, "tenant": str, "models": list}
    known |= {"created": int, "expires": int, "currency": str} | dict.fromkeys(LIMITS, int)
    line = _known(value, known, ("sha256", "prefix", "tenant", "models"), where, file)
    models = line["models"]
    if not re.fullmatch(r"[0-9a-f]{64}", line["sha256"]):
        raise _no_keys(file, f"{where}.sha256 is not a hash")
    if not models or not all(isinstance(name, str) for name in models):
        raise _no_keys(file, f"{where}.models is not a list of names")
    return GatewayKey(**{"created": 0} | line | {"models": tuple(models)})


def _tenant(value: object, where: str, file: str) -> TenantLimits:
    known: dict[str, type] = {"tenant": str, "currency": str} | dict.fromkeys(PERIODS, int)
    return TenantLimits(**_known(value, known, ("tenant",), where, file))


def _known(line: object, known: Mapping[str, type], needed: tuple[str, ...], where: str, file: str) -> dict[str, Any]:
    """The fields of a line, each of the right type, with limits that do not contradict each other."""
    if not isinstance(line, dict):
        raise _no_keys(file, f"{where} is not an object")
    for name, value in line.items():
        if name not in known or type(value) is not known[name] or (isinstance(value, int) and value < 0):
            raise _no_keys(file, f"{where}.{name} is not understood")
    if missing := set(needed) - set(line):
        raise _no_keys(file, f"{where} has no {min(missing)}")
    for day, month in PAIRS:
        if line.get(month, 0) and line.get(day, 0) > line[month]:
            raise _no_keys(file, f"{where} has more {day.split('_')[0]} in a day than in its month")
    has_money = bool(line.get("cost_per_day") or line.get("cost_per_month"))
    if has_money != bool(line.get("currency")) or (has_money and not CURRENCY.fullmatch(line["currency"])):
        raise _no_keys(file, f"{where}.currency is not that of a budget of money")
    return line


def _no_keys(file: str, seen: str) -> Refusal:
    return Refusal(
        f"{file} is not a file of keys",
        facts={"seen": seen},
        attempt="put the last good one back (git log), or name another with --file",
        state=UNTOUCHED,
        kind="no-key-file",
    )
