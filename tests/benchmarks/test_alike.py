"""The cost of the gateway before vLLM: each server gets the same requests, and the engine's counters show it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gateway import alike
from benchmarks.gateway.alike import ENGINE, GATEWAY, PEER, Load, Servers, corrected, counted, judged
from rehearsal.real_gpu import sdk_calls

LOADS = (Load("2", 2, 3), Load("2 by the clock", 2, 4, 20.0))
RESULT = dict.fromkeys(alike.FIGURES.values(), 1.0)
Run = tuple[int, str, dict[str, Any], str]


class Recorder:
    """The benchmark's client, whose runs are kept: port, prompts, further body, rate."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def run(self, words: list[str]) -> dict[str, float]:
        """Returns a result."""
        values = dict(itertools.pairwise(words))
        body = json.loads(values.get("--extra-body", "{}"))
        port = int(values["--base-url"].rsplit(":", 1)[1])
        self.runs.append((port, Path(values["--dataset-path"]).read_text(), body, values.get("--request-rate", "")))
        return RESULT


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def servers(tmp_path: Path, recorder: Recorder) -> Servers:
    """Returns the three servers."""
    numbers: Iterator[int] = itertools.count()
    ports = {ENGINE: 1, GATEWAY: 2, PEER: 3}
    return Servers(ports, "llama", tmp_path, tmp_path, recorder.run, str, lambda: f"prompt {next(numbers)}")


def test_every_server_gets_the_same_prompts_and_no_round_repeats_them(servers: Servers, recorder: Recorder) -> None:
    """The first three runs warm up; LiteLLM has one round, and none by the clock."""
    results: dict[str, Any] = {}
    rows = servers.rows(results, "streams", LOADS, 3)
    texts: dict[str, set[int]] = {}
    for port, prompts, _, _ in recorder.runs[3:]:
        texts.setdefault(prompts, set()).add(port)
    assert list(texts.values()) == [{1, 2, 3}] + [{1, 2}] * 5
    assert [len(prompts.splitlines()) for prompts in texts] == [3, 4] * 3
    assert {name: len(row["runs"]) for name, row in rows["2"].items()} == {ENGINE: 3, GATEWAY: 3, PEER: 1}
    assert [rate for *_, rate in recorder.runs[3:8]] == [""] * 3 + ["20.0"] * 2 and results == {"streams": rows}


def test_no_server_finds_the_prompts_of_another_in_the_engines_cache(servers: Servers, recorder: Recorder) -> None:
    """The gateway has the tenant's salt, LiteLLM none."""
    servers.rows({}, "streams", LOADS, 1)
    assert {port: body for port, _, body, _ in recorder.runs} == {1: {"cache_salt": "alone"}, 2: {}, 3: {}}


@pytest.mark.parametrize(("failed", "tokens", "passed"), [(0, 7, True), (1, 7, False), (0, 8, False)])
def test_it_passes_if_all_were_answered_and_the_engine_computed_as_much(failed: int, tokens: int, passed: bool) -> None:
    runs = [{"tokens_read": 7.0, "tokens_written": 7.0}, {"tokens_read": float(tokens), "tokens_written": 7.0}]
    row = {name: {"failed": failed, "runs": [run]} for name, run in zip((ENGINE, GATEWAY), runs, strict=True)}
    results: dict[str, Any] = {}
    judged(results, {"1": row})
    assert results == {"passed": passed, "asked_alike": tokens == 7}


def test_counters_of_the_engine_are_read() -> None:
    """An engine may have several processes; times of creation do not count."""
    page = (
        "# HELP vllm:prompt_tokens_total x\n"
        'vllm:prompt_tokens_total{engine="0"} 5.0\nvllm:prompt_tokens_total{engine="1"} 1.5e+02\n'
        'vllm:prompt_tokens_created{engine="0"} 9\nvllm:generation_tokens_total 3\n'
    )
    assert counted(page) == {"tokens_read": 155.0, "tokens_written": 3.0, "tokens_cached": 0}


@pytest.mark.parametrize(("reported", "token_ms"), [(128.0, 6.43), (426.125, 1.9209)])
def test_a_server_that_reports_more_tokens_than_there_are_is_no_faster(reported: float, token_ms: float) -> None:
    figures = {"requests_per_second": 1.125, "tokens_per_second": 1.125 * reported, "token_ms_p50": token_ms}
    right = corrected(figures)
    assert right["tokens_per_second"] == pytest.approx(144.0) and right["token_ms_p50"] == pytest.approx(
        6.43, abs=0.001
    )


def test_a_cut_answer_of_a_library_is_retried_and_an_error_kept() -> None:
    texts = iter(["", '{"city": "Lima"', '{"city": "Lima", "wants_rain": true}'])
    answer = {"city": "Lima", "wants_rain": True}
    assert sdk_calls.tried(lambda: sdk_calls.trip(next(texts))) == {"answer": answer, "tries": 3}
    cut = {"error": "each try was cut by its limit of tokens", "tries": sdk_calls.TRIES}
    assert sdk_calls.tried(lambda: sdk_calls.trip("")) == cut
    assert "no text" in sdk_calls.tried(lambda: sdk_calls.some(" "))["error"]
