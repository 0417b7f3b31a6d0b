"""The order in which hosts are updated: canaries of every pool first, then shares of the rest.

Capacity counts by pool, in units: a unit is a group, whose hosts go out together, or one host. Pure, and a function of
the whole fleet: `--limit` does not change the waves or the number that may be out (`Plan.only`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeAlias

from deploy.spec import Rollout

Unit: TypeAlias = tuple[str, ...]
"""Names of hosts that go out together."""


@dataclass(frozen=True)
class Pool:
    """The units behind one route, in order of their names."""

    name: str
    units: tuple[Unit, ...]
    allowed: int
    """Units that may be out at once."""
    wave: int
    """Units per wave: `allowed`, less the units that the run may lose."""

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(name for unit in self.units for name in unit)

    def to_json(self) -> dict[str, object]:
        return {"name": self.name, "hosts": list(self.hosts), "max_unavailable": self.allowed}


def pools_of(members: Iterable[tuple[str, str]], rollout: Rollout, groups: Iterable[Unit] = ()) -> tuple[Pool, ...]:
    """The pools of (host, name of its pool), by name; hosts without a pool form the pool without a name.

    The hosts of each of the `groups` are a unit of its first host's pool; every other host is a unit by itself.
    """
    unit_of = {host: unit for unit in groups for host in unit}
    hosts: dict[str, dict[Unit, None]] = {}
    for host, pool in sorted(set(members)):
        hosts.setdefault(pool, {})[tuple(sorted(unit_of.get(host, (host,))))] = None
    pools = [(name, tuple(hosts[name])) for name in sorted(hosts)]
    return tuple(
        Pool(name, units, allowed(name, len(units), rollout), _in_a_wave(name, len(units), rollout))
        for name, units in pools
    )


def allowed(pool: str, units: int, rollout: Rollout) -> int:
    """Units of a pool of `units` that may be out at once; 0 if `max_unavailable` allows none or is not a share."""
    limit = rollout.max_unavailable
    if isinstance(limit, int):
        return min(limit, units)
    if limit:
        if not limit.removesuffix("%").isdecimal():
            return 0  # another check refuses it, with its place
        return min(units, units * int(limit.removesuffix("%")) // 100)
    return max(1, units // 4) if pool else units


def _in_a_wave(pool: str, units: int, rollout: Rollout) -> int:
    """Units of a pool per wave: the number that may be out, less the number that may be lost."""
    unbounded = not pool and rollout.max_unavailable == ""
    return units if unbounded else allowed(pool, units, rollout) - rollout.may_be_lost


def waves(pools: Iterable[Pool], rollout: Rollout, non_serving: Iterable[str] = ()) -> tuple[tuple[str, ...], ...]:
    """Every host in exactly one wave; the order of the inventory does not matter.

    Shape: `canary_hosts` of every pool; then of every pool `wave_percent` of its rest at a time, rounded up. A set
    larger than a pool's `wave` is split, so that no wave takes more out of any pool. `non_serving`: hosts in no pool,
    which are in the last wave.
    """
    every = list(pools)
    first = [_parts(pool.units[: rollout.canary_hosts], pool.wave) for pool in every]
    shares = [_parts(rest, min(pool.wave, _share(len(rest), rollout))) for pool, rest in _rests(every, rollout)]
    planned = [_hosts(step) for steps in (first, shares) for step in zip_longest(*steps, fillvalue=())]
    if idle := sorted(set(non_serving)):
        planned[-1:] = [tuple(sorted([*(planned[-1] if planned else ()), *idle]))]
    return tuple(planned)


def _rests(pools: Iterable[Pool], rollout: Rollout) -> Iterator[tuple[Pool, tuple[Unit, ...]]]:
    for pool in pools:
        yield pool, pool.units[rollout.canary_hosts :]


def _share(units: int, rollout: Rollout) -> int:
    return max(1, -(-units * rollout.wave_percent // 100))


def _parts(units: tuple[Unit, ...], size: int) -> list[tuple[Unit, ...]]:
    assert size > 0, "a rollout that lets nobody out passed the checks"
    return [units[start : start + size] for start in range(0, len(units), size)]


def _hosts(step: Iterable[tuple[Unit, ...]]) -> tuple[str, ...]:
    return tuple(sorted(name for units in step for unit in units for name in unit))
