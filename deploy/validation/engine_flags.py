"""Judges whether an engine's commands can be written: every flag exists for certain, and no two exclude each other.

Names and values of `Engine(options=…)` are judged one by one in `deploy.validation.engine_limits`.
"""

from collections.abc import Iterator

from deploy.catalog import ENGINE_ENDS_WITH, PRECISIONS
from deploy.catalog.exclusive_flags import RIVALS
from deploy.catalog.versions import at_least
from deploy.engine.gaps import Gap, gaps_of
from deploy.engine.recipe import recipes_of
from deploy.engine.scripts import FIRST_WITH_SCRIPTS
from deploy.models.resolve import precision_of
from deploy.refusals import Refusal
from deploy.validation.placed_llm import Placed

USELESS = {
    "dry_run": "it makes no engine",
    "strip_plan": "an engine without weights cannot be loaded",
    "weight_streaming": "the plan counts every weight on the GPU",
    "workers": "the plan builds one rank a worker, one worker a GPU",
    "kv_cache_type": "in-flight batching serves a paged cache and no other",
    "paged_kv_cache": "in-flight batching serves a paged cache and no other",
    "model_cls_file": "the checkpoint's own architecture is what the plan counted",
    "model_cls_name": "the checkpoint's own architecture is what the plan counted",
}
"""Flags that exist and would make the plan untrue."""


def flag_problems(placed: Placed) -> Iterator[Refusal]:
    if placed.is_engine and placed.trtllm and at_least(ENGINE_ENDS_WITH, placed.trtllm):
        yield from _useless(placed)
        yield from _rivals(placed)
        yield from _gaps(placed)


def _useless(placed: Placed) -> Iterator[Refusal]:
    for name, value in placed.model.engine.options.items():
        if name in USELESS:
            yield placed.no(
                "engine-option",
                f"`{name}` is not for engines that are planned: {USELESS[name]}",
                f'engine.options["{name}"]',
                seen=repr(value),
                wanted="nothing",
                attempt=f"leave {name} out",
            )


def _rivals(placed: Placed) -> Iterator[Refusal]:
    options = placed.model.engine.options
    for name, value, rival in RIVALS:
        here, there = name.removeprefix("--"), rival.removeprefix("--")
        if here in options and there in options and value in ("", options[here]):
            yield placed.no(
                "flags-exclude-each-other",
                f"`{here}` and `{there}` exclude each other; the build stops on them",
                "engine.options",
                seen=f"{here}={options[here]!r}, {there}={options[there]!r}",
                wanted=f"{here} or {there}, not both",
                attempt=f"leave {there} out",
            )


def _gaps(placed: Placed) -> Iterator[Refusal]:
    """A refusal for each flag or file that the plan needs and cannot write.

    An image without scripts, and a precision that only published weights have, are refused elsewhere.
    """
    if not at_least(placed.trtllm, FIRST_WITH_SCRIPTS) and placed.model.engine.checkpoint != "trtllm":
        return
    if PRECISIONS[precision_of(placed.served)].stored not in ("", placed.served.shape.quantisation):
        return
    gaps: dict[str, Gap] = {}
    for recipe in recipes_of(placed.served, placed.server, placed.trtllm):
        gaps |= {gap.problem: gap for gap in gaps_of(recipe)}
    for gap in gaps.values():
        yield placed.no(gap.kind, gap.problem, gap.field, seen=gap.seen, wanted=gap.wanted, attempt=gap.attempt)
