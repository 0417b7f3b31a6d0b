"""The memory of each model on a real card beside its plan.

Models take the planned memory at two moments, so both are read:

    an encoder    weights, context and workspace, compared with the maximum during full passes: its
                  graphs hold the widest pass from its start on, and its allocator gives back little
    an LLM        weights, contexts and cache, held against what its load took; its workspace comes while it generates,
                  and is an allowance for TensorRT-LLM, which is not what runs here
    tritonserver  what is left when every model is unloaded; the plan's figure is an allowance for another release
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from deploy.slices.host import ModelSlice, ServerSlice
from rehearsal.real_gpu import card
from rehearsal.real_gpu.served import Deployed

WITHIN_PERCENT = 10
Record = dict[str, Any]
Drive = Callable[[ModelSlice], object]
"""Full passes on an encoder, or some prompts to an LLM, for a few seconds."""


def memory_by_model(
    deployed: Deployed,
    drive: Drive,
    usable_mib: int,
    empty_mib: int | None = None,
    tell: Callable[[Record], None] = lambda _: None,
    pause: Callable[[float], None] = time.sleep,
) -> Record:
    """Measures memory of each model: the growth of used memory at its load, and the further growth while it works.

    All models are unloaded and loaded again in their order; then the server serves. `empty_mib` is the use of an idle
    card; unless it is given, the server is stopped to read it and started again first.
    """
    machine, models = deployed.machine, deployed.server.models
    with deployed.unwatched():
        empty = stopped_mib(deployed, pause) if empty_mib is None else empty_mib
        served = card.settled_mib(machine, pause)
        for model in reversed(models):
            deployed.unload(model)
        alone = before = card.settled_mib(machine, pause)
        rows = []
        for model in models:
            deployed.load(model)
            loaded = card.settled_mib(machine, pause)
            with card.watched(lambda: {"used_mib": card.used_mib(machine)}) as samples:
                drive(model)
            after = card.settled_mib(machine, pause)
            most = max(after, *(int(sample["used_mib"]) for sample in samples))
            rows.append(compared(model, loaded - before, most - before))
            tell({"models": list(rows)})
            before = after
    seen = {"empty_mib": empty, "served_mib": served, "after_passes_mib": before, "processes": card.processes(machine)}
    return seen | summed(deployed.server, alone - empty, rows, before - empty, usable_mib)


def stopped_mib(deployed: Deployed, pause: Callable[[float], None]) -> int:
    """Returns MiB in use while the server is stopped, and starts it again."""
    deployed.stop()
    empty = card.settled_mib(deployed.machine, pause)
    deployed.start()
    return empty


def compared(model: ModelSlice, loaded_mib: int, most_mib: int) -> Record:
    """Returns a model's plan beside its use: `loaded_mib` by its load, `most_mib` at most while it worked."""
    plan = model.memory
    planned = plan.total_mib - (plan.workspace_mib if model.kind == "llm" else 0)
    measured = loaded_mib if model.kind == "llm" else most_mib
    row: Record = {"model": model.name, "kind": model.kind, "planned_mib": planned, "measured_mib": measured}
    row |= judged(planned, measured) | {"after_load_mib": loaded_mib, "at_most_mib": most_mib}
    row["plan"] = {
        "weights_mib": plan.weights_mib,
        "context_mib": plan.context_mib,
        "workspace_mib": plan.workspace_mib,
        "kv_cache_mib": plan.kv_cache_mib,
    }
    if model.kind == "llm":
        row["workspace"] = {"allowance_mib": plan.workspace_mib, "taken_by_the_stand_in_mib": most_mib - loaded_mib}
    return row


def judged(planned: int, measured: int) -> Record:
    """Returns the percentage by which the measurement exceeds the plan (negative: below), and a verdict."""
    off = 100 * (measured - planned) / planned if planned else 0.0
    return {"off_percent": round(off, 1), "within": abs(off) <= WITHIN_PERCENT}


def summed(server: ServerSlice, own_mib: int, rows: list[Record], taken_mib: int, usable_mib: int) -> Record:
    """Returns the rows with tritonserver and the sum; passed if every model is within bounds and all fit the card."""
    own = {"planned_mib": server.overhead_mib, "measured_mib": own_mib, "is_allowance": True}
    planned = sum(model.memory.total_mib for model in server.models) + server.overhead_mib
    total = {"planned_mib": planned, "measured_mib": taken_mib, "usable_mib": usable_mib}
    total["fits"] = taken_mib <= usable_mib
    passed = all(row["within"] for row in rows) and total["fits"]
    return {"tritonserver": own, "models": rows, "sum": total, "passed": passed}
