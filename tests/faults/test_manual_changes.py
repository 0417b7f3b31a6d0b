"""Changes by others on a host that serves: edited settings, a program on our port."""

from __future__ import annotations

import json

import pytest

from rehearsal.faults.foreign import DAEMON, FOREIGN_KEYS
from tests.faults.scene import WELL, Scene, answers, named

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]


def test_foreign_keys_of_daemon_json_stay_and_ours_come_back(scene: Scene) -> None:
    with (fault := named("edited-daemon-json")).on(scene.machine):
        assert scene.diagnosed(drift=True) >= {*fault.finds}
        run = scene.deploy()
        written = json.loads(scene.machine.run(f"cat {DAEMON}").stdout)
    assert (run.code, fault.says in run.output) == (0, True)
    assert {key: written[key] for key in FOREIGN_KEYS} == FOREIGN_KEYS | {"features": {"buildkit": True, "cdi": True}}
    assert scene.ends_well() == WELL


def test_a_taken_port_is_refused_by_name_and_nothing_is_touched(scene: Scene) -> None:
    with (fault := named("port-taken")).on(scene.machine):
        scene.mark()
        run, findings, written = scene.deploy(), scene.diagnosed(), scene.written()
    assert (run.code, findings >= {*fault.finds}, written) == (1, True, [])
    assert f"fault: {fault.says}" in run.output
    assert "found   perl listens there" in run.output
    assert "state   preflight; no host was changed" in run.output


def test_once_the_port_is_free_a_plain_run_serves_again(scene: Scene) -> None:
    with named("port-taken").on(scene.machine):
        assert not answers(scene.machine)
    assert scene.ends_well() == WELL
