"""A fleet with everything that a monitor reads: two hosts, a gateway, a balancer with a certificate, a monitor."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from deploy.planning.plan import Plan
from deploy.slices.monitor import MonitorSlice
from deploy.spec import Gateway, Monitor
from tests.unit.test_balancing import EDGE, planned, serving

EYES = Monitor(os="debian-12", address="10.0.0.9")
DIGEST = "sha256:" + "a" * 64


@cache
def watched(**changes: Any) -> Plan:
    """The plan, with these changes to its monitor."""
    return planned(
        a=serving("10.0.0.11") | {"gateway": Gateway(ports=(8080, 8090), keys=None)},
        b=serving("10.0.0.12"),
        edge={"balancer": EDGE},
        eyes={"monitor": replace(EYES, **changes)},
    )


def a_monitor(**changes: Any) -> MonitorSlice:
    """The monitor's own slice."""
    (mine,) = watched(**changes).monitors
    return mine
