"""Annotations of the spec accept whole numbers for percentages, and never True for a number."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import pytest

from deploy import spec
from deploy.inventory.types import mistyped
from deploy.spec import Replay
from tests.unit.samples import plan, sources
from tests.unit.wrong_llm import engine

CLASSES = [class_ for class_ in vars(spec).values() if isinstance(class_, type) and is_dataclass(class_)]
FLOATS = [
    (class_, field.name)
    for class_ in CLASSES
    for field in fields(class_)
    if get_type_hints(class_)[field.name] in (float, float | None)
]


def wrong(value: object, hint: Any) -> list[str]:
    """The kinds of refusal of a value."""
    return [refusal.kind for refusal in mistyped(value, hint, "here")]


@pytest.mark.parametrize(("owner", "name"), FLOATS, ids=[f"{owner.__name__}.{name}" for owner, name in FLOATS])
def test_every_field_with_a_fraction_takes_a_whole_number(owner: type, name: str) -> None:
    """A field of type float takes 95 as 95.0."""
    assert wrong(95, get_type_hints(owner)[name]) == []


def test_the_documented_fields_exist() -> None:
    """Without these fields, the test above would test nothing."""
    assert {name for _, name in FLOATS} >= {"equal_percent", "minimum_percent"}


def test_a_truth_is_no_number() -> None:
    """Python would take True for 1."""
    assert (wrong(True, float), wrong(True, int), wrong(True, float | None)) == (["wrong-type"],) * 3


def test_a_fraction_is_no_whole_number() -> None:
    """The reverse conversion is refused."""
    assert wrong(0.5, int) == ["wrong-type"]


def test_a_whole_percentage_and_its_fraction_are_one_plan() -> None:
    """The digest of a host must not depend on the spelling of a number."""
    whole, fraction = (
        plan(*sources("h100-01", **engine(replay=Replay(prompts="p.jsonl", answers="a.jsonl", equal_percent=number))))
        for number in (95, 95.0)
    )
    assert str(whole.to_json()) == str(fraction.to_json())
