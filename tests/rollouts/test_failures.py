"""Failures in a rollout: later waves stay unchanged, no more hosts are out than allowed, and they return by
themselves; the message names the cause and the host, a plain re-run finishes the work, and no request is lost."""

from __future__ import annotations

import pytest

from tests.rollouts.cases import CASES
from tests.rollouts.scene import ALLOWED, HOSTS, Case, Scene, played, written
from tests.rollouts.timeline import Event

pytestmark = pytest.mark.rehearsal
KEPT = {"missing": [], "touched": [], "back": True, "again": 0, "serves": True}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_rollout_stops_where_it_must_and_is_finished_by_a_plain_run(scene: Scene, case: Case) -> None:
    events = list[Event]()
    written(result := played(scene, case, events.append), events)
    assert {name: result[name] for name in KEPT} == KEPT, result
    assert result["code"] == case.code, result
    if not case.may_lose:
        assert (result["lost"], result["least_in"]) == (0, len(HOSTS) - ALLOWED), result
