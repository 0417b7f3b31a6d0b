"""The commands that turn published weights into a TensorRT-LLM checkpoint: convert, quantize, add heads, or none.

Division of work (NVIDIA/TensorRT-LLM examples/quantization/README.md and examples/models/core/llama/README.md):
    convert_checkpoint.py   16 bit, weight-only int8 and int4, GPTQ as published; row-wise FP8 before quantize.py had it
    quantize.py             everything calibrated, every quantised cache, and all models without a script that was read
    the heads' own scripts  EAGLE, Medusa; ReDrafter's runs after one of the two above
Only flags that are certain in the catalog for the release may be written; `deploy.engine.gaps` names the others.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from deploy.catalog.flags import FlagTable, convert_flags, quantize_flags
from deploy.engine.recipe import Recipe
from deploy.engine.scripts import QUANTIZE_SCRIPT, attaches_to_checkpoint, convert_path, heads_of, heads_path
from deploy.models.files import calibration_path, weights_path
from deploy.spec import Eagle, Medusa, ReDrafter

Pairs = tuple[tuple[str, str], ...]
"""(exact name, value); an empty value is a switch."""

QFORMATS = {"float16": "full_prec", "bfloat16": "full_prec", "fp8_rowwise": "fp8_pc_pt"}
"""quantize.py's names of precisions, if they differ."""

WEIGHT_ONLY = {"int8_wo": "int8", "int4_wo": "int4", "int4_gptq": "int4_gptq"}
EAGLE_LAYERS = 4
"""Depth of EAGLE's default tree, `mc_sim_7b_63`, as in its own convert script."""


@dataclass(frozen=True, kw_only=True)
class Making:
    """A command: its stage, its program's name in the catalog, the program's place, and its flags without paths."""

    stage: str
    program: str
    script: str
    flags: Pairs
    paths: Pairs = ()


def makings(recipe: Recipe, checkpoint: str, calibration: str) -> tuple[Making, ...]:
    """The commands, in order; the last one writes its checkpoint to the directory `checkpoint`."""
    if recipe.is_finished:
        return ()
    heads = heads_of(recipe.speculative)
    if heads == "redrafter" and attaches_to_checkpoint(recipe.trtllm):
        base = f"{checkpoint}-base"
        return _model(recipe, base, calibration), _redrafter(recipe, checkpoint, ("--base_model_checkpoint_dir", base))
    if heads == "redrafter":
        return (_redrafter(recipe, checkpoint, ("--model_dir", weights_path(recipe.weights))),)
    if heads and not is_quantized(recipe):
        return (_with_heads(recipe, heads, checkpoint),)
    return (_model(recipe, checkpoint, calibration),)


def is_quantized(recipe: Recipe) -> bool:
    """True if quantize.py makes the checkpoint."""
    if recipe.precision == "fp8_rowwise" and recipe.family == "llama" and not recipe.has_small_cache:
        return _quantizes_rows(recipe)
    return recipe.has_small_cache or not (recipe.is_plain or recipe.precision in WEIGHT_ONLY) or not recipe.family


def is_calibrated(recipe: Recipe) -> bool:
    """True if making the checkpoint reads calibration texts: quantize.py does, unless it only exports."""
    if recipe.is_finished or not is_quantized(recipe):
        return False
    return recipe.has_small_cache or not (recipe.is_plain or recipe.precision in WEIGHT_ONLY)


def table_of(recipe: Recipe, making: Making) -> FlagTable | None:
    """The catalog's flags of a command's program; None for the scripts that add heads."""
    if making.program == "quantize.py":
        return quantize_flags(recipe.trtllm)
    return convert_flags(recipe.trtllm, recipe.family) if making.program.startswith(f"{recipe.family}/") else None


def _quantizes_rows(recipe: Recipe) -> bool:
    flag = quantize_flags(recipe.trtllm).certain.get("--qformat")
    return flag is not None and "fp8_pc_pt" in flag.choices


def _model(recipe: Recipe, output: str, calibration: str) -> Making:
    return _quantize(recipe, output, calibration) if is_quantized(recipe) else _convert(recipe, output)


