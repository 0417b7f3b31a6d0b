"""The stream in which a pass runs and is captured; the tests record CUDA's calls instead of making them."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from encoders import device
from encoders.graphs import Graphs, rooms
from encoders.packing import pack


class Calls:
    """The current stream, and the calls made while it was current."""

    def __init__(self) -> None:
        self.current: str | None = None
        self.computed: list[str | None] = []
        self.captured: list[str | None] = []

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        before, self.current = self.current, stream.name
        yield
        self.current = before

    @contextmanager
    def graph(self, _: object, pool: object, stream: Any) -> Iterator[None]:
        with self.stream(stream):
            self.captured.append(stream.name)
            yield

    def compute(self, _: object) -> torch.Tensor:
        self.computed.append(self.current)
        return torch.zeros(1)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Returns the recorded CUDA calls of this test."""
    seen = Calls()
    graph = SimpleNamespace(pool=lambda: "pool")
    for name, value in (("stream", seen.stream), ("graph", seen.graph), ("CUDAGraph", lambda: graph)):
        monkeypatch.setattr(torch.cuda, name, value)
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    return seen


def lane(calls: Calls, name: str) -> Graphs:
    return Graphs(calls.compute, SimpleNamespace(name=name, device="cpu"))


def test_every_graph_is_captured_and_tried_in_its_own_stream(calls: Calls) -> None:
    """Captured elsewhere, two streams' products would share the workspace that the library keeps for a stream."""
    wanted = rooms(longest=256, budget=256)
    for name in ("first", "second"):
        calls.captured, calls.computed = [], []
        made = lane(calls, name)
        made.capture(wanted, lambda room: torch.from_numpy(pack([np.zeros(room.tokens, np.int32)], room, filler=1)))
        assert calls.captured == [name] * len(wanted) and calls.computed == [name] * 2 * len(wanted)
        assert len(made.offered) == len(wanted)


def test_a_pass_waits_for_the_one_before_unless_concurrent(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "Running", lambda _, count, compute, *more: calls.current)
    family = SimpleNamespace(padding_id=1, counted_from=0, uncounted=-1, second_rows=0)
    runner = device.Runner(calls.compute, SimpleNamespace(device="cpu"), family)
    runner.lanes = [lane(calls, "first"), lane(calls, "second")]
    beside = (False, True, True, False, True)
    passes = [runner.launch([np.zeros(4, np.int32)], is_beside) for is_beside in beside]
    assert passes == ["first", "second", "first", "first", "second"]


def test_a_pinned_row_serves_another_pass_if_it_is_large_enough(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.torch, "empty", lambda size, dtype, pin_memory: torch.zeros(size, dtype=dtype))
    runner = device.Runner(calls.compute, SimpleNamespace(device="cpu"), SimpleNamespace())
    small, large = runner._pinned(4), runner._pinned(40)
    assert small[0].numel() == 4 and large[0].numel() == 40
    runner._spare = [large]
    assert runner._pinned(8) is large
    runner._spare = [small]
    assert runner._pinned(8)[0].numel() == 8 and not runner._spare
