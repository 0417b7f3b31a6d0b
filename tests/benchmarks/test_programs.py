"""The encoders' benchmark and the soak end without an error, small and on the CPU, through the real Triton: `pytest
-m rehearsal`."""

import json

import pytest

from benchmarks import encoders, soak

pytestmark = pytest.mark.rehearsal
SMALL = ["--device", "cpu", "--small"]


def test_the_table_is_measured_beside_naive_over_both_protocols(capsys: pytest.CaptureFixture[str]) -> None:
    cases = ["--cases", "rerank-mixed", "embed-query"]
    encoders.main([*SMALL, *cases, "--runs", "1", "--seconds", "1", "--neighbour"])
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [row["kind"] for row in result["cases"]] == ["reranker", "embedder"]
    for row in result["cases"]:
        assert all(row[side]["p50_ms"] > 0 for side in ("ours", "naive", "ours_http"))
        assert row["limit_documents_per_second"] > 0 < row["ours"]["documents_per_second"]


def test_a_mixed_load_with_mistakes_is_answered_right_and_refused_by_itself() -> None:
    load = ["--requests", "300", "--clients", "6", "--processes", "2", "--texts", "64", "--bad-percent", "10"]
    result = soak.main([*SMALL, *load])
    assert (result["wrong"], result["restarted"]) == (0, False)
    assert result["answered_right"] + result["refused_right"] == 300
    assert result["refused_right"] > 10
