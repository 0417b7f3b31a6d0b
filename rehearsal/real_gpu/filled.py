"""Fills the LLM's cache to the planned tokens while both encoders run full passes, without running out of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.clients import Reading
from rehearsal.real_gpu import card
from rehearsal.real_gpu.generating import Generation, Prompts, filling, generating, goal_tokens
from rehearsal.real_gpu.passes import Passes
from rehearsal.real_gpu.served import Deployed

LEAST_PERCENT = 95
"""Percent of the tokens that all sequences hold at their ends, from which the cache counts as full; those tokens
fill 98 % of the cache (generating.py)."""
ENGINE = 'rehearsal_stand_in_held_tokens{model="%s"}'
"""The LLM's metric for the tokens that its cache holds for running requests."""
HOW = (
    "by the LLM itself: key/value lengths of the requests in its scheduler's hands. The clients' count beside it: "
    "prompts and answers so far of the sequences that have got a token and have not ended, since a sequence's next "
    "token needs the keys and values of all before it; together they fit the cache to their last tokens, so none of "
    "them is put aside"
)


def filled(
    deployed: Deployed, passes: Passes, prompts: Prompts, seconds: float, usable_mib: int, within_seconds: float
) -> dict[str, Any]:
    """Returns tokens held, memory used, and the clients' results for `seconds` after the cache was full.

    Raises: if an encoder's answer is missing or malformed, and if the cache is not full in `within_seconds`.
    """
    model, machine = deployed.model("llm"), deployed.machine
    goal, shape = goal_tokens(model), filling(model)
    least = shape.tokens * LEAST_PERCENT // 100
    identity, since = deployed.identity(), deployed.now()
    before_mib, counted = card.used_mib(machine), deployed.metrics()
    with (
        generating(deployed.http, model, shape, prompts) as seen,
        card.watched(lambda: look(deployed, seen)) as samples,
    ):
        filled_after = seen.wait_until_held(least, within_seconds)
        began, first = seen.tokens, len(samples) - 1
        readings = passes.drive(deployed, list(passes.workloads), seconds)
        generated = seen.tokens - began
    after = deployed.metrics()
    results = {
        "planned_tokens": model.kv_cache_tokens,
        "goal_tokens": goal,
        "sequences": len(shape.prompts),
        "prompt_tokens": max(shape.prompts),
        "filled_after_seconds": round(filled_after, 1),
        "how_known": HOW,
        "encoders": {kind: loaded(deployed, kind, readings[kind], counted, after) for kind in readings},
        "llm": {"answers": seen.answers, "stopped": seen.stopped, "errors": seen.errors}
        | {"tokens_per_second": round(generated / max(1e-9, max(r.whole_seconds for r in readings.values())), 1)},
        "complaints": deployed.complaints(since),
        "restarted": deployed.identity() != identity,
    }
    most_mib = max(int(sample["used_mib"]) for sample in samples)
    used = {"before": before_mib, "most": most_mib, "usable": usable_mib, "looks": len(samples)}
    return results | {"used_mib": used} | verdict(samples[first:], most_mib <= usable_mib, least, results)


def look(deployed: Deployed, seen: Generation) -> card.Sample:
    """Samples used memory and held tokens: as the LLM reports (0 without a report), and as its clients count."""
    held_tokens = deployed.metrics().get(ENGINE % deployed.model("llm").name, 0.0)
    used = float(card.used_mib(deployed.machine))
    return {"used_mib": used, "held_tokens": held_tokens, "held_by_clients": float(seen.held_tokens)}


def loaded(
    deployed: Deployed, kind: str, reading: Reading, before: Mapping[str, float], after: Mapping[str, float]
) -> dict[str, Any]:
    """Returns the load of an encoder: documents answered, and the mean share of its budget that a pass had."""
    model = deployed.model(kind)
    counts = {}
    for name in ("passes", "tokens"):
        metric = f'enginehouse_encoder_{name}_total{{model="{model.name}"}}'
        counts[name] = after.get(metric, 0) - before.get(metric, 0)
    budget = int(str(model.settings["max_batch_tokens"]))
    return {
        "documents_answered": reading.answered,
        "documents_per_second": round(reading.documents_per_second, 1),
        "passes": int(counts["passes"]),
        "mean_share_of_the_budget": round(counts["tokens"] / max(1, counts["passes"]) / budget, 3),
    }


def verdict(samples: list[card.Sample], fits: bool, least: int, results: Mapping[str, Any]) -> dict[str, Any]:
    """Returns tokens held beside the encoders' passes; passed if the cache was full, within the card, all answered."""
    held, by_clients = ([int(sample[name]) for sample in samples] for name in ("held_tokens", "held_by_clients"))
    filled_share = sum(tokens >= least for tokens in held) / len(held)
    is_well = fits and not (results["llm"]["errors"] or results["complaints"] or results["restarted"])
    return {
        "held_tokens": {"most": max(held), "least": min(held), "share_of_time_filled": round(filled_share, 3)},
        "held_by_clients": {"most": max(by_clients), "least": min(by_clients)},
        "held_percent": round(100 * max(held) / results["goal_tokens"], 2),
        "passed": is_well and max(held) >= least,
    }
