"""Every flag in a plan is in the facts: the packaged rows of the data, not the tables made of them."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from deploy.catalog.runtime_keys import RUNTIME_KEYS
from deploy.engine.scripts import HEAD_FLAGS
from deploy.models.speculation import drafted_tokens
from deploy.slices.host import BuildStep
from deploy.spec import LLM, Eagle, Engine, KVCache, Lookahead, Medusa, Parallel, ReDrafter
from tests.unit.engines import CALIBRATION, ELSEWHERE, FP8, MIXTRAL, PLAIN, engine, refusal
from tests.unit.test_engine_commands import CALIBRATED, FINISHED, SPECULATIONS

ROWS: dict[str, Any] = json.loads(pkgutil.get_data("deploy.catalog", "data/trtllm-flags.json") or b"")
SIDES = {
    "24.12": ("0.16.0",),
    "25.04": ("0.17.0.dev2024121700", "0.18-0.21", "1.2"),
    "25.10": ("0.18-0.21", "1.2"),
    "26.02": ("0.18-0.21", "1.2"),
    "26.07": ("1.2",),
}
"""The catalog's rows that surround each release."""

MODELS: dict[str, LLM] = {
    "fp8": FP8,
    "bfloat16": PLAIN,
    **{
        precision: replace(PLAIN, precision=precision, calibration=CALIBRATION)
        for precision in ("int8_sq", "int4_awq", "w4a8_awq")
    },
    "fp8_rowwise": replace(PLAIN, precision="fp8_rowwise", calibration=CALIBRATION),
    "int8_wo": replace(PLAIN, precision="int8_wo"),
    "int8_cache": replace(PLAIN, kv_cache=KVCache(dtype="int8"), calibration=CALIBRATION),
    **{name: replace(PLAIN, speculative=speculation, max_batch_size=8) for name, speculation in SPECULATIONS.items()},
}
CASES = [("24.12", "finished"), *((release, name) for release in list(SIDES)[1:] for name in MODELS)]
CASES.remove(("25.04", "lookahead"))  # its backend cannot be told the sizes


def words(step: BuildStep) -> Iterator[tuple[str, list[str]]]:
    """Each flag of a command with its values."""
    flags: list[tuple[str, list[str]]] = []
    for word in step.argv:
        if word.startswith("--"):
            flags.append((word, []))
        elif flags:
            flags[-1][1].append(word)
    yield from flags


def facts_of(step: BuildStep, release: str) -> list[dict[str, Any]]:
    """The raw rows that apply to a command."""
    program = step.argv[0] if step.argv[0] == "trtllm-build" else step.argv[1]
    if program == "trtllm-build":
        return [ROWS[row] for row in SIDES[release]]
    if program.endswith("quantize.py"):
        rows = ROWS["_quantize.py"]
        return [rows[row] for row in ("0.17.0.dev2024121700", "1.2") if row == "1.2" or release != "26.07"]
    return [ROWS["_convert_checkpoint"][program.split("/")[-2]]["0.17.0.dev2024121700"]]


def is_of_heads(step: BuildStep) -> bool:
    """True if the facts have no row for this script."""
    return step.argv[0] == "python3" and step.argv[1].split("/")[-2] in HEAD_FLAGS


@pytest.mark.parametrize(("release", "name"), CASES)
def test_every_flag_and_choice_is_in_the_facts_of(release: str, name: str) -> None:
    """By exact name, in every row on both sides, with a value among the choices; a switch has none."""
    model = FINISHED if name == "finished" else MODELS[name]
    for step in engine(model, release=release).steps:
        for row in [] if is_of_heads(step) else facts_of(step, release):
            for flag, values in words(step):
                assert flag in row, f"{step.argv[:2]} {flag}"
                assert bool(values) != (row[flag]["type"] == "flag"), flag
                choices = row[flag]["choices"]
                assert not choices or set(values) <= {str(choice) for choice in choices}, f"{flag} {values}"


