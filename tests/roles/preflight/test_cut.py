"""Unmanaged GPUs that differ from their declaration, before the first change."""

from __future__ import annotations

import pytest

from roles import preflight
from roles.preflight.facts import About, MachineHost
from tests.roles.preflight.test_preflight import confirmed, kinds
from tests.roles.slices import a_slice

WHOLE = {"modes": "0, Disabled, Disabled", "listed": "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)"}
CUT = {
    "modes": "0, Enabled, Enabled",
    "listed": f"{WHOLE['listed']}\n  MIG 7g.80gb     Device  0: (UUID: MIG-1)",
}


@pytest.mark.parametrize(
    ("manage", "profiles", "cut", "expected"),
    [
        (False, (), CUT, ["mig-not-managed"]),
        (False, ("7g.80gb",), WHOLE, ["mig-not-managed"]),
        (False, ("7g.80gb",), CUT, []),
        (False, (), WHOLE, []),
        (False, (), {}, []),
        (True, (), CUT, []),
        (True, ("7g.80gb",), WHOLE, []),
    ],
)
def test_gpus_of_somebody_else_have_to_be_cut_as_declared(
    manage: bool, profiles: tuple[str, ...], cut: dict[str, str], expected: list[str]
) -> None:
    """If the driver is managed, the MIG role cuts the GPUs later in the run."""
    mine = a_slice("debian-12", machine={"mig": profiles}, driver={"manage": manage}, mig=profiles)
    assert kinds(mine, loaded="580.178.04", **cut) == expected


def test_a_cut_that_is_not_ours_is_refused_before_the_first_change_under_the_hosts_name() -> None:
    mine = a_slice("debian-12", driver={"manage": False})
    ran = confirmed(story=lambda: preflight.confirm(mine), loaded="580.178.04", **CUT)
    problem = "host: the GPUs are not cut as declared, and a driver that is not managed is left as it is"
    assert (ran.failed_hosts, f"[@fake/host] {problem}" in ran.log) == (("host",), True)
    assert "[@fake/host]   state   preflight; no host was changed" in ran.log


def test_modes_and_instances_are_asked_only_where_the_driver_is_not_managed() -> None:
    asks = [MachineHost().command(About(a_slice(driver={"manage": manage}), 5)) for manage in (True, False)]
    assert ["mig.mode" in command for command in asks] == [False, True]
