"""A bench of an inventory's gateway: loads of the wanted kinds, several runs of each, one result."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deploy.bench.load import KINDS, Load, aiperf_config
from deploy.bench.result import BENCHMARK, case_of, figures_of, with_concurrent_loads
from deploy.catalog import GPUS
from deploy.io.aiperf import environment, together
from deploy.io.prometheus import asker
from deploy.planning.plan import Plan
from deploy.refusals import Refusal, refuse
from deploy.slices.host import ModelSlice, ServerSlice

WATTS = "sum(avg_over_time(DCGM_FI_DEV_POWER_USAGE[{seconds:.0f}s]))"


def bench_of(
    plan: Plan,
    load: Load,
    asks: Sequence[str],
    *,
    url: str = "",
    key: str = "",
    models: Sequence[str] = (),
    tokenizer: str = "",
    runs: int = 6,
    apart: bool = False,
    prometheus: str = "",
    say: Callable[[str], None] = lambda _line: None,
    program: Path | None = None,
) -> dict[str, Any]:
    """The result of `runs` runs of each load. Loads run at the same time, or with `apart` one after the other.

    Raises: a Refusal if the inventory has no such model or gateway, or if aiperf gets no answer.
    """
    chosen = [(ask, _model(plan, ask, models)) for ask in asks]
    url = url or _gateway(plan)
    if program is None:
        say("aiperf: its environment is made the first time, 1.2 GB in .cache/bench")
        program = environment()
    began = datetime.now(UTC)
    groups = [[pair] for pair in chosen] if apart else [chosen]
    cases: list[dict[str, Any]] = []
    for group in groups:
        figures: list[list[dict[str, float]]] = [[] for _ in group]
        configs = [
            aiperf_config(load, ask, model.name, url, tokenizer or _tokenizer(model), bool(key)) for ask, model in group
        ]
        for run in range(runs):
            say(f"run {run + 1} of {runs}: {', '.join(load.name(ask) for ask, _ in group)}")
            reports = together(program, configs, key, load.seconds)
            for place, ((ask, _), report) in enumerate(zip(group, reports, strict=True)):
                figures[place].append(figures_of(report, load, ask))
        cases += with_concurrent_loads(
            [_case(plan, ask, model, load, rows) for (ask, model), rows in zip(group, figures, strict=True)]
        )
    seconds = (datetime.now(UTC) - began).total_seconds()
    return {
        "benchmark": BENCHMARK,
        "date": began.date().isoformat(),
        "url": url,
        "plan": plan.digest,
        "release": ", ".join(sorted({slice_.image.reference.rsplit(":", 1)[-1] for slice_ in plan.slices})),
        "hosts": len(plan.slices),
        "machine": _machine(plan),
        "runs": runs,
        "seconds_per_run": load.seconds,
        "watts": _watts(prometheus, seconds),
        "cases": cases,
    }


def _machine(plan: Plan) -> dict[str, Any]:
    cards = sorted({slice_.machine.gpu for slice_ in plan.slices})
    gpus = sum(slice_.machine.gpus for slice_ in plan.slices)
    return {"card": " + ".join(cards), "title": " + ".join(GPUS[card].title for card in cards), "gpus": gpus}


def _watts(prometheus: str, seconds: float) -> float | None:
    """Average watts of all GPUs that a dcgm-exporter reports; None if no exporter was asked or answered."""
    rows = asker(prometheus)(WATTS.format(seconds=max(seconds, 60))) if prometheus else []
    return rows[0][1] if rows else None


def _case(plan: Plan, ask: str, model: ModelSlice, load: Load, rows: Sequence[dict[str, float]]) -> dict[str, Any]:
    servers = [server for server in _servers(plan) if any(served.name == model.name for served in server.models)]
    return case_of(
        ask,
        model.name,
        load,
        rows,
        gpus=sum(len(server.gpus) for server in servers),
        replica_gpus=max(len(server.gpus) for server in servers),
        products=str(model.settings.get("products", model.settings.get("dtype", ""))),
    )


def _servers(plan: Plan) -> list[ServerSlice]:
    return [server for slice_ in plan.slices for server in slice_.servers]


def _model(plan: Plan, ask: str, models: Sequence[str]) -> ModelSlice:
    """The first model of the kind; of the named models, if any are named."""
    candidates = [model for server in _servers(plan) for model in server.models if model.kind == KINDS[ask]]
    named = [model for model in candidates if not models or model.name in models]
    if not named:
        raise _refused(
            f"no model answers {ask}",
            ", ".join(sorted({model.name for model in candidates})) or "none",
            "--mix, --model",
        )
    return named[0]


def _gateway(plan: Plan) -> str:
    for slice_ in plan.slices:
        if gateway := slice_.gateway:
            address = f"[{gateway.address}]" if ":" in gateway.address else gateway.address
            return f"http://{address}:{gateway.ports[0]}"
    raise _refused("the inventory has no gateway", "no Gateway", "--url http://…")


def _tokenizer(model: ModelSlice) -> str:
    return model.weights.repository or model.weights.directory


def _refused(problem: str, seen: str, attempt: str) -> Refusal:
    return refuse(
        "nothing-to-bench",
        problem,
        where="enginehouse bench",
        seen=seen,
        wanted="a gateway, and a model of each kind of the mix",
        attempt=attempt,
    )
