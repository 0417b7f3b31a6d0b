"""The commands of a build, whole: one model on every release, and every precision and speculation on the newest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.spec import (
    LLM,
    Adapter,
    Draft,
    Eagle,
    Engine,
    KVCache,
    Lookahead,
    LoRA,
    Medusa,
    Parallel,
    Precision,
    ReDrafter,
    Speculative,
    Weights,
)
from tests.unit.engines import CALIBRATION, ELSEWHERE, FP8, MIXTRAL, PLAIN, SMALL, commands, engine, refusal
from tests.unit.golden import same_as_golden

CALIBRATED = ("fp8", "fp8_rowwise", "int8_sq", "int4_awq", "w4a8_awq", "nvfp4")
SPECULATIONS: dict[str, Speculative] = {
    "draft": Draft(checkpoint=SMALL, weights=ELSEWHERE),
    "medusa": Medusa(weights=ELSEWHERE),
    "eagle": Eagle(weights=ELSEWHERE),
    "lookahead": Lookahead(),
    "redrafter": ReDrafter(weights=ELSEWHERE),
}
FINISHED = replace(FP8, calibration=None, engine=Engine(checkpoint="trtllm"), weights=Weights.hub("a/b", "d" * 40))


@pytest.mark.parametrize("release", ["25.04", "25.10", "26.02", "26.07"])
def test_one_model_is_built_with_these_commands_on(release: str) -> None:
    """Llama-3.1-8B-Instruct with fp8 weights and cache; the file has the commands for that release."""
    same_as_golden(f"engines/llama-fp8.{release}.txt", commands(FP8, release=release))


def test_a_finished_checkpoint_is_only_built_on_an_image_without_scripts() -> None:
    """The image of 24.12 has no convert scripts, so there is one command."""
    same_as_golden("engines/llama-finished.24.12.txt", commands(FINISHED, release="24.12"))


def test_published_weights_are_refused_on_an_image_without_scripts() -> None:
    """The refusal has the reason and an alternative."""
    same_as_golden("engines/llama-fp8.24.12.refusal.txt", refusal(FP8, release="24.12") + "\n")


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "int8_wo", "int4_wo", *CALIBRATED])
def test_every_precision_is_made_by_these_commands(precision: Precision) -> None:
    """The release is 26.07; NVFP4 on a B200, everything else on an H100."""
    model = replace(PLAIN, precision=precision, calibration=CALIBRATION if precision in CALIBRATED else None)
    gpu = "b200-180" if precision == "nvfp4" else "h100-80"
    same_as_golden(f"engines/precision.{precision}.txt", commands(model, gpu=gpu))


def test_published_gptq_weights_are_converted_by_these_commands() -> None:
    """The checkpoint has the scales, so no calibration runs."""
    gptq = replace(PLAIN, checkpoint=replace(SMALL, quantisation="gptq"), weights=ELSEWHERE)
    same_as_golden("engines/precision.int4_gptq.txt", commands(gptq))


@pytest.mark.parametrize("name", SPECULATIONS)
def test_every_speculation_is_built_with_these_commands(name: str) -> None:
    """On 26.07, in 16 bit; a draft model is a separate engine."""
    model = replace(PLAIN, speculative=SPECULATIONS[name], max_batch_size=8)
    same_as_golden(f"engines/speculation.{name}.txt", commands(model))


@pytest.mark.parametrize("name", ["draft", "medusa", "lookahead", "redrafter"])
def test_speculation_goes_with_fp8_by_these_commands(name: str) -> None:
    """The target is quantised first; a draft is made like its target."""
    model = replace(FP8, speculative=SPECULATIONS[name], max_batch_size=8)
    same_as_golden(f"engines/speculation.{name}.fp8.txt", commands(model))


def test_redrafter_of_an_older_release_reads_the_published_model() -> None:
    """`--base_model_checkpoint_dir` is new after 0.18."""
    model = replace(PLAIN, speculative=SPECULATIONS["redrafter"], max_batch_size=8)
    same_as_golden("engines/speculation.redrafter.25.04.txt", commands(model, release="25.04"))


def test_experts_and_ranks_are_split_by_the_convert_script() -> None:
    """Mixtral on four GPUs, experts in two halves: moe_tp x moe_ep = tp; trtllm-build gets none of it."""
    model = replace(PLAIN, checkpoint=MIXTRAL, weights=ELSEWHERE, parallel=Parallel(tensor=4, expert=2))
    same_as_golden("engines/mixtral.ep.txt", commands(model, gpus=4))


def test_a_pipeline_is_split_by_the_convert_script() -> None:
    """The engine has two stages of two GPUs each."""
    model = replace(PLAIN, parallel=Parallel(tensor=2, pipeline=2))
    same_as_golden("engines/llama.tp2-pp2.txt", commands(model, gpus=4))


def test_adapters_logits_beams_and_options_are_built_in_by_these_flags() -> None:
    """The adapters themselves are not built in: another adapter needs no rebuild."""
    lora = LoRA(adapters=(Adapter(name="sql", task_id=1, weights=ELSEWHERE),), max_rank=32)
    compiled = Engine(
        max_input_len=4096, context_logits=True, generation_logits=True, options={"reduce_fusion": "enable"}
    )
    same_as_golden(
        "engines/llama.lora-logits.txt", commands(replace(PLAIN, precision="float16", lora=lora, engine=compiled))
    )


def test_the_16_bit_part_of_an_engine_has_the_type_of_its_adapters() -> None:
    """With adapters, the unquantised tensors have the adapters' type; without adapters, the checkpoint's."""
    lora = LoRA(adapters=(Adapter(name="sql", task_id=1, weights=ELSEWHERE),))
    assert [typed(FP8), typed(replace(FP8, lora=lora))] == ["auto", "float16"]


def typed(model: LLM) -> str:
    """The `--dtype` of the command that makes the checkpoint."""
    argv = engine(model).steps[0].argv
    return argv[argv.index("--dtype") + 1]


def test_an_int8_cache_is_never_read_in_pages() -> None:
    """TensorRT-LLM: "Paged Context FMHA doesn't work with int8 kv cache"."""
    model = replace(PLAIN, kv_cache=KVCache(dtype="int8"), calibration=CALIBRATION)
    assert dict(engine(model).flags)["--use_paged_context_fmha"] == "disable"


def test_an_option_of_the_inventory_takes_the_place_of_the_plans_own_flag() -> None:
    """A plugin may be turned off."""
    model = replace(FP8, engine=Engine(options={"gemm_plugin": "disable"}))
    assert dict(engine(model).flags)["--gemm_plugin"] == "disable"


def test_the_prompt_may_be_as_long_as_the_sequence_allows() -> None:
    """The sequence has 8,192 tokens, of which at least one is an answer."""
    assert dict(engine(PLAIN).flags)["--max_input_len"] == "8191"


def test_the_depth_of_eagles_tree_is_the_engines_number_of_layers() -> None:
    """`[[0], [0, 0]]` is two deep."""
    model = replace(PLAIN, speculative=Eagle(weights=ELSEWHERE, choices="[[0], [0, 0]]"), max_batch_size=8)
    assert "--num_eagle_layers 2" in engine(model).steps[0].line