def _convert(recipe: Recipe, output: str) -> Making:
    flags = [("--dtype", recipe.dtype), *_split(recipe)]
    if recipe.has_experts and recipe.layout.expert:
        layout = recipe.layout  # experts divide the tensor-parallel group: moe_tp x moe_ep = tp
        flags += [("--moe_tp_size", str(layout.tensor // layout.expert)), ("--moe_ep_size", str(layout.expert))]
    if recipe.precision in WEIGHT_ONLY:
        flags += [("--use_weight_only", ""), ("--weight_only_precision", WEIGHT_ONLY[recipe.precision])]
    if recipe.precision == "int4_gptq":
        flags += [("--per_group", "")]
    if recipe.precision == "fp8_rowwise":
        flags += [("--use_fp8_rowwise", "")]
    return Making(
        stage="convert",
        program=f"{recipe.family}/convert_checkpoint.py",
        script=convert_path(recipe.trtllm, recipe.family),
        flags=tuple(flags) + _workers(recipe),
        paths=(("--model_dir", weights_path(recipe.weights)), ("--output_dir", output)),
    )


def _quantize(recipe: Recipe, output: str, calibration: str) -> Making:
    qformat = QFORMATS.get(recipe.precision, recipe.precision)
    flags = [("--dtype", recipe.dtype), ("--qformat", qformat), *_split(recipe)]
    paths = [("--model_dir", weights_path(recipe.weights)), ("--output_dir", output)]
    if recipe.has_small_cache:
        flags += [("--kv_cache_dtype", recipe.kv_dtype)]
    if is_calibrated(recipe) and recipe.calibration:
        paths += [("--calib_dataset", calibration_path(calibration))]
        flags += [("--calib_size", str(recipe.calibration.samples))]
    if isinstance(recipe.speculative, Medusa) and recipe.speculative_weights:
        paths += [("--medusa_model_dir", weights_path(recipe.speculative_weights))]
        flags += [("--num_medusa_heads", str(recipe.speculative.heads))]
        flags += [("--max_draft_len", str(recipe.speculative.tokens))]
    return Making(
        stage="quantize", program="quantize.py", script=QUANTIZE_SCRIPT, flags=tuple(flags), paths=tuple(paths)
    )


def _with_heads(recipe: Recipe, heads: str, output: str) -> Making:
    """The call of EAGLE's or Medusa's script, which also converts the model; not all versions have `--dtype auto`."""
    assert recipe.speculative_weights, "heads without files passed the checks"
    flags = [("--dtype", _heads_dtype(recipe)), *_split(recipe)]
    if recipe.precision in WEIGHT_ONLY:
        flags += [("--use_weight_only", ""), ("--weight_only_precision", WEIGHT_ONLY[recipe.precision])]
    if isinstance(recipe.speculative, Medusa):
        flags += [("--num_medusa_heads", str(recipe.speculative.heads))]
        flags += [("--max_medusa_token_len", str(recipe.speculative.tokens))]
        flags += [("--model_type", "qwen2")] if recipe.family == "qwen" else []  # llama is its default
    if isinstance(recipe.speculative, Eagle):
        depth = _depth(recipe.speculative)
        flags += [("--max_draft_len", str(recipe.speculative.tokens)), ("--num_eagle_layers", str(depth))]
    return Making(
        stage="convert",
        program=f"{heads}/convert_checkpoint.py",
        script=heads_path(heads),
        flags=tuple(flags) + _workers(recipe),
        paths=(
            ("--model_dir", weights_path(recipe.weights)),
            (f"--{heads}_model_dir", weights_path(recipe.speculative_weights)),
            ("--output_dir", output),
        ),
    )


def _depth(eagle: Eagle) -> int:
    """Number of layers of the longest path of the tree; engine and request must agree on it."""
    return max(map(len, ast.literal_eval(eagle.choices))) if eagle.choices else EAGLE_LAYERS


def _heads_dtype(recipe: Recipe) -> str:
    return "bfloat16" if recipe.dtype == "auto" else recipe.dtype


def _redrafter(recipe: Recipe, output: str, model: tuple[str, str]) -> Making:
    assert isinstance(recipe.speculative, ReDrafter) and recipe.speculative_weights, (
        "ReDrafter without files passed the checks"
    )
    return Making(
        stage="heads" if model[0] == "--base_model_checkpoint_dir" else "convert",
        program="redrafter/convert_checkpoint.py",
        script=heads_path("redrafter"),
        flags=(
            ("--dtype", _heads_dtype(recipe)),
            ("--tp_size", str(recipe.layout.tensor)),
            ("--redrafter_num_beams", str(recipe.speculative.beams)),
            ("--redrafter_draft_len_per_beam", str(recipe.speculative.tokens)),
            *_workers(recipe),
        ),
        paths=(model, ("--drafter_model_dir", weights_path(recipe.speculative_weights)), ("--output_dir", output)),
    )


def _split(recipe: Recipe) -> Iterator[tuple[str, str]]:
    yield "--tp_size", str(recipe.layout.tensor)
    yield "--pp_size", str(recipe.layout.pipeline)


def _workers(recipe: Recipe) -> Pairs:
    return (("--workers", str(recipe.layout.world)),) if recipe.layout.world > 1 else ()