@pytest.mark.parametrize("name", ["medusa", "eagle", "redrafter"])
def test_every_flag_of_the_heads_scripts_was_read(name: str) -> None:
    """The facts have no rows for these scripts; known flags are listed beside their source."""
    steps = [step for step in engine(MODELS[name]).steps if is_of_heads(step)]
    assert {flag for step in steps for flag, _ in words(step)} <= set(HEAD_FLAGS[name])


@pytest.mark.parametrize("name", MODELS)
def test_no_run_time_setting_is_built_into_an_engine(name: str) -> None:
    """The only shared name is the widest beam, a limit of both the engine and the backend."""
    flags = {flag.removeprefix("--") for flag, _ in engine(MODELS[name]).flags}
    assert flags & set(RUNTIME_KEYS) == {"max_beam_width"}


@pytest.mark.parametrize(
    ("speculative", "tokens"),
    [
        (Lookahead(window=7, ngram=7, verification=7), 83),
        (Lookahead(window=4, ngram=3, verification=4), 15),
        (Lookahead(window=2, ngram=1, verification=2), 0),
        (ReDrafter(weights=ELSEWHERE, beams=5, tokens=5), 25),
        (Medusa(weights=ELSEWHERE), 63),
        (None, 0),
    ],
)
def test_the_draft_length_of(speculative: Any, tokens: int) -> None:
    """The lengths are calculated by hand; 83 is TensorRT-LLM's own example."""
    assert drafted_tokens(speculative) == tokens


@pytest.mark.parametrize(
    ("model", "release", "problem"),
    [
        (
            replace(PLAIN, precision="fp8", calibration=CALIBRATION, speculative=Eagle(weights=ELSEWHERE)),
            "26.07",
            "llama: nothing of TensorRT-LLM 1.2.1 puts Eagle heads on fp8 weights with a bfloat16 cache",
        ),
        (
            replace(FP8, speculative=ReDrafter(weights=ELSEWHERE)),
            "25.04",
            "llama: nothing of TensorRT-LLM 0.18.2 puts ReDrafter heads on fp8 weights with a fp8 cache",
        ),
        (
            replace(PLAIN, engine=Engine(options={"multiple_profiles": "enable", "opt_num_tokens": 8})),
            "26.07",
            "llama: `multiple_profiles` and `opt_num_tokens` exclude each other; the build stops on them",
        ),
        (
            replace(PLAIN, engine=Engine(options={"strip_plan": True})),
            "26.07",
            "llama: `strip_plan` is not for engines that are planned: an engine without weights cannot be loaded",
        ),
    ],
)
def test_a_model_without_a_build_command_is_refused(model: LLM, release: str, problem: str) -> None:
    """The refusal comes before any download."""
    assert refusal(replace(model, max_batch_size=8), release=release).splitlines()[0] == problem


def test_a_format_only_one_side_of_a_release_has_is_not_written() -> None:
    """quantize.py of 1.2 has fp8_pc_pt, 0.17 does not, and 1.0 is between them; llama's own script has a switch."""
    model = replace(PLAIN, precision="fp8_rowwise", calibration=CALIBRATION)
    assert "--use_fp8_rowwise" in engine(model, release="25.10").steps[0].argv


def test_experts_are_not_split_by_quantize() -> None:
    """quantize.py has no --moe_ep_size."""
    model = replace(FP8, checkpoint=MIXTRAL, weights=ELSEWHERE, parallel=Parallel(tensor=1, expert=1))
    assert "--moe_ep_size" not in engine(model, gpu="h200-141").steps[0].argv


def test_all_calibrated_precisions_read_the_texts_of_the_inventory() -> None:
    """The digest of the texts names the directory on the host; the sample count is the inventory's."""
    models = [
        replace(PLAIN, precision=precision, calibration=CALIBRATION) for precision in CALIBRATED if precision != "nvfp4"
    ]
    lines = [engine(model).steps[0].line for model in models]
    assert all("--calib_dataset /var/lib/enginehouse/calibration/c0ffee00c0ffee00" in line for line in lines)
