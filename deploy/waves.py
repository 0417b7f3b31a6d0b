"""Who is brought over when: a canary first, then shares of the rest."""

from __future__ import annotations

from collections.abc import Iterable

from deploy.spec import Rollout


def waves(hosts: Iterable[str], rollout: Rollout) -> tuple[tuple[str, ...], ...]:
    """Every host in exactly one wave, by name, so that the order of the inventory does not matter.

    Shape: first `canary_hosts`, then `wave_percent` of the rest at a time, rounded up.
    """
    names = sorted(set(hosts))
    canary, rest = names[: rollout.canary_hosts], names[rollout.canary_hosts :]
    share = max(1, -(-len(rest) * rollout.wave_percent // 100))
    shares = [rest[start : start + share] for start in range(0, len(rest), share)]
    return tuple(tuple(wave) for wave in [canary, *shares] if wave)
