"""Events of a rollout for a display: the hosts of each wave, and the stage of each host."""

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
    """All recorded events."""
    records: list[dict[str, Any]] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.told)
    events.event_logger.addHandler(handler)
    events.event_logger.setLevel(logging.DEBUG)
    yield records
    events.event_logger.removeHandler(handler)
    events.event_logger.setLevel(logging.NOTSET)


def test_the_waves_and_every_stage_of_a_host_are_reported(heard: list[dict[str, Any]]) -> None:
    """A host without work passes; the duration of its last swap is known before the first host is drained."""
    fleet = FakeFleet.of({"a": "chat", "b": "chat"}, Rollout())
    fleet.hosts["a"].swap = {"seconds": 118.5}
    fleet.hosts["b"].release = "new"
    fleet.run()
    assert heard[0] == {"host": "", "waves": (("@fake/a",), ("@fake/b",))}
    of = {name: [event for event in heard if event["host"] == name] for name in ("@fake/a", "@fake/b")}
    assert [event.get("stage", event.get("last_swap_seconds")) for event in of["@fake/a"]] == [
        "staged", 118.5, "drained", "swapped", "proven", "admitted", "passed",
    ]  # fmt: skip
    assert [event.get("stage", event.get("last_swap_seconds")) for event in of["@fake/b"]] == ["staged", 0, "passed"]


def test_a_host_that_goes_back_is_reported(heard: list[dict[str, Any]]) -> None:
    fleet = FakeFleet.of({"a": "chat", "b": "chat"}, Rollout(on_failure="wave"))
    fleet.hosts["a"].fails = ("question failed",)
    fleet.run()
    stages = [event["stage"] for event in heard if event["host"] == "@fake/a" and "stage" in event]
    assert stages[-3:] == ["question failed", "drained", "put back"]
