"""Bench: aiperf's arguments, the figures of its reports, and the comparison of two results."""

from __future__ import annotations

import itertools
import json
import math
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from deploy.__main__ import main as enginehouse
from deploy.bench.compare import Comparison, _rankings, compared, holm
from deploy.bench.load import KEY_VARIABLE, Load, aiperf_config
from deploy.bench.picture import picture
from deploy.bench.result import case_of, figures_of, with_concurrent_loads
from deploy.cost.measured import loads_of
from deploy.io.aiperf import together
from deploy.io.bench import bench_of
from deploy.refusals.errors import Refusal
from deploy.spec import Gateway
from tests.unit.samples import MAIN, plan

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/bench"
LOAD = Load(clients=4, prompt=50, answer=5)
REPORT = {
    "request_throughput": {"avg": 36.0},
    "goodput": {"avg": 30.0},
    "input_sequence_length": {"avg": 60.0},
    "output_token_throughput": {"avg": 180.0},
    "time_to_first_token": {"p50": 21.0, "p95": 245.0, "p99": 256.0},
    "inter_token_latency": {"p50": 1.0, "p95": 2.0, "p99": 3.0},
    "request_latency": {"p50": 25.0, "p95": 250.0, "p99": 260.0},
}
"""A part of what aiperf 0.13.0 writes."""


def result(*first_tokens: float, **changes: Any) -> dict[str, Any]:
    """A bench result with a run for each median of the first token; every other figure is the same."""
    runs = []
    for number, value in enumerate(first_tokens):
        report = REPORT | {"time_to_first_token": {"p50": value, "p95": 245.0 + number % 2, "p99": 256.0}}
        runs.append(figures_of(report, LOAD, "chat"))
    case = case_of("chat", "llama", LOAD, runs, gpus=1, replica_gpus=1, products="")
    header = {"benchmark": "enginehouse bench", "date": "2026-11-23", "release": "26.07", "plan": "plan-1", "hosts": 1}
    return header | {"machine": {"card": "h100-80"}, "cases": [case]} | changes


def worse(comparison: Comparison) -> list[str]:
    """Names of the figures that got worse."""
    return [figure.name for figure in comparison.figures if figure.is_worse]


def test_equal_results_give_no_findings() -> None:
    """The exit status is 0."""
    comparison = compared(result(20, 21, 22, 23, 24, 25), result(21, 20, 25, 24, 22, 23))
    assert (worse(comparison), comparison.exit_code) == ([], 0)


def test_a_slower_first_token_is_named_and_nothing_else() -> None:
    """Exit status 2, in either order of the files; a faster result is not a finding."""
    before, after = result(20, 21, 22, 23, 24, 25), result(30, 31, 32, 33, 34, 35)
    assert worse(compared(before, after)) == ["first_token_p50_ms"]
    assert (compared(before, after).exit_code, compared(after, before).exit_code) == (2, 0)


def test_a_shift_of_less_than_a_tenth_is_no_finding_unless_asked_for() -> None:
    """Every run is slower, by 5 %."""
    before, after = result(20, 20.1, 20.2, 20.3, 20.4, 20.5), result(21, 21.1, 21.2, 21.3, 21.4, 21.5)
    assert (worse(compared(before, after)), worse(compared(before, after, 2))) == ([], ["first_token_p50_ms"])


def test_one_slow_run_is_noise() -> None:
    """The other five runs are unchanged."""
    assert worse(compared(result(20, 21, 22, 23, 24, 25), result(20, 21, 22, 23, 24, 900))) == []


def test_too_few_runs_are_reported() -> None:
    """Three against three runs cannot be significant, whatever the difference; that is not reported as "no slower"."""
    comparison = compared(result(20, 21, 22), result(900, 901, 902))
    assert (worse(comparison), comparison.exit_code) == ([], 1)
    assert not any(figure.is_tellable for figure in comparison.figures)


def test_results_of_other_loads_or_machines_are_reported() -> None:
    """Exit status 1 if no case is in both results; another card is a note."""
    without_cases = result(20, 21) | {"cases": []}
    assert compared(result(20, 21), without_cases).exit_code == 1
    comparison = compared(result(20), result(20, machine={"card": "l40s-48"}, release="26.02"))
    assert comparison.differences == ("release: 26.07, then 26.02", "card of the machine: h100-80, then l40s-48")


def test_ranks_are_counted_exactly() -> None:
    """The result is compared with a full enumeration for three and four runs."""
    for wins in range(13):
        orders = sum(
            sum(place - position for position, place in enumerate(places)) == wins
            for places in itertools.combinations(range(7), 4)
        )
        assert _rankings(3, 4, wins) == orders
    assert sum(_rankings(6, 6, wins) for wins in range(37)) == math.comb(12, 6)


def test_probabilities_are_adjusted_by_holms_method() -> None:
    """The smallest probability is multiplied by 3, the next by 2, and none falls below an earlier one."""
    assert holm([0.02, 0.01, 0.03]) == pytest.approx([0.04, 0.03, 0.04])


@pytest.mark.parametrize(("after", "code"), [("again", 0), ("slowed", 2)])
def test_recorded_results_of_one_server_are_equal_and_of_a_slowed_one_are_not(after: str, code: int) -> None:
    """aiperf before a gateway and Triton 2.51 on a busy CPU, 2026-11-23; slowed by 100 ms for each chunk."""
    done = CliRunner().invoke(
        enginehouse, ["bench", "compare", str(GOLDEN / "first.json"), str(GOLDEN / f"{after}.json")]
    )
    assert done.exit_code == code, done.output
    assert ("worse" in done.output.replace("worse by", "").split("note")[0]) == (code == 2)


