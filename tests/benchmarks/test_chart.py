"""The chart: equal results give equal pictures, and the picture contains every figure."""

import xml.etree.ElementTree as ElementTree

from benchmarks import chart, table

CASE = {
    "name": "rerank 128 tokens",
    "is_latency": False,
    "limit_documents_per_second": 10_000.0,
    "naive": {"documents_per_second": 1_500.0},
    "ours": {
        "documents_per_second": 7_000.0, "share_of_bf16_limit": 0.7, "p50_ms": 90.0, "p95_ms": 95.0, "p99_ms": 99.0,
        "tokens_per_second": 896_000, "server_cores": 2.5,
    },
}  # fmt: skip
QUERY = CASE | {"name": "one query", "is_latency": True}
RESULT = {
    "machine": {"gpu": "H100"}, "date": "2026-11-21", "command": "python -m benchmarks.encoders", "runs": 5,
    "limit_tflops": {"bf16": 750.0}, "start_to_ready_seconds": {"first": 20.0, "again": 9.0},
    "memory": {"held_after_start_mib": 5000, "planned_mib": 5871}, "cases": [CASE, QUERY],
}  # fmt: skip


def test_our_bar_is_as_long_as_its_share_of_the_limit() -> None:
    rects = [r for r in ElementTree.fromstring(chart.svg(RESULT)).iter() if r.tag.endswith("rect")]
    widths = [float(rect.get("width", "")) for rect in rects[-3:]]
    assert widths == [75.0, 350.0, 500.0]


def test_figures_stand_beside_their_bars_and_latency_is_left_to_the_table() -> None:
    drawn = chart.svg(RESULT)
    assert all(figure in drawn for figure in (">1,500<", ">7,000<", ">10,000<"))
    assert "one query" not in drawn


def test_a_printed_table_gives_the_same_chart_as_the_stored_line() -> None:
    import json

    printed = f"{table.text(RESULT)}\n{json.dumps(RESULT)}\n"
    assert chart.svg(chart.last_json(printed)) == chart.svg(RESULT)


def test_the_table_names_the_factor_over_the_naive_backend() -> None:
    row = table.text(RESULT).splitlines()[1].split()
    assert row[-8:-5] == ["10,000", "70%", "4.7"]
