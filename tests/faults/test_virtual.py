"""What only a machine with a kernel of its own can show: a clock of its own, and wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rehearsal import machines, requirements, services
from tests.faults.scene import PLACES, Scene, named

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

NAME = "vclock"


@pytest.fixture(scope="module")
def virtual(rehearsal: None) -> Iterator[Scene]:
    """A bare machine with its own kernel, thrown away afterwards."""
    if lacking := [*requirements.missing(PLACES, "qemu"), *requirements.missing_packages(for_faults=True)]:
        pytest.skip(requirements.explain(lacking))
    (one,) = machines.up([NAME], "12", places=PLACES, kind="qemu")
    services.services_up()
    try:
        yield Scene(one)
    finally:
        one.destroy()
        machines.write_ssh_config(PLACES)


def test_a_clock_an_hour_ahead_is_refused_before_the_first_change(virtual: Scene) -> None:
    with (fault := named("clock-wrong")).on(virtual.one):
        virtual.mark()
        run, written = virtual.deploy("--limit", NAME), virtual.written()
    assert (run.code, written) == (1, [])
    assert f"{NAME}: {fault.says}" in run.output
    assert "wanted  at most 60 seconds" in run.output
    assert "state   preflight; no host was changed" in run.output


def test_once_it_is_right_preflight_says_nothing_of_it(virtual: Scene) -> None:
    run = virtual.deploy("--dry", "--limit", NAME)
    assert named("clock-wrong").says not in run.output
