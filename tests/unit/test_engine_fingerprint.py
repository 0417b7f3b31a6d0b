"""Engine fingerprints: equal fields, equal fingerprint; and the plan's reason for a rebuild."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given as given_
from hypothesis import settings
from hypothesis import strategies as st

from deploy.engine.changes import why_built
from deploy.engine.fingerprint import fingerprint
from deploy.slices.host import EngineSlice
from deploy.spec import Adapter, Draft, KVCache, LoRA, Machine, Release, Replay, Weights
from deploy.spec.surroundings import EngineRecord
from tests.unit import samples
from tests.unit.engines import AROUND, CALIBRATION, ELSEWHERE, FP8, SMALL, TRUST, engine, engine_plan

LORA = LoRA(adapters=(Adapter(name="sql", task_id=1, weights=ELSEWHERE),))
FULL = engine(replace(FP8, speculative=Draft(checkpoint=SMALL, weights=ELSEWHERE), lora=LORA)).fields
"""Fields with something in every place."""

Path = tuple[Any, ...]


def places(value: Any, before: Path = ()) -> Iterator[Path]:
    """The path of every leaf."""
    if isinstance(value, dict | list):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in inside:
            yield from places(child, (*before, key))
    else:
        yield before


def changed(path: Path, value: Any) -> dict[str, Any]:
    """The full fields with one leaf replaced."""
    fields: dict[str, Any] = copy.deepcopy(FULL)
    inside: Any = fields
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return fields


LEAVES = list(places(FULL))
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=20)


@settings(deadline=None)
@given_(st.sampled_from(LEAVES), VALUES)
def test_changing_any_one_field_changes_the_fingerprint(path: Path, value: Any) -> None:
    """Any field and any value count, provided that its JSON differs."""
    fields = changed(path, value)
    same = json.dumps(fields, sort_keys=True) == json.dumps(FULL, sort_keys=True)
    assert (fingerprint(fields) == fingerprint(FULL)) == same


@settings(deadline=None)
@given_(st.randoms(use_true_random=False), st.sampled_from([None, 1, 4]))
def test_order_and_formatting_change_no_fingerprint(random: Any, indent: int | None) -> None:
    """Keys may be in any order, read from any layout."""
    keys = list(FULL)
    random.shuffle(keys)
    again = json.loads(json.dumps({key: FULL[key] for key in keys}, indent=indent))
    assert fingerprint(again) == fingerprint(FULL)


ORIGINAL = engine(FP8)
CHANGES: dict[str, Any] = {
    "weights": replace(FP8, weights=replace(FP8.weights, revision="e" * 40)),
    "precision": replace(FP8, precision="int8_wo"),
    "cache": replace(FP8, kv_cache=KVCache()),
    "samples": replace(FP8, calibration=replace(CALIBRATION, samples=256)),
    "batch": replace(FP8, max_batch_size=8),
    "sequence": replace(FP8, max_seq_len=4096),
    "iteration": replace(FP8, max_num_tokens=16_384),
    "input": replace(FP8, engine=replace(FP8.engine, max_input_len=1000)),
    "logits": replace(FP8, engine=replace(FP8.engine, generation_logits=True)),
    "options": replace(FP8, engine=replace(FP8.engine, options={"reduce_fusion": "enable"})),
    "adapters": replace(FP8, lora=LORA),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_the_inventory_that_an_engine_depends_on_is_another_engine(name: str) -> None:
    """Each field is changed alone."""
    assert engine(CHANGES[name]).fingerprint != ORIGINAL.fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu": "l40s-48"},
        {"release": "26.02"},
        {"image_digest": f"sha256:{'a' * 64}"},
        {"release": Release(name="mine", derived_from="26.07", image="registry.example/triton:26.07")},
        {"around": replace(AROUND, calibrations={CALIBRATION.directory: "deadbeefdeadbeef"})},
    ],
)
def test_another_sm_release_image_or_calibration_text_is_another_engine(changes: dict[str, Any]) -> None:
    """Each of the four is changed alone."""
    assert engine(FP8, **changes).fingerprint != ORIGINAL.fingerprint


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        (replace(FP8, name="another-name"), {}),
        (replace(FP8, kv_cache=KVCache(dtype="fp8", tokens=65_536)), {}),
        (replace(FP8, replay=Replay(prompts="other.jsonl")), {}),
        (replace(FP8, scheduler="max_utilization", guided_decoding=True), {}),
        (replace(FP8, weights=Weights.hub(FP8.weights.repository, FP8.weights.revision, fetch_on="control")), {}),
        (FP8, {"gpu": "h200-141"}),
    ],
)
def test_names_run_time_and_the_cards_memory_make_no_other_engine(model: Any, changes: dict[str, Any]) -> None:
    """Names, run-time settings and memory are not compiled into the engine."""
    assert engine(model, **changes).fingerprint == ORIGINAL.fingerprint


def test_a_further_adapter_of_the_same_modules_needs_no_rebuild() -> None:
    """Modules and rank are compiled in, adapters are not."""
    more = replace(LORA, adapters=(*LORA.adapters, Adapter(name="law", task_id=2, weights=ELSEWHERE)))
    assert engine(replace(FP8, lora=more)).fingerprint == engine(replace(FP8, lora=LORA)).fingerprint


def test_equal_inventories_give_equal_bytes() -> None:
    """The whole plan is compared, engines included."""
    plans = [json.dumps(engine_plan(FP8).to_json(), sort_keys=True) for _ in range(2)]
    assert plans[0] == plans[1]


def test_no_path_and_no_host_name_is_in_the_fields() -> None:
    """Without paths and host names, two hosts can share an engine."""
    text = json.dumps(FULL)
    assert "/var/lib" not in text and "h100-01" not in text and "/app/" not in text


def test_an_engines_store_name_has_model_precision_and_gpu() -> None:
    """Model, precision and cache, parallelism, release, SM, fingerprint."""
    assert ORIGINAL.name == (f"llama-3.1-8b-instruct.fp8-kv-fp8.tp1-pp1.trtllm-1.2.1.sm90.{ORIGINAL.fingerprint}")


def record(made: EngineSlice, **changes: Any) -> EngineRecord:
    """The ledger's record of an engine built on another day."""
    kept = EngineRecord(
        model=made.model,
        role=made.role,
        name=made.name,
        fingerprint=made.fingerprint,
        fields=made.fields,
        built_on="h100-02",
        built_at="2026-11-20T08:30:00Z",
    )
    return replace(kept, **changes)


