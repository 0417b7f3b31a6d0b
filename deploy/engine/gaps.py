"""Reasons why no command can be written for a valid engine: a needed flag is uncertain.

A build that stops on its first line wastes a night, so a flag that the catalog is not certain of is never written.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from deploy.catalog import LAST_WITH_ENGINES
from deploy.catalog.flags import FlagTable, build_flags
from deploy.catalog.versions import at_least
from deploy.engine.build_flags import flags_of
from deploy.engine.checkpoint import WEIGHT_ONLY, Making, is_quantized, makings, table_of
from deploy.engine.recipe import Recipe
from deploy.engine.scripts import HEAD_FLAGS, attaches_to_checkpoint, heads_of

OWN_CHECKPOINT = 'Engine(checkpoint="trtllm") with weights converted elsewhere'


@dataclass(frozen=True)
class Gap:
    """A setting that cannot be written; `field` is its place in the inventory, `attempt` the setting to use instead."""

    kind: str
    field: str
    problem: str
    seen: str
    wanted: str
    attempt: str


def gaps_of(recipe: Recipe) -> Iterator[Gap]:
    """Every reason why no engine can be built, general ones first: an unknown split or head makes flags irrelevant."""
    coarse = [*_published(recipe), *_experts(recipe), *_heads(recipe)] if not recipe.is_finished else []
    yield from coarse
    if coarse:
        return
    for making in makings(recipe, "/checkpoint", "digest"):
        yield from _making(recipe, making)
    yield from _build(recipe)


GPTQ_FAMILIES = ("llama", "qwen")
"""Families whose convert script knows `--weight_only_precision int4_gptq`, in every row; quantize.py lacks the format.
"""


def _published(recipe: Recipe) -> Iterator[Gap]:
    if recipe.precision == "int4_gptq" and recipe.family not in GPTQ_FAMILIES:
        yield Gap(
            "gptq-family",
            "checkpoint",
            f"only the convert scripts of {' and '.join(GPTQ_FAMILIES)} read GPTQ weights",
            f"{recipe.architecture}, {recipe.role}",
            "weights in 16 bit, which become int8 or int4 here",
            f'the plain checkpoint and precision="int4_wo", or {OWN_CHECKPOINT}',
        )


def _experts(recipe: Recipe) -> Iterator[Gap]:
    expert = recipe.layout.expert
    if expert > 1 and (is_quantized(recipe) or heads_of(recipe.speculative)):
        yield Gap(
            "experts-not-split",
            "parallel.expert",
            f"{recipe.precision} weights with a {recipe.kv_dtype} cache come from quantize.py, which splits no experts",
            f"expert={expert}, precision={recipe.precision!r}",
            "16 bit or weight-only precision with a 16-bit cache, which convert_checkpoint.py makes, or expert=0",
            'precision="int8_wo" and KVCache(), or Parallel(…) without expert',
        )


def _heads(recipe: Recipe) -> Iterator[Gap]:
    heads = heads_of(recipe.speculative)
    if not heads:
        return
    name = type(recipe.speculative).__name__
    if recipe.layout.pipeline > 1 and heads in ("eagle", "redrafter"):
        yield Gap(
            "heads-not-split",
            "parallel.pipeline",
            f"{name}'s convert script has no pipeline parallelism",
            f"pipeline={recipe.layout.pipeline}",
            "pipeline=1",
            f"Parallel(tensor={recipe.layout.world})",
        )
    if heads == "medusa" and recipe.family == "qwen" and not at_least(recipe.trtllm, "1.0"):
        yield Gap(
            "heads-family",
            "speculative",
            f"the Medusa script of TensorRT-LLM {recipe.trtllm} may know Llama alone",
            f"Medusa(…) on {recipe.architecture}",
            "TensorRT-LLM 1.0 or newer for Qwen2",
            f'release="{LAST_WITH_ENGINES}", or Lookahead(), which needs no script',
        )
    makes = _precisions_with(heads, recipe.trtllm)
    if (makes and recipe.precision not in makes) or (recipe.has_small_cache and heads != "medusa" and makes):
        yield Gap(
            "heads-precision",
            "precision",
            f"nothing of TensorRT-LLM {recipe.trtllm} puts {name} heads on {recipe.precision} weights with a "
            f"{recipe.kv_dtype} cache",
            f"precision={recipe.precision!r}, kv_cache.dtype={recipe.kv_dtype!r}",
            f"one of {', '.join(makes)}{'' if heads == 'medusa' else ', with a 16-bit cache'}",
            f'precision="{makes[1]}" and KVCache(), or {OWN_CHECKPOINT}',
        )


def _precisions_with(heads: str, trtllm: str) -> tuple[str, ...]:
    """The precisions to which heads of this kind can be added; empty if all are possible."""
    plain = ("float16", "bfloat16")
    if heads == "medusa":
        return (*plain, "int8_wo", "int4_wo", "fp8")  # fp8 through quantize.py --medusa_model_dir
    if heads == "eagle":
        return (*plain, "int8_wo", "int4_wo")
    return () if attaches_to_checkpoint(trtllm) else plain


def _making(recipe: Recipe, making: Making) -> Iterator[Gap]:
    table = table_of(recipe, making)
    for name, value in (*making.flags, *making.paths):
        if table is None:
            directory = making.program.split("/")[0]
            assert name in HEAD_FLAGS[directory], f"{name} of {making.program} was not read"
        else:
            yield from _flag(recipe, table, name, value if (name, value) in making.flags else "")


def _build(recipe: Recipe) -> Iterator[Gap]:
    table = build_flags(recipe.trtllm)
    chosen = {"--" + name.removeprefix("--") for name in recipe.options}
    for name, value in flags_of(recipe):
        if name not in chosen:  # validation judges an inventory's own options
            yield from _flag(recipe, table, name, value)


_FIELDS = {
    "--qformat": "precision",
    "--weight_only_precision": "precision",
    "--use_fp8_rowwise": "precision",
    "--kv_cache_dtype": "kv_cache.dtype",
    "--speculative_decoding_mode": "speculative",
    "--moe_ep_size": "parallel.expert",
    "--moe_tp_size": "parallel.expert",
}


def _flag(recipe: Recipe, table: FlagTable, name: str, value: str) -> Iterator[Gap]:
    known = table.certain.get(name)
    wrong = [part for part in value.split() if known and known.choices and part not in known.choices]
    if known and not wrong:
        return
    option = f"{name} {wrong[0]}" if wrong else name
    choices = f"one of {', '.join(known.choices)}" if known else f"a flag on both sides of {recipe.trtllm}"
    yield Gap(
        "flag-not-certain",
        _FIELDS.get(name, "engine"),
        f"it is not certain that {table.program} of TensorRT-LLM {recipe.trtllm} takes `{option}`",
        f"precision={recipe.precision!r}, {recipe.architecture}",
        f"{choices}; its row is {table.row} ({table.confidence})",
        f'release="{LAST_WITH_ENGINES}", '
        f"another precision ({', '.join(WEIGHT_ONLY)} and 16 bit are the oldest), or {OWN_CHECKPOINT}",
    )
