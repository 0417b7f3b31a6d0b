"""The LLM slot counts its answers, for the watchdog: neither accepted requests, nor refusals, nor errors."""

from __future__ import annotations

import itertools
import queue
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.encoders import fake_triton
from tests.roles.triton.llm_slot import PATIENCE_SECONDS, Request, ask, image, load, senders_of, slot, texts

__all__ = ["image", "slot"]  # fixtures: the slot's module, and the model it finds
TWO = {"text_input": "hi", "sampling_param_max_tokens": 2}


class Family:
    """Stand-in for Triton's metric family and metric, in one class."""

    COUNTER, GAUGE = "counter", "gauge"

    def __init__(self, name: str, description: str, kind: str) -> None:
        wanted = {
            "enginehouse_llm_answers_total": self.COUNTER,
            "enginehouse_llm_running_requests": self.GAUGE,
            "enginehouse_llm_cache_share": self.GAUGE,
        }
        assert wanted[name] == kind
        self.value, self.updates, self.fails = 0, 0, False

    def Metric(self, labels: dict[str, str]) -> Family:
        """The only metric."""
        assert labels == {"model": "llm"}
        return self

    def increment(self, value: int) -> None:
        """Adds to the count."""
        if self.fails:
            raise RuntimeError("no shared memory left")
        self.value, self.updates = self.value + value, self.updates + 1

    def set(self, value: int) -> None:
        self.value, self.updates = value, self.updates + 1


@pytest.fixture
def model(slot: ModuleType, image: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A model with two running requests and a waiting one; time stands still."""
    monkeypatch.setattr(fake_triton, "MetricFamily", Family, raising=False)
    import llm.requests as requests

    monkeypatch.setattr(requests.time, "monotonic", lambda: 7.0)
    loaded = load(slot)
    yield loaded
    (image / "GO").touch()
    loaded.finalize()


def counted(model: Any) -> Family:
    """Triton's counters of answers."""
    return model._requests._metrics._answers


def after_all(model: Any) -> Family:
    """Triton's counters of answers, after every queued update was sent."""
    model._requests.end()
    return counted(model)


def test_requests_taken_over_and_refused_are_no_answers(model: Any) -> None:
    senders_of(model, *["hold"] * 5)
    assert after_all(model).value == 0


def test_answers_count_and_errors_do_not(model: Any) -> None:
    ask(model, **TWO)
    ask(model, text_input="breaks")
    assert after_all(model).value == 1


def test_a_client_that_leaves_is_no_answer(model: Any) -> None:
    gone = Request(text_input="hold")
    model.execute([gone])
    gone.cancel()
    gone.sender.events()
    assert after_all(model).value == 0


def test_streamed_parts_are_counted_and_published_once_a_second(model: Any) -> None:
    ask(model, text_input="hi", sampling_param_max_tokens=6, streaming=True)
    assert (after_all(model).value, counted(model).updates) == (6, 2)


def test_an_answer_that_cannot_be_counted_is_sent(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_triton.Logger, "lines", [])
    counted(model).fails = True
    assert texts(ask(model, **TWO)) == ["hi w0 w1"]
    after_all(model)
    assert fake_triton.Logger.lines == ["a metric was not updated: no shared memory left"]


def test_unanswered_requests_are_counted_until_the_last_client_has_gone(model: Any) -> None:
    counts: queue.Queue[int] = queue.Queue()
    model._requests._metrics._work.set = counts.put
    requests = [Request(text_input="hold") for _ in range(2)]
    model.execute(requests)
    while counts.get(timeout=PATIENCE_SECONDS) != 2:
        pass
    for request in requests:
        request.cancel()
    while counts.get(timeout=PATIENCE_SECONDS) != 0:
        pass


def test_the_cache_metric_counts_the_tokens_of_running_requests(
    slot: ModuleType, image: Path, monkeypatch: Any
) -> None:
    """Two prompts of two tokens in a cache of eight, and then none; reported once a second."""
    monkeypatch.setattr(fake_triton, "MetricFamily", Family, raising=False)
    import llm.requests as requests

    ticks = itertools.count()
    monkeypatch.setattr(requests.time, "monotonic", lambda: float(next(ticks)))
    model = load(slot, cache_tokens="8")
    shares: queue.Queue[float] = queue.Queue()
    model._requests._metrics._cache.set = shares.put
    senders_of(model, "hold", "hold")
    while shares.get(timeout=PATIENCE_SECONDS) != 0.5:
        pass
    (image / "GO").touch()
    while shares.get(timeout=PATIENCE_SECONDS) != 0:
        pass
    model.finalize()
