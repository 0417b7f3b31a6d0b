"""The flags of `trtllm-build` for one engine, each with the reason it is there. Parallelism is in the checkpoint.

Defaults differ between releases (paged context FMHA: off in 0.17, on in 1.2), so flags that serving relies on are
always written. Run-time settings are not here: cache tokens, fractions, scheduler, decoding mode, cancellation.
"""

from collections.abc import Iterator
from typing import Any

from deploy.catalog.flags import build_flags
from deploy.engine.recipe import Recipe
from deploy.models.speculation import drafted_tokens
from deploy.spec import Draft, Eagle, Lookahead, Medusa, ReDrafter, Speculative

Pair = tuple[str, str]

FP8_ATTENTION = ("fp8", "w4a8_awq", "nvfp4")
"""Precisions under which tensorrt_llm/builder.py leaves FP8 context FMHA on; with any other it is switched off."""

LORA = {"--lora_plugin": "plugin", "--max_lora_rank": "max_rank", "--lora_target_modules": "target_modules"}

NOT_IN_ENGINE = ("--workers",)
"""Flags that change the run of a build, but not its result."""


def shapes_of(recipe: Recipe) -> dict[str, int]:
    return {
        "max_batch_size": recipe.max_batch_size,
        "max_input_len": recipe.max_input_len,
        "max_seq_len": recipe.max_seq_len,
        "max_num_tokens": recipe.max_num_tokens,
        "max_beam_width": recipe.max_beam_width,
    }


def flags_of(recipe: Recipe) -> tuple[Pair, ...]:
    """Every flag except directories, in the order a person would type them; the inventory's own options come last."""
    flags = dict(
        [
            *((f"--{name}", str(value)) for name, value in shapes_of(recipe).items()),
            *_plugins(recipe),
            *_logits(recipe),
            *_speculation(recipe.speculative),
            *_lora(recipe),
            ("--workers", str(recipe.layout.world)),  # one worker for each rank and GPU
        ]
    )
    for name, value in sorted(recipe.options.items()):
        flags = _with_option(flags, name, value)
    return tuple(flags.items())


def _plugins(recipe: Recipe) -> Iterator[Pair]:
    paged = recipe.pages_context
    fp8 = recipe.kv_dtype == "fp8" and recipe.precision in FP8_ATTENTION
    yield "--kv_cache_type", "paged"  # the only cache of in-flight batching
    yield "--gemm_plugin", _gemm(recipe)
    yield "--use_paged_context_fmha", "enable" if paged else "disable"  # block reuse and chunked context read pages
    yield "--use_fp8_context_fmha", "enable" if fp8 else "disable"  # no other kernel reads an fp8 cache in pages


def _gemm(recipe: Recipe) -> str:
    """The type of `--gemm_plugin`: FP8 and NVFP4 by name if the flag offers it, else `auto`, the checkpoint's type."""
    flag = build_flags(recipe.trtllm).certain.get("--gemm_plugin")
    named = recipe.precision in ("fp8", "nvfp4") and flag is not None and recipe.precision in flag.choices
    return recipe.precision if named else "auto"


def _logits(recipe: Recipe) -> Iterator[Pair]:
    if recipe.context_logits:
        yield "--gather_context_logits", ""
    if recipe.generation_logits:
        yield "--gather_generation_logits", ""


_MODES: dict[type, str] = {
    Draft: "draft_tokens_external",
    Medusa: "medusa",
    Eagle: "eagle",
    Lookahead: "lookahead_decoding",
    ReDrafter: "explicit_draft_tokens",
}


def _speculation(speculative: Speculative | None) -> Iterator[Pair]:
    if speculative:
        yield "--speculative_decoding_mode", _MODES[type(speculative)]
        yield "--max_draft_len", str(drafted_tokens(speculative))


def _lora(recipe: Recipe) -> Iterator[Pair]:
    """Modules and rank, not `--lora_dir`: the builder would read only these two from it, and an engine without the
    names of adapters needs no rebuild for the next adapter."""
    if recipe.lora:
        yield "--lora_plugin", "auto"
        yield "--max_lora_rank", str(recipe.lora.max_rank)
        yield "--lora_target_modules", " ".join(recipe.lora.target_modules)


def _with_option(flags: dict[str, str], name: str, value: Any) -> dict[str, str]:
    """`flags` with one more option: `True` adds a switch, `False` removes the flag, a list becomes several values."""
    flag = "--" + name.removeprefix("--")
    if value is False:
        return {key: kept for key, kept in flags.items() if key != flag}
    several = isinstance(value, list | tuple)
    return flags | {flag: "" if value is True else " ".join(map(str, value)) if several else str(value)}
