"""What a rollout tells whoever watches it: who is in which wave, and how far each host has come."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.spec import Rollout
from roles._pyinfra import events
from tests.roles.rollout.fleet import FakeFleet


@pytest.fixture
def heard() -> Iterator[list[dict[str, Any]]]:
    """All that was told."""
    records: list[dict[str, Any]] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.told)
    events.event_logger.addHandler(handler)
    events.event_logger.setLevel(logging.DEBUG)
    yield records
    events.event_logger.removeHandler(handler)
    events.event_logger.setLevel(logging.NOTSET)


def test_the_waves_and_every_step_of_a_host_are_told(heard: list[dict[str, Any]]) -> None:
    """One that had nothing to do passes; how long its last swap took is known before the first is drained."""
    fleet = FakeFleet.of({"a": "chat", "b": "chat"}, Rollout())
    fleet.hosts["a"].swap = {"seconds": 118.5}
    fleet.hosts["b"].release = "new"
    fleet.run()
    assert heard[0] == {"host": "", "waves": (("@fake/a",), ("@fake/b",))}
    of = {name: [each for each in heard if each["host"] == name] for name in ("@fake/a", "@fake/b")}
    assert [each.get("stage", each.get("last_swap_seconds")) for each in of["@fake/a"]] == [
        "staged", 118.5, "drained", "swapped", "proven", "admitted", "passed",
    ]  # fmt: skip
    assert [each.get("stage", each.get("last_swap_seconds")) for each in of["@fake/b"]] == ["staged", 0, "passed"]


def test_a_host_that_goes_back_tells_so(heard: list[dict[str, Any]]) -> None:
    fleet = FakeFleet.of({"a": "chat", "b": "chat"}, Rollout(on_failure="wave"))
    fleet.hosts["a"].fails = ("question failed",)
    fleet.run()
    stages = [each["stage"] for each in heard if each["host"] == "@fake/a" and "stage" in each]
    assert stages[-3:] == ["question failed", "drained", "put back"]
