"""The cost of the gateway before vLLM: each server gets the same requests, and counters show it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from rehearsal.real_gpu import beside_cost, sdk_calls
from rehearsal.real_gpu.bench_client import FIGURES, Load
from rehearsal.real_gpu.beside_cost import ENGINE, GATEWAY, PEER, Servers, counted, judged
from rehearsal.real_gpu.report import StepResults

LOADS = (Load("2", 2, 3), Load("2 by the clock", 2, 4, 20.0))
Run = tuple[int, str, dict[str, Any], str]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Returns the runs of the benchmark: port, prompts, further body, rate."""
    made: list[Run] = []

    def ask(process: object, words: list[str]) -> dict[str, float]:
        values = dict(itertools.pairwise(words))
        prompts = Path(values["--dataset-path"]).read_text()
        body = json.loads(values.get("--extra-body", "{}"))
        made.append((int(values["--base-url"].rsplit(":", 1)[1]), prompts, body, values.get("--request-rate", "")))
        return dict.fromkeys(FIGURES, float(len(made)))

    monkeypatch.setattr(beside_cost, "ask", ask)
    monkeypatch.setattr(beside_cost, "counted", lambda port: dict.fromkeys(beside_cost.COUNTERS, float(len(made))))
    return made


@pytest.fixture
def servers(tmp_path: Path) -> Servers:
    """Returns the three servers before a model of a word for each token."""
    tokenizer = Tokenizer(models.WordLevel({"w": 0}, unk_token="w"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    ports = {ENGINE: 1, GATEWAY: 2, PEER: 3}
    return Servers(ports, "llama", tmp_path, None, tmp_path)  # type: ignore[arg-type]


def test_every_server_gets_the_same_prompts_and_no_round_repeats_them(servers: Servers, runs: list[Run]) -> None:
    """The first three runs warm up; LiteLLM has one round."""
    rows = servers.rows(StepResults(lambda: None), LOADS, 3, 1)
    texts: dict[str, set[int]] = {}
    for port, prompts, _, _ in runs[3:]:
        texts.setdefault(prompts, set()).add(port)
    assert list(texts.values()) == [{1, 2, 3}] * 2 + [{1, 2}] * 4
    assert [len(prompts.splitlines()) for prompts in texts] == [3, 4] * 3
    assert {name: len(row["runs"]) for name, row in rows["2"].items()} == {ENGINE: 3, GATEWAY: 3, PEER: 1}
    assert [rate for *_, rate in runs[3:9]] == [""] * 3 + ["20.0"] * 3


def test_no_server_finds_the_prompts_of_another_in_the_engines_cache(servers: Servers, runs: list[Run]) -> None:
    """The gateway has the tenant's salt, LiteLLM none."""
    servers.rows(StepResults(lambda: None), LOADS, 1, 1)
    assert {port: body for port, _, body, _ in runs} == {1: {"cache_salt": "alone"}, 2: {}, 3: {}}


@pytest.mark.parametrize(("failed", "tokens", "passed"), [(0, 7, True), (1, 7, False), (0, 8, False)])
def test_the_step_passes_if_all_were_answered_and_the_engine_computed_as_much(
    failed: int, tokens: int, passed: bool
) -> None:
    runs = [{"tokens_read": 7.0, "tokens_written": 7.0}, {"tokens_read": float(tokens), "tokens_written": 7.0}]
    row = {name: {"failed": failed, "runs": [run]} for name, run in zip((ENGINE, GATEWAY), runs, strict=True)}
    results = StepResults(lambda: None)
    judged(results, {"1": row})
    assert (results["passed"], results["asked_alike"]) == (passed, tokens == 7)


def test_counters_of_the_engine_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Machine:
        """A machine whose engine has two processes."""

        stdout = (
            "# HELP vllm:prompt_tokens_total x\n"
            'vllm:prompt_tokens_total{engine="0"} 5.0\nvllm:prompt_tokens_total{engine="1"} 1.5e+02\n'
            'vllm:prompt_tokens_total_created{engine="0"} 9\nvllm:generation_tokens_total 3\n'
        )

        def run(self, command: str, check: bool) -> Machine:
            """Returns the page."""
            return self

    monkeypatch.setattr(beside_cost, "machine", Machine)
    assert counted(8010) == {"tokens_read": 155.0, "tokens_written": 3.0, "tokens_cached": 0}


def test_a_cut_answer_is_asked_for_again_and_an_error_is_kept() -> None:
    texts = iter(["", '{"city": "Lima"', '{"city": "Lima", "wants_rain": true}'])
    answer = {"city": "Lima", "wants_rain": True}
    assert sdk_calls.tried(lambda: sdk_calls.trip(next(texts))) == {"answer": answer, "tries": 3}
    assert sdk_calls.tried(lambda: sdk_calls.trip("")) == {
        "error": "each try was cut by its limit of tokens",
        "tries": sdk_calls.TRIES,
    }
    assert "no text" in sdk_calls.tried(lambda: sdk_calls.some(" "))["error"]
