"""Results of a bench: a few figures of each aiperf report, and their median over all runs of a load."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deploy.bench.load import KINDS, Load

BENCHMARK = "enginehouse bench"
LATENCIES = {"first_token": "time_to_first_token", "gap": "inter_token_latency", "whole": "request_latency"}
PERCENTILES = ("p50", "p95", "p99")
Figures = dict[str, float]


def figures_of(report: Mapping[str, Any], load: Load, ask: str) -> Figures:
    """A run's figures: latencies in ms by percentile, rates a second. Runs of encoders have no first token and no gap.

    Raises: KeyError for a report without requests.
    """
    requests = _mean(report, "request_throughput")
    figures = {
        "requests_per_second": requests,
        "goodput_requests_per_second": _mean(report, "goodput"),
        "errors": _mean(report, "error_request_count"),
        "prompt_tokens_per_second": _mean(report, "input_sequence_length") * requests
        if ask == "chat"
        else float(load.items(ask) * load.piece) * requests,
        "completion_tokens_per_second": _mean(report, "output_token_throughput") if ask == "chat" else 0.0,
        "documents_per_second": load.items(ask) * requests,
    }
    for name, metric in LATENCIES.items():
        if ask == "chat" or name == "whole":
            row = report[metric]
            figures |= {f"{name}_{percentile}_ms": float(row[percentile]) for percentile in PERCENTILES}
    return figures


def case_of(
    ask: str, model: str, load: Load, runs: Sequence[Figures], *, gpus: int, replica_gpus: int, products: str
) -> dict[str, Any]:
    """A load's entry in the result file; `gpus` counts the GPUs of all servers with the model."""
    return {
        "name": load.name(ask),
        "ask": ask,
        "model": model,
        "kind": KINDS[ask],
        "products": products,
        "gpus": gpus,
        "replica_gpus": replica_gpus,
        "clients": 0 if load.rate else load.clients,
        "rate": load.rate,
        "cancel_percent": load.cancel_percent,
        "prompt_tokens": load.prompt if ask == "chat" else load.piece,
        "answer_tokens": load.answer if ask == "chat" else 0,
        "beside": [],
        "level_ms": {"first_token": load.first_token_ms, "gap": load.gap_ms}
        if ask == "chat"
        else {"whole": load.whole_ms},
        "median": median_of(runs),
        "runs": [dict(run) for run in runs],
    }


def with_concurrent_loads(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases of loads that ran at the same time; each case names the others."""
    return [
        case | {"beside": [sibling["name"] for sibling in cases if sibling is not case]} if len(cases) > 1 else case
        for case in cases
    ]


def median_of(runs: Iterable[Figures]) -> Figures:
    """The median of each figure."""
    rows = list(runs)
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def _mean(report: Mapping[str, Any], metric: str) -> float:
    row = report.get(metric)
    return float(row["avg"]) if row else 0.0
