"""The LLM slot counts what it answers, for the watchdog: neither what is taken over, nor refusals, nor errors."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.encoders import fake_triton
from tests.roles.triton.test_llm_slot import Request, image, slot

__all__ = ["image", "slot"]  # fixtures: the slot's module, and the model it finds
FINAL = fake_triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class Family:
    """Triton's metric families and metrics in one."""

    COUNTER = "counter"

    def __init__(self, name: str, description: str, kind: str) -> None:
        assert (name, kind) == ("enginehouse_llm_answers_total", self.COUNTER)
        self.value, self.updates, self.fails = 0, 0, False

    def Metric(self, labels: dict[str, str]) -> Family:
        """The only one."""
        assert labels == {"model": "llm"}
        return self

    def increment(self, value: int) -> None:
        """Counted, or not."""
        if self.fails:
            raise RuntimeError("no shared memory left")
        self.value, self.updates = self.value + value, self.updates + 1


@pytest.fixture
def model(slot: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two run and one waits; time stands still."""
    monkeypatch.setattr(fake_triton, "MetricFamily", Family, raising=False)
    monkeypatch.setattr(slot.time, "monotonic", lambda: 7.0)
    loaded = slot.TritonPythonModel()
    loaded.initialize(fake_triton.arguments("llm", {"max_running": "2", "max_queue_size": "1"}))
    return loaded


def counted(model: Any) -> Family:
    """What Triton was told."""
    return model._answers._metric


def test_requests_taken_over_and_refused_are_no_answers(model: Any) -> None:
    model.execute([Request("hold") for _ in range(5)])
    assert counted(model).value == 0


def test_answers_count_and_errors_and_empty_ends_do_not(model: Any) -> None:
    model.execute([Request("hold") for _ in range(3)])
    model.held[0].send(model._said("all"), flags=FINAL)
    model.held[1].send(fake_triton.InferenceResponse([], fake_triton.TritonError("the engine died")), FINAL)
    model.held[2].send(flags=FINAL)
    assert counted(model).value == 1


def test_parts_count_and_are_told_once_a_second_and_with_the_last(model: Any) -> None:
    model.execute([Request("hold")])
    for _ in range(5):
        model.held[0].send(model._said("part"))
    assert (counted(model).value, counted(model).updates) == (1, 1)
    model.held[0].send(model._said("all"), FINAL)
    assert (counted(model).value, counted(model).updates) == (6, 2)


def test_the_answer_to_a_request_that_stops_others_is_none(model: Any) -> None:
    """The Python around a hung engine gives it."""
    model.execute([Request("hold"), Request("drop", stop=True)])
    assert counted(model).value == 0


def test_an_answer_that_cannot_be_counted_is_sent(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_triton.Logger, "lines", [])
    counted(model).fails = True
    (request,) = requests = [Request("at once")]
    model.execute(requests)
    assert request.sender.sent[0][0].error is None
    assert fake_triton.Logger.lines == ["answers are not counted: no shared memory left"]