def test_an_engine_never_built_is_new() -> None:
    """Without a record of its model there is nothing to compare."""
    assert why_built(ORIGINAL, [record(ORIGINAL, model="other", fingerprint="0" * 16)]) == "new"


def test_an_engine_of_the_ledger_is_known() -> None:
    """The fingerprint decides, whatever the model's name in the ledger."""
    assert why_built(ORIGINAL, [record(ORIGINAL, model="other")]) == "known: built 2026-11-20 on h100-02"


def test_a_rebuild_says_what_changed() -> None:
    """The comparison is with the nearest engine of the same model."""
    far = record(engine(replace(FP8, max_batch_size=8, max_seq_len=4096)))
    near = record(engine(replace(FP8, max_batch_size=32)))
    assert why_built(ORIGINAL, [far, near]) == "rebuild: max_batch_size 32 → 16"


def test_a_rebuild_for_another_release_names_image_and_version() -> None:
    """The note lists all differences, by names for people."""
    assert why_built(ORIGINAL, [record(engine(FP8, release="26.02"))]) == (
        "rebuild: image reference nvcr.io/nvidia/tritonserver:26.02-trtllm-python-py3 → "
        "nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3; trtllm 1.1.0 → 1.2.1"
    )


def test_the_plan_says_why_each_engine_is_built() -> None:
    """The reason is in its JSON, beside the commands in the form that a person types."""
    around = replace(AROUND, engines=(record(engine(replace(FP8, max_batch_size=32))),))
    engines = engine_plan(FP8, around=around).to_json()["engines"]
    assert isinstance(engines, list)
    assert engines[0]["change"] == "rebuild: max_batch_size 32 → 16"
    assert engines[0]["commands"][-1].startswith("trtllm-build --checkpoint_dir /var/lib/enginehouse/engines/llama/.")


def test_a_farm_host_builds_what_its_card_can_build() -> None:
    """Every engine of the inventory for the same card and image, once, with its weights."""
    hosts = samples.sources("h100-01", "h100-02", **samples.main(FP8), engine_trust=TRUST)
    farm = samples.Source("farm-01", {**hosts[0].data, "servers": (), "farm": True})
    other_card = samples.Source("l40s-01", {**hosts[0].data, "machine": Machine(os="ubuntu-24.04", gpu="l40s-48")})
    mine = samples.plan(*hosts, farm, other_card, around=AROUND).for_host("farm-01")
    assert [built.fingerprint for built in mine.engines] == [ORIGINAL.fingerprint]
    assert [files.model for files in mine.weights] == ["llama"]
