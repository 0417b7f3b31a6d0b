"""The fleet as a whole: somebody in it, and a rollout that reaches everybody."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.errors import Refusal
from deploy.refuse import refuse
from deploy.spec import Rollout


def rollout_problems(rollout: Rollout) -> Iterator[Refusal]:
    """A refusal for each mistake in the size of canary and waves."""
    if not 1 <= rollout.wave_percent <= 100:
        yield refuse(
            "out-of-range",
            f"a wave of {rollout.wave_percent} percent reaches nobody or more than everybody",
            where="rollout.wave_percent",
            seen=str(rollout.wave_percent),
            wanted="1 to 100 percent of the hosts after the canary",
            attempt="Rollout(wave_percent=25)",
        )
    if rollout.canary_hosts < 0:
        yield refuse(
            "out-of-range",
            f"a canary of {rollout.canary_hosts} hosts is none",
            where="rollout.canary_hosts",
            seen=str(rollout.canary_hosts),
            wanted="0 or more",
            attempt="Rollout(canary_hosts=1)",
        )


def no_hosts() -> Refusal:
    """The refusal of an inventory without hosts."""
    return refuse(
        "no-hosts",
        "the inventory has no hosts",
        where="the inventory file",
        seen="no list of hosts, or an empty one",
        wanted='h100 = (["ubuntu@203.0.113.7"], {"machine": Machine(…), "servers": (Server(…),)})',
        attempt="copy inventories/h100.py and change the address",
    )