def test_figures_are_taken_from_aiperfs_report() -> None:
    """60 tokens of 36 requests a second in, 180 out; an encoder's documents are its requests times their items."""
    chat, rerank = figures_of(REPORT, LOAD, "chat"), figures_of(REPORT, LOAD, "rerank")
    assert (chat["prompt_tokens_per_second"], chat["completion_tokens_per_second"]) == (2160.0, 180.0)
    assert (chat["first_token_p95_ms"], chat["gap_p99_ms"], chat["whole_p50_ms"]) == (245.0, 3.0, 25.0)
    assert (rerank["documents_per_second"], "first_token_p50_ms" in rerank) == (3600.0, False)


def test_cost_reads_a_bench_result() -> None:
    """The rates of all its cards together, and the 95th percentile of the first token in seconds."""
    (load,) = loads_of(result(20, 21), "bench.json")
    assert (load.prompt_tokens, load.completion_tokens, load.clients, load.card) == (2160.0, 180.0, 4, "h100-80")
    assert (load.first_token_p95_seconds, load.alone) == (0.2455, True)


def test_loads_that_ran_together_name_each_other() -> None:
    """The cost report then uses none of these loads."""
    cases = [result(20)["cases"][0], result(20)["cases"][0] | {"name": "embed"}]
    mixed = with_concurrent_loads(cases)
    assert [case["beside"] for case in mixed] == [["embed"], [LOAD.name("chat")]]
    assert [load.alone for load in loads_of(result(20, cases=mixed), "bench.json")] == [False, False]


@pytest.mark.parametrize("ask", ["chat", "embed", "rerank", "rerank-tei"])
def test_the_key_is_in_no_configuration(ask: str) -> None:
    """aiperf takes the key from its environment."""
    config = aiperf_config(LOAD, ask, "m", "http://gateway", "tokens", True)
    assert config["benchmark"]["endpoint"]["apiKey"] == f"${{{KEY_VARIABLE}}}"
    assert "apiKey" not in aiperf_config(LOAD, ask, "m", "http://gateway", "tokens", False)["benchmark"]["endpoint"]


def test_a_rate_and_leaving_clients_are_configured_in_aiperf() -> None:
    """Poisson arrivals, and 5 of 100 requests cancelled."""
    load = Load(rate=7.5, clients=0, cancel_percent=5)
    phase = aiperf_config(load, "chat", "m", "http://gateway", "tokens", False)["benchmark"]["phases"][1]
    assert (phase["type"], phase["rate"], phase["cancellation"]) == ("poisson", 7.5, {"rate": 5, "delay": 0.5})


def stand_in(folder: Path, body: str) -> Path:
    """A stand-in for aiperf, with the same name."""
    program = folder / "aiperf"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return program


def test_each_load_of_a_bench_runs_as_often_as_declared(tmp_path: Path) -> None:
    """The key reaches the program only by its environment; machine, release and plan are in the result."""
    (tmp_path / "report").write_text(json.dumps(REPORT))
    program = stand_in(
        tmp_path,
        f'echo "$@" >> {tmp_path}/said; echo "${KEY_VARIABLE}" >> {tmp_path}/key\n'
        f'mkdir -p "$5"; cp {tmp_path}/report "$5/profile_export_aiperf.json"',
    )
    mine = plan(servers=(MAIN,), gateway=Gateway())
    measured = bench_of(mine, LOAD, ("chat", "rerank"), key="secret", runs=2, program=program)
    assert [case["model"] for case in measured["cases"]] == ["gpt-oss-20b", "bge"]
    assert [len(case["runs"]) for case in measured["cases"]] == [2, 2]
    assert (measured["plan"], measured["machine"]["card"], measured["url"]) == (
        mine.digest,
        "h100-80",
        "http://127.0.0.1:8080",
    )
    assert (tmp_path / "key").read_text().split() == ["secret"] * 4
    assert "secret" not in (tmp_path / "said").read_text() + json.dumps(measured)
    assert len(ElementTree.fromstring(picture(measured)).findall(".//{*}circle")) == 3 + 3 * 3 + 3


def test_a_run_that_ends_without_a_report_is_refused_with_its_last_words(tmp_path: Path) -> None:
    """The run's folder is removed."""
    before = set(os.listdir(os.environ.get("TMPDIR", "/tmp")))
    with pytest.raises(Refusal, match="wrote no report") as refused:
        together(stand_in(tmp_path, "echo 'ConnectionError: nobody listens'; exit 1"), [{}], "", 5)
    assert "nobody listens" in str(refused.value)
    left = set(os.listdir(os.environ.get("TMPDIR", "/tmp"))) - before
    assert not [name for name in left if name.startswith("enginehouse-bench-")]


def test_an_inventory_without_a_gateway_or_a_model_is_refused(tmp_path: Path) -> None:
    """The refusal comes before any installation."""
    with pytest.raises(Refusal, match="no gateway"):
        bench_of(plan(servers=(MAIN,)), LOAD, ("chat",))
    with pytest.raises(Refusal, match="no model answers chat"):
        bench_of(plan(servers=(MAIN,), gateway=Gateway()), LOAD, ("chat",), models=("bge",))


@pytest.mark.parametrize(
    "words",
    [
        ["bench", "inventories/h100.py", "--mix", "talk"],
        ["bench", "inventories/h100.py", "--cancel", "often"],
        ["bench", "compare", "benchmarks/results/h100-encoders.json", "benchmarks/results/h100-encoders.json"],
        ["bench", "compare", "nothing.json", "nothing.json"],
    ],
)
def test_words_that_mean_nothing_are_refused(words: list[str]) -> None:
    """The refusal comes before any request."""
    done = CliRunner().invoke(enginehouse, words)
    assert done.exit_code in (1, 2) and "Traceback" not in done.output, done.output
