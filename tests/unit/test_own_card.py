"""A card outside the catalog is planned by the inventory's numbers, and the plan notes everything unproven."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deploy.inventory.fleet import Fleet
from deploy.planning.plan import Plan, make_plan
from deploy.reports.plan import plan_report
from deploy.spec import GPU, Machine, Parallel
from tests.unit.samples import AROUND, GPT_OSS, LLAMA, MACHINE, MAIN, RERANKER, main, refusals, sources
from tests.unit.test_report import printed

CARD = GPU(pci_id="10de:2b85", sm="120", mib=32_607)
"""The numbers of a GeForce RTX 5090."""
OWN = Machine(os="ubuntu-24.04", gpu="rtx-5090-32", card=CARD)


def planned(machine: Machine = OWN, *models: Any, **server: Any) -> Plan:
    """The plan of one host with this machine."""
    main = replace(MAIN, models=models or (GPT_OSS,), **server)
    return make_plan(Fleet.of(sources(machine=machine, servers=(main,))), AROUND)


def test_memory_is_planned_by_the_declared_mib() -> None:
    plan = planned()
    mine = plan.slices[0]
    assert (mine.pci_id, mine.sm, mine.gpu_mib, mine.machine.gpu) == ("10de:2b85", "120", 32_607, "rtx-5090-32")
    cache = mine.servers[0].models[0].memory.kv_cache_mib
    smaller = planned(replace(OWN, card=replace(CARD, mib=CARD.mib - 2000)))
    assert cache - smaller.slices[0].servers[0].models[0].memory.kv_cache_mib == pytest.approx(2000, abs=64)


def test_the_plan_lists_unproven_features_of_the_card() -> None:
    """It also notes that no NVLink is assumed unless declared."""
    (sentence,) = [text for text in planned().warnings if "10de:2b85" in text]
    assert "nothing here has run on it" in sentence and "without NVLink" in sentence
    pair = replace(OWN, gpus=2, card=replace(CARD, nvlink=True))
    model = replace(LLAMA, parallel=Parallel(tensor=2))
    warnings = planned(pair, model, gpus=(0, 1)).warnings
    assert any("with NVLink as declared" in text for text in warnings)
    assert not any("no NVLink joins" in text for text in warnings)


def test_the_report_and_the_digest_have_the_card() -> None:
    plan = planned()
    named = planned(replace(OWN, card=replace(CARD, smi="GeForce RTX 5090")))
    assert "1 x rtx-5090-32 (SM 120)" in printed(plan_report(plan))
    assert "1 x GeForce RTX 5090 (SM 120)" in printed(plan_report(named))
    assert named.digest != plan.digest


def test_a_card_of_the_catalog_leaves_no_trace_of_the_field() -> None:
    machine = make_plan(Fleet.of(sources()), AROUND).slices[0].to_json()["machine"]
    assert isinstance(machine, dict) and "card" not in machine


@pytest.mark.parametrize(
    ("machine", "place"),
    [
        (replace(OWN, gpu="h100-80"), "machine.gpu"),
        (replace(OWN, gpu="RTX 5090"), "machine.gpu"),
        (replace(OWN, gpu=""), "machine.gpu"),
        (replace(OWN, card=replace(CARD, pci_id="10DE:2B85")), "machine.card.pci_id"),
        (replace(OWN, card=replace(CARD, pci_id="1002:74a1")), "machine.card.pci_id"),
        (replace(OWN, card=replace(CARD, pci_id="10de:2330")), "machine.card.pci_id"),
        (replace(OWN, card=replace(CARD, sm="12.0")), "machine.card.sm"),
        (replace(OWN, card=replace(CARD, sm="70")), "machine.card.sm"),
        (replace(OWN, card=replace(CARD, sm="75")), "machine.card.sm"),
        (replace(OWN, card=replace(CARD, reserved_mib=16_000)), "machine.card.reserved_mib"),
        (replace(OWN, mig=("1g.5gb",)), "machine.mig"),
    ],
)
def test_a_wrong_card_is_refused_where_it_is_wrong(machine: Machine, place: str) -> None:
    problems = refusals(*sources(machine=machine, servers=(replace(MAIN, models=(GPT_OSS,)),)))
    assert [problem.facts["where"].split(": ")[-1] for problem in problems if problem.kind == "own-card"] == [place]
    assert all(problem.attempt for problem in problems)


def test_numbers_that_no_card_has_are_refused() -> None:
    """An example is GiB in the place of MiB."""
    problems = refusals(*sources(machine=replace(OWN, card=replace(CARD, mib=32, reserved_mib=0))))
    assert [problem.facts["where"].split(": ")[-1] for problem in problems] == ["machine.card.mib"]


def test_encoders_alone_run_on_turing() -> None:
    """On Turing an LLM is refused; a reranker in float16 is planned."""
    own = replace(OWN, gpu="t4g-16", card=replace(CARD, pci_id="10de:1eb4", sm="75", mib=15_360))
    for turing in (own, replace(MACHINE, gpu="t4-16")):
        assert planned(turing, replace(RERANKER, dtype="float16")).slices[0].sm == "75"
        problems = refusals(*sources(machine=turing, **main(GPT_OSS)))
        assert "gpt-oss-20b: no engine of an LLM here runs on SM 75" in [problem.problem for problem in problems]


def test_an_unknown_card_is_offered_a_declaration_of_its_numbers() -> None:
    (problem,) = refusals(*sources(machine=replace(MACHINE, gpu="rtx-5090-32")))
    assert "card=GPU(…)" in str(problem.facts["wanted"])


def test_a_card_in_the_place_of_its_name_is_offered_the_right_field() -> None:
    nameless: Any = CARD
    problem = next(iter(refusals(*sources(machine=replace(MACHINE, gpu=nameless)))))
    assert problem.kind == "wrong-type" and "card=GPU(…)" in problem.attempt
