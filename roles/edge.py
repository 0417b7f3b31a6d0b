"""What makes a host a balancer: tools, HAProxy, firewall; in place of `foundation` and what follows on other hosts.

A balancer is in no wave. Hosts join and leave it before the first wave, and nothing of it is reloaded while one is out.
"""

from __future__ import annotations

from deploy.slice_traffic import BalancerSlice
from roles import balancer, base, firewall


def apply(mine: BalancerSlice) -> None:
    """HAProxy sends to the hosts of the plan, each once that host says it is ready."""
    base.apply(mine)
    balancer.apply(mine)
    firewall.apply(mine)


def settle(mine: BalancerSlice) -> None:
    """Every host has the models of the plan, so each of them is asked for."""
    balancer.settle(mine)


def relax(mine: BalancerSlice) -> None:
    """No host is asked for a model that the release of before may not have."""
    balancer.relax(mine)
