"""The exact commands of one build, in the order they run inside the release's container.

Directories are put in last, because an engine's fingerprint contains no directory. Each command is one argv, never a
line for a shell. The build unit asks every program for its `--help` first and refuses flags that the program lacks.
"""

from collections.abc import Iterable

from deploy.catalog.flags import FlagTable, build_flags
from deploy.engine.build_flags import flags_of
from deploy.engine.checkpoint import makings
from deploy.engine.recipe import DRAFT, Recipe
from deploy.models.files import weights_path
from deploy.slices.host import BuildStep

BUILD = "trtllm-build"
SEVERAL = ("--lora_target_modules",)
"""Flags that take several words."""


def steps_of(recipe: Recipe, staging: str, calibration: str) -> tuple[BuildStep, ...]:
    """Every command that makes this engine under `staging`; `calibration` is the digest of the texts."""
    before = "draft-" if recipe.role == DRAFT else ""
    made = tuple(
        BuildStep(stage=before + making.stage, argv=("python3", making.script, *words((*making.paths, *making.flags))))
        for making in makings(recipe, f"{staging}/checkpoint", calibration)
    )
    return (*made, BuildStep(stage=before + "build", argv=(BUILD, *words(build_pairs(recipe, staging)))))


def build_pairs(recipe: Recipe, staging: str) -> tuple[tuple[str, str], ...]:
    """(exact name, value) of every flag of `trtllm-build`; an empty value is a switch."""
    checkpoint = weights_path(recipe.weights) if recipe.is_finished else f"{staging}/checkpoint"
    directories = (("--checkpoint_dir", checkpoint), ("--output_dir", f"{staging}/engine"))
    return (*directories, *flags_of(recipe))


def words(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The flags and values of `pairs` as words of a command."""
    argv: list[str] = []
    for name, value in pairs:
        argv += [name, *(value.split() if name in SEVERAL else [value] if value else [])]
    return tuple(argv)


def row_in_words(trtllm: str) -> str:
    """The catalog's row that the flags come from, and its confidence."""
    table: FlagTable = build_flags(trtllm)
    if table.is_exact:
        return f"flags of row {table.row}, read at TensorRT-LLM {trtllm} or right before the programs were removed"
    return (
        f"flags of row {table.row} ({table.confidence}): TensorRT-LLM {trtllm} itself was not read, so only flags on "
        "both sides of it are used, and the build asks trtllm-build --help first"
    )
