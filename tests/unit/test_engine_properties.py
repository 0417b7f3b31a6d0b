"""Any LLM of an inventory is refused in words, or every word of its build commands is in the catalog."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.catalog.flags import BUILD, build_flags, convert_flags, quantize_flags
from deploy.engine.scripts import HEAD_FLAGS
from deploy.planning.plan import Plan
from deploy.refusals.errors import Refusal
from deploy.slices.host import BuildStep
from deploy.spec import LLM, Adapter, Engine, KVCache, LoRA, Parallel, Precision
from tests.unit.engines import CALIBRATION, ELSEWHERE, MIXTRAL, PLAIN, SMALL, engine_plan
from tests.unit.test_engine_commands import SPECULATIONS

SHAPES = (
    PLAIN.checkpoint,
    MIXTRAL,
    SMALL,
    *(replace(SMALL, architecture=name) for name in ("Qwen2ForCausalLM", "Gemma2ForCausalLM", "GPT2LMHeadModel")),
    replace(SMALL, quantisation="gptq"),
    replace(SMALL, quantisation="fp8"),
)
LORA = LoRA(adapters=(Adapter(name="sql", task_id=1, weights=ELSEWHERE),))

MODELS = st.builds(
    replace,
    st.just(PLAIN),
    checkpoint=st.sampled_from(SHAPES),
    precision=st.sampled_from(get_args(Precision)),
    calibration=st.sampled_from([CALIBRATION, None]),
    kv_cache=st.builds(KVCache, dtype=st.sampled_from(["auto", "fp8", "int8"])),
    parallel=st.builds(
        Parallel, tensor=st.just(0), pipeline=st.sampled_from([1, 2]), expert=st.sampled_from([0, 1, 2])
    ),
    speculative=st.sampled_from([*SPECULATIONS.values(), None, None, None, None]),
    lora=st.sampled_from([LORA, None, None]),
    engine=st.builds(Engine, checkpoint=st.sampled_from(["hub", "hub", "trtllm"]), generation_logits=st.booleans()),
    max_batch_size=st.just(8),
)
RELEASES = st.sampled_from(["24.12", "25.04", "25.10", "26.02", "26.07"])


def certain_of(step: BuildStep, trtllm: str) -> set[str]:
    """Flags that a command's program certainly has."""
    if step.argv[0] == BUILD:
        return set(build_flags(trtllm).certain)
    *_, family, program = step.argv[1].split("/")
    if program == "quantize.py":
        return set(quantize_flags(trtllm).certain)
    return set(HEAD_FLAGS[family]) if family in HEAD_FLAGS else set(convert_flags(trtllm, family).certain)


def planned(model: LLM, release: str, gpus: int) -> Plan | None:
    """The plan, or None if it was refused in words."""
    try:
        return engine_plan(model, release=release, gpus=gpus)
    except Refusal as refused:
        assert str(refused)
        return None


@settings(deadline=None, max_examples=300)
@given(MODELS, RELEASES, st.sampled_from([1, 2, 4]))
def test_a_plan_uses_only_flags_known_for_certain(model: LLM, release: str, gpus: int) -> None:
    """A plan has only names of exactly this release, and one engine for each model, the draft's after the target's."""
    made = planned(model, release, gpus)
    for engine in made.engines if made else ():
        trtllm = str(engine.fields["trtllm"])
        for step in engine.steps:
            assert {word for word in step.argv if word.startswith("--")} <= certain_of(step, trtllm)


@settings(deadline=None, max_examples=60)
@given(MODELS, RELEASES)
def test_equal_words_give_equal_engines(model: LLM, release: str) -> None:
    """The plans of the engines are equal byte for byte."""
    first, second = (planned(replace(model), release, 2) for _ in range(2))
    assert (first and first.to_json()) == (second and second.to_json())
