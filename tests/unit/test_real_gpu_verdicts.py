"""The report has each judged figure, beside its limit."""

from __future__ import annotations

from rehearsal.real_gpu.report import text
from rehearsal.real_gpu.verdicts import SAYERS, verdicts

ROW = {"model": "bge", "planned_mib": 3_116, "measured_mib": 2_500, "off_percent": -19.8, "within": False}
OWN = ["steps fused", "attention own"]


def test_each_models_memory_stands_beside_its_plan_and_the_sum_beside_the_card() -> None:
    near = {"model": "llama", "planned_mib": 33_109, "measured_mib": 33_500, "off_percent": 1.2, "within": True}
    total = {"measured_mib": 39_044, "usable_mib": 81_079, "fits": True}
    assert list(verdicts("memory", {"models": [ROW, near], "sum": total})) == [
        "bge: 2,500 MiB of 3,116 planned (-19.8 %), NOT within 10 %",
        "llama: 33,500 MiB of 33,109 planned (+1.2 %), within 10 %",
        "all: 39,044 MiB of 81,079 that CUDA can use, fits",
    ]
    (line,) = verdicts("memory", {"sum": total | {"fits": False}})
    assert line.endswith("does NOT fit")


def test_a_full_cache_is_reported_in_planned_tokens_and_the_exhausted_resource() -> None:
    figures = {
        "planned_tokens": 131_072,
        "held_tokens": {"most": 129_100},
        "held_percent": 98.5,
        "encoders": {"reranker": {"documents_per_second": 800.5, "mean_share_of_the_budget": 0.97}},
        "llm": {"errors": []},
        "complaints": ["CUDA out of memory"],
        "restarted": True,
        "used_mib": {"most": 52_000, "usable": 81_079},
    }
    assert list(verdicts("filled", figures)) == [
        "cache: 129,100 tokens of 131,072 planned (98.5 %)",
        "reranker meanwhile: 800.5 documents/s, passes 97 % full",
        "memory: 52,000 MiB of 81,079 at most",
        "ran out: CUDA out of memory; it was started again",
    ]


def test_encoders_are_reported_with_kernels_and_the_others_memory() -> None:
    slow = {"case": "rerank", "is_latency": False, "container_loses_percent": 5.1}
    slow |= {"bare_documents_per_second": 6_741.0, "container_documents_per_second": 6_397.2}
    query = {"case": "query", "is_latency": True, "container_loses_percent": 5.0, "bare_p50_ms": 4.0}
    beside = {"case": "rerank", "is_latency": False, "documents_per_second": 3_000.0, "loses_percent": 53.1}
    figures = {
        "kernels": {"container": {"bge": ["plain steps"]}, "bare": {"bge": OWN}},
        "kernel_problems": ["container, bge: plain steps"],
        "cases": [slow, query | {"container_p50_ms": 4.2}],
        "beside_llm": [beside | {"llm_tokens_per_second": 80.1}],
    }
    assert list(verdicts("encoders", figures)) == [
        "kernels, container, bge: plain steps",
        "kernels, bare, bge: steps fused, attention own",
        "kernels are WRONG: container, bge: plain steps",
        "rerank: 6,397.2 documents/s in the container, 6,741.0 without; loses 5.1 %, NOT within 5 %",
        "query: 4.2 ms in the container, 4.0 without; loses 5.0 %, within 5 %",
        "rerank, the LLM generating: 3,000.0 documents/s, loses 53.1 %; the LLM 80.1 tokens/s",
    ]


def test_a_lone_encoder_is_reported_at_each_token_budget() -> None:
    plan = {"weights_mib": 1_068, "context_mib": 704, "workspace_mib": 1_344}
    worked = {"taken_mib": 2_600, "outside_mib": 690}
    row = {"kind": "reranker", "max_batch_tokens": 16_384, "planned": plan}
    measured = row | {"weights_mib": 1_069, "after_full_passes": worked}
    assert list(verdicts("workspaces", {"encoders": [measured, row | {"problem": "TimeoutExpired: 120 s"}]})) == [
        "reranker, 16,384 tokens: 2,600 MiB of 3,116 planned (weights 1,069, outside the allocator 690)",
        "reranker, 16,384 tokens: TimeoutExpired: 120 s",
    ]


def test_layouts_are_reported_by_card_and_rate() -> None:
    figures = {
        "cards": [{"gpu": 0, "planned_mib": 40_000, "used_mib": 600, "placed": False}],
        "two_servers": {"shares": 2, "llm_tokens_per_second": 200.0, "errors": []},
        "two_servers_for_one": {"llm_tokens_per_second": 1.9},
    }
    assert list(verdicts("split-load", figures)) == [
        "GPU 0: 600 MiB in use, 40,000 planned, NOT placed there",
        "two servers: shares 2, llm_tokens_per_second 200.0",
        "two servers for one: llm_tokens_per_second 1.9",
    ]


def test_a_step_that_was_cut_off_says_as_much_as_it_found() -> None:
    assert [list(verdicts(step, {})) for step in (*SAYERS, "deploy")] == [[]] * (len(SAYERS) + 1)
    (line,) = verdicts("memory", {"models": [ROW]})
    assert line.startswith("bge: ")


def test_the_reports_table_has_them_below() -> None:
    step = {"step": "memory", "ok": False, "seconds": 9.0, "found": {"models": [ROW], "passed": False}}
    *_, missing, last = text({"steps": [step], "missing": ["memory"]}).splitlines()
    assert (missing, last) == ("missing: memory", "memory, bge: 2,500 MiB of 3,116 planned (-19.8 %), NOT within 10 %")
