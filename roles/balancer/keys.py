"""API keys as HAProxy looks them up: for each pool a map from a key's SHA-256 to its rights there.

A line is `HASH UNTIL:REQUESTS:CONCURRENT:MAY`. UNTIL is seconds of the epoch; 0 is never, and no limit. MAY is `yes`,
or `no` for valid keys that these ports do not serve: HAProxy reads no body, so it knows neither the model of a gRPC
request nor its number of tokens. Such keys can use the gateway. A key with limits or an expiry cannot stream either
(haproxy.cfg.j2), and a key's open requests end when its line is removed (files/host/balancer.py).

Only hashes reach a host, never keys: the 200 random bits of a key cannot be derived from its hash.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from deploy.inventory.gateway_keys import FILE, GatewayKey, KeyFile, file_in
from deploy.inventory.key_limits import PERIODS
from deploy.refusals import Refusal
from deploy.slices.traffic import BalancerSlice, RouteSlice
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import CachedFact, Command, Refuse, write
from roles._shipping.places import command
from roles._shipping.texts import InstalledTexts, Text
from roles.balancer.defaults import PLACES, Places

KEYS_HERE = Path(FILE)
HEADER = "# SHA-256 of a key, UNTIL:REQUESTS:CONCURRENT:MAY. Written by enginehouse.\n"
MODE = "0600"
"""Mode of files that HAProxy reads as root, before it changes its user."""


def map_path(pool: str, places: Places = PLACES) -> str:
    return f"{places.settings}/keys-{pool}.map"


def maps(mine: BalancerSlice, keys: Iterable[GatewayKey] | KeyFile, places: Places = PLACES) -> list[Text]:
    """The content of each HAProxy map by its path; none if no key is required."""
    content = keys if isinstance(keys, KeyFile) else KeyFile(tuple(keys))
    routes = mine.routes if mine.keys else ()
    return [Text(map_path(route.pool, places), _map(route, content, mine.sharing), MODE) for route in routes]


def map_texts(mine: BalancerSlice) -> CachedFact[dict[str, str]]:
    return CachedFact(InstalledTexts, {"paths": tuple(text.path for text in maps(mine, ()))})


def written(mine: BalancerSlice, facts: Mapping[str, str]) -> Iterator[Command]:
    """Commands after which each map has the keys of this machine; without keys here, missing maps are made empty."""
    try:
        keys = file_in(KEYS_HERE.read_text("utf-8"), str(KEYS_HERE)) if KEYS_HERE.exists() else None
    except Refusal as problem:
        yield Refuse(problem)
        return
    for text in maps(mine, keys or ()):
        is_kept = keys is None and text.path in facts
        if not is_kept and facts.get(text.path) != text.wanted_fact:
            yield write(text.path, text.content, text.mode)


def sent(facts: HostFacts) -> Iterator[Command]:
    """The command after which a running HAProxy has the keys of its files, without a reload."""
    # The second and the fourth text are those of an older program that this run has not replaced yet.
    of_keys = ("changed keys", "other keys", "requests whose key", "under way", "reload")
    if any(line.startswith(of_keys) for line in facts.value("differs").splitlines()):
        yield f"{command('balancer')} keys"


def _map(route: RouteSlice, content: KeyFile, sharing: int) -> str:
    models = {model for member in route.members for model in member.models}
    counted = content.budgeted_tenants
    known = sorted(content.keys, key=lambda key: key.sha256)
    lines = (f"{key.sha256} {_rights(key, models, sharing, key.tenant in counted)}\n" for key in known)
    return HEADER + "".join(lines)


def _rights(key: GatewayKey, models: set[str], sharing: int, has_tenant_budget: bool) -> str:
    is_counted = has_tenant_budget or any(getattr(key, name) for name in ("tokens_per_minute", *PERIODS))
    may = (key.models == ("*",) or models <= set(key.models)) and not is_counted
    limits = (-(-limit // sharing) for limit in (key.requests_per_minute, key.concurrent))
    return ":".join([str(key.expires), *map(str, limits), "yes" if may else "no"])
