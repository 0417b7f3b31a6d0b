"""Conditions of a measurement: a deployed server's environment, a warm server, and all its CPU time and answers."""

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import calls, clients, runs, triton
from benchmarks.clients import Load


def test_the_measured_server_has_the_environment_of_a_deployed_one(tmp_path: Path) -> None:
    golden = (Path(__file__).parents[1] / "golden/h100/launch").read_text()
    variables = triton.environment(tmp_path)
    assert {"TRITON_CACHE_DIR", "HF_HUB_OFFLINE", "PYTHONDONTWRITEBYTECODE"} <= set(variables)
    for name, value in variables.items():
        assert f"{name}={value.replace(str(tmp_path), '$HOME')}" in golden


@pytest.mark.parametrize(
    ("readings", "wanted"), [([100, 99], 2), ([100, 104], 2), ([50, 90, 100, 101], 4), ([10, 20, 40, 80, 160], 4)]
)
def test_a_rival_is_warm_once_it_gets_no_faster(readings: list[float], wanted: int) -> None:
    rates = iter(readings)
    assert runs.warm_up(lambda: {"documents_per_second": next(rates)}) == wanted


def test_every_answer_of_a_run_shares_in_its_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers before and after the window count too: the time is read around the whole run."""
    count, lock = [0], threading.Lock()

    def call(*_: Any) -> dict[str, np.ndarray]:
        with lock:
            count[0] += 3
        time.sleep(0.03)
        return {"scores": np.zeros((1, 3))}

    monkeypatch.setattr(calls, "connect", lambda *_: call)
    begins = time.monotonic()
    part = clients._run(Load("grpc", "", "reranker", "", 2, 0.2), [((), {}, 3)], begins, [0, 1])
    assert part.answered == count[0] and part.documents < part.answered
    assert part.ended >= begins + clients.RAMP_SECONDS + 0.2
