"""An engine without a judgement: refused, reported if the inventory chooses it, unchanged if signed before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.planning.plan import Plan
from deploy.refusals.errors import Refusal
from deploy.reports.engines import engines_report
from deploy.spec import Replay
from deploy.spec.surroundings import EngineRecord
from tests.unit.engines import AROUND, PLAIN, engine_plan
from tests.unit.samples import LLAMA, main, plan

REASON = "our own evaluation judges every release"
CHOSEN = replace(PLAIN, replay=Replay.none(reason=REASON))
SILENT = replace(PLAIN, replay=None)


def record(made: Plan) -> EngineRecord:
    """The ledger's record after the plan's engine is signed."""
    (engine,) = made.engines
    return EngineRecord(
        model=engine.model,
        role=engine.role,
        name=engine.name,
        fingerprint=engine.fingerprint,
        fields=engine.fields,
        built_on="h100-01",
        built_at="2026-11-20",
    )


SIGNED = replace(AROUND, engines=(record(engine_plan(CHOSEN)),))


def test_the_choice_is_in_the_plan_and_its_json() -> None:
    """The reason is in the operator's words."""
    made = engine_plan(CHOSEN)
    assert f"llama: its engine is signed unjudged, by the inventory's choice: {REASON}" in made.warnings
    assert (made.engines[0].replay, made.engines[0].unjudged) == (None, REASON)
    assert REASON in str(made.to_json()["hosts"])


def test_the_choice_makes_no_other_engine() -> None:
    """Adding the reason does not build the engine again."""
    assert engine_plan(CHOSEN).engines[0].fingerprint == engine_plan(PLAIN).engines[0].fingerprint


def test_a_judged_engine_has_the_digest_it_had() -> None:
    """The plan's JSON has no `unjudged` unless the inventory chooses it."""
    assert "unjudged" not in str(engine_plan(PLAIN).to_json())


def test_an_engine_signed_before_is_planned_unchanged_and_noted() -> None:
    """A plain run updates a host of the version before."""
    made = engine_plan(SILENT, around=SIGNED)
    assert made.engines[0].fingerprint == SIGNED.engines[0].fingerprint
    assert made.warnings[-1] == (
        "llama: its engine was signed before and its answers were never compared; the next engine needs Replay(…) or "
        'Replay.none(reason="…")'
    )


def test_another_engine_than_the_one_signed_before_is_refused() -> None:
    """Changed limits are a new engine."""
    with pytest.raises(Refusal) as refused:
        engine_plan(replace(SILENT, max_batch_size=8), around=SIGNED)
    assert refused.value.kind == "unjudged-engine"


def test_on_the_pytorch_path_the_choice_says_nothing() -> None:
    """On the PyTorch path the checkpoint itself serves."""
    assert not [note for note in plan(**main(LLAMA)).warnings if "unjudged" in note]


def test_the_report_says_it_beside_the_engine() -> None:
    """The reason replaces the share of equal tokens."""
    facts = list(engines_report(engine_plan(CHOSEN).slices[0], {}))[1]
    assert f"signed unjudged, by choice: {REASON}" in [cell for column in facts.columns for cell in column.cells]
