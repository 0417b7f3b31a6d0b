"""Preflight findings on a balancer's host."""

from __future__ import annotations

import pytest

from roles._pyinfra.facts import HostFacts, Unit
from roles.preflight.balancers import OURS, findings
from roles.preflight.defaults import Defaults
from roles.preflight.haproxy import DISTRIBUTION
from tests.roles.balancer.slices import a_balancer

RUNS, OFF = Unit("loaded", "active", "enabled"), Unit("loaded", "inactive", "disabled")
GOOD = {"os": "debian-12", "systemd": "yes", "clock": "1000", "addresses": "192.0.2.7\n10.0.0.5"}
TAKEN = {
    "listening": "00000000:1F90\n0100007F:0016",  # 8080 and SSH
    "listeners": 'LISTEN 0 511 0.0.0.0:8080 0.0.0.0:* users:(("nginx",pid=1,fd=6))',
}


def kinds(ours: Unit = OFF, theirs: Unit = OFF, **values: str) -> list[str]:
    """Kinds of findings on a good host with these answers changed."""
    seen = HostFacts(values=GOOD | values, units={OURS: ours, DISTRIBUTION: theirs})
    return [finding.kind for finding in findings(seen, a_balancer(), Defaults(), 1000.0)]


def test_a_machine_as_declared_has_no_findings() -> None:
    assert kinds() == []


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"os": "debian-13"}, "os"),
        ({"systemd": ""}, "systemd"),
        ({"clock": "5000"}, "clock"),
        ({"addresses": "192.0.2.7"}, "address"),
        (TAKEN, "port-taken"),
    ],
)
def test_preflight_of_a_balancer_finds(values: dict[str, str], kind: str) -> None:
    assert kinds(**values) == [kind]


def test_our_own_balancer_has_its_ports() -> None:
    assert kinds(ours=RUNS, **TAKEN) == []


def test_haproxy_that_somebody_else_configured_is_not_replaced() -> None:
    assert kinds(theirs=RUNS, changed="/etc/haproxy/haproxy.cfg") == ["foreign-haproxy"]


def test_haproxys_example_configuration_counts_as_unused() -> None:
    assert kinds(theirs=RUNS) == []
