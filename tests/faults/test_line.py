"""The connection between the control machine and the host breaks, or the host has a changed host key."""

from __future__ import annotations

import pytest

from rehearsal.faults.line import SshCut, sent_bytes
from tests.faults.heavy import checkpoint
from tests.faults.scene import WELL, Scene, named

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

HEAVY = "tests/faults/inventories/heavy.py"
GIGABYTE_MIB = 1024


def test_less_than_a_tenth_of_a_gigabyte_is_sent_again_after_a_cut(scene: Scene) -> None:
    size = checkpoint(GIGABYTE_MIB).joinpath("extra.safetensors").stat().st_size
    scene.machine.limit_rate("500mbit")
    scene.mark()
    began = sent_bytes(scene.machine)
    try:
        with (cut := SshCut(after_bytes=size * 2 // 5)).on(scene.machine), scene.polled() as polls:
            broken, touched = scene.deploy(inventory=HEAVY, fault=cut), scene.touched()
        findings = scene.diagnosed(HEAVY, drift=True)
        again = scene.deploy(inventory=HEAVY)
    finally:
        scene.machine.limit_rate(None)
    sent = sent_bytes(scene.machine) - began
    assert (broken.code, cut.says in broken.output, again.code, polls.missed) == (1, True, 0, [])
    assert ("is lost; while the host is up, begun work continues" in broken.output, touched) == (True, [])
    assert (size < sent < size * 1.1, findings >= {*cut.finds}) == (True, True)
    assert scene.ends_well() == WELL


def test_a_broken_doctor_session_counts_as_no_answer(scene: Scene) -> None:
    with SshCut(after_bytes=4_000).on(scene.machine):
        assert scene.diagnosed(typed=True) == {"unasked"}
    assert scene.diagnosed(typed=True) == set()


def test_a_changed_host_key_is_reported_and_nothing_is_sent(scene: Scene) -> None:
    with (fault := named("host-key-changed")).on(scene.machine), scene.polled() as polls:
        scene.mark()
        run, findings, written = scene.deploy(), scene.diagnosed(typed=True), scene.written()
    assert (run.code, findings, written, polls.missed) == (1, {*fault.finds}, [], [])
    assert fault.says in run.output
    assert scene.ends_well() == WELL
