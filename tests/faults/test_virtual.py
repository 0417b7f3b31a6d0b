"""Faults that need a machine with its own kernel: a wrong clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rehearsal import machines, requirements, services
from tests.faults.scene import PLACES, Scene, named, until

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

NAME = "vclock"
LOGGED = {
    "31, pid=1, name=python3": "xid-application",
    "43, pid=1, Ch 00000008": "xid-watch",
    "48, pid=1, An uncorrectable double bit error (DBE) has been detected": "xid-reset",
    "54, Insufficient auxiliary power": "xid-vendor",
    "78, rehearsed": "xid-ask",
    "79, pid=1, GPU has fallen off the bus.": "off-the-bus",
    "151, rehearsed": "xid-boot",
    "154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)": "recovery-drain",
    "999, rehearsed": "xid-unknown",
}
"""Messages of the driver after the GPU's address, by their meaning."""


@pytest.fixture(scope="module")
def virtual(rehearsal: None) -> Iterator[Scene]:
    """Yields a bare machine with its own kernel, deleted afterwards."""
    if lacking := [*requirements.missing(PLACES, "qemu"), *requirements.missing_packages(for_faults=True)]:
        pytest.skip(requirements.explain(lacking))
    (machine,) = machines.up([NAME], "12", places=PLACES, kind="qemu")
    services.services_up()
    try:
        yield Scene(machine)
    finally:
        machine.destroy()
        machines.write_ssh_config(PLACES)


def test_a_clock_an_hour_ahead_is_refused_before_the_first_change(virtual: Scene) -> None:
    with (fault := named("clock-wrong")).on(virtual.machine):
        virtual.mark()
        run, findings, written = virtual.deploy("--limit", NAME), virtual.diagnosed(), virtual.written()
    assert (run.code, findings >= {*fault.finds}, written) == (1, True, [])
    assert f"{NAME}: {fault.says}" in run.output
    assert "wanted  at most 60 seconds" in run.output
    assert "state   preflight; no host was changed" in run.output


def test_preflight_is_silent_once_the_clock_is_right(virtual: Scene) -> None:
    run = virtual.deploy("--dry", "--limit", NAME)
    assert named("clock-wrong").says not in run.output


def test_gpu_messages_in_the_kernel_log_are_found(virtual: Scene) -> None:
    """The lines go through the kernel's buffer and its journal, like a driver's."""
    lines = "; ".join(f"echo 'kernel: NVRM: Xid (PCI:0000:01:00): {line}' >/dev/kmsg" for line in LOGGED)
    before = virtual.diagnosed()
    virtual.says(lines)
    assert until(lambda: virtual.diagnosed() - before == {*LOGGED.values()}, 10), virtual.diagnosed()
