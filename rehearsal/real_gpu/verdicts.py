"""Verdicts on the measuring steps of a report, a sentence for each judged figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rehearsal.real_gpu import memory, speed

Results = Mapping[str, Any]
UNITS = {True: "ms", False: "documents/s"}


def verdicts(step: str, results: Results) -> Iterator[str]:
    """Yields the sentences of a step, as far as it came; none for a step that measures nothing."""
    return SAYERS.get(step, lambda _: iter(()))(results)


def of_memory(results: Results) -> Iterator[str]:
    """Yields each model beside its plan, then the sum beside the card."""
    for row in results.get("models", ()):
        judged = "within" if row["within"] else "NOT within"
        figures = f"{row['measured_mib']:,} MiB of {row['planned_mib']:,} planned ({row['off_percent']:+.1f} %)"
        yield f"{row['model']}: {figures}, {judged} {memory.WITHIN_PERCENT} %"
    if total := results.get("sum"):
        judged = "fits" if total["fits"] else "does NOT fit"
        yield f"all: {total['measured_mib']:,} MiB of {total['usable_mib']:,} that CUDA can use, {judged}"


def of_filled(results: Results) -> Iterator[str]:
    """Yields the cache's fill, the encoders' rates meanwhile, and memory errors."""
    if "held_tokens" not in results:
        return
    most = results["held_tokens"]["most"]
    yield f"cache: {most:,} tokens of {results['planned_tokens']:,} planned ({results['held_percent']} %)"
    for kind, load in results["encoders"].items():
        share = round(100 * load["mean_share_of_the_budget"])
        yield f"{kind} meanwhile: {load['documents_per_second']:,} documents/s, passes {share} % full"
    restarted = ["it was started again"] if results["restarted"] else []
    troubles = [*results["llm"]["errors"], *results["complaints"], *restarted]
    yield f"memory: {results['used_mib']['most']:,} MiB of {results['used_mib']['usable']:,} at most"
    yield f"ran out: {'; '.join(troubles) or 'nothing'}"


def of_encoders(results: Results) -> Iterator[str]:
    """Yields the kernels that ran, then each case: in the container and without one, and beside the LLM."""
    for side, chosen in results.get("kernels", {}).items():
        for model, kernels in chosen.items():
            yield f"kernels, {side}, {model}: {', '.join(kernels)}"
    yield from (f"kernels are WRONG: {problem}" for problem in results.get("kernel_problems", ()))
    for row in results.get("cases", ()):
        figure, unit = speed.FIGURES[row["is_latency"]], UNITS[row["is_latency"]]
        lost = row["container_loses_percent"]
        judged = "within" if lost <= speed.WITHIN_PERCENT else "NOT within"
        sides = f"{row[f'container_{figure}']:,.1f} {unit} in the container, {row[f'bare_{figure}']:,.1f} without"
        yield f"{row['case']}: {sides}; loses {lost} %, {judged} {speed.WITHIN_PERCENT} %"
    for row in results.get("beside_llm", ()):
        figure, unit = speed.FIGURES[row["is_latency"]], UNITS[row["is_latency"]]
        figures = f"{row[figure]:,.1f} {unit}, loses {row['loses_percent']} %"
        yield f"{row['case']}, the LLM generating: {figures}; the LLM {row['llm_tokens_per_second']} tokens/s"


def of_workspaces(results: Results) -> Iterator[str]:
    """Yields memory of each encoder alone at each budget, beside its plan."""
    for row in results.get("encoders", ()):
        name = f"{row['kind']}, {row['max_batch_tokens']:,} tokens"
        if "after_full_passes" not in row:
            yield f"{name}: {row['problem']}"
            continue
        worked, plan = row["after_full_passes"], row["planned"]
        parts = f"weights {row['weights_mib']:,}, outside the allocator {worked['outside_mib']:,}"
        yield f"{name}: {worked['taken_mib']:,} MiB of {sum(plan.values()):,} planned ({parts})"


def of_layout(results: Results) -> Iterator[str]:
    """Yields rates of each layout, and the gain of two servers."""
    for card in results.get("cards", ()):
        judged = "" if card["placed"] else ", NOT placed there"
        yield f"GPU {card['gpu']}: {card['used_mib']:,} MiB in use, {card['planned_mib']:,} planned{judged}"
    for name in ("one_server", "two_servers", "one_server_over_both", "two_servers_for_one", "two_servers_for_it"):
        if figures := results.get(name):
            yield f"{name.replace('_', ' ')}: {', '.join(f'{key} {value}' for key, value in figures.items() if value)}"


SAYERS: dict[str, Callable[[Results], Iterator[str]]] = {
    "workspaces": of_workspaces,
    "memory": of_memory,
    "filled": of_filled,
    "encoders": of_encoders,
    "split-load": of_layout,
    "both-load": of_layout,
}
