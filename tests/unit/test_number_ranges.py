"""Every number of an inventory has a unit and a plausible range."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest
from pyinfra.api.arguments import all_argument_meta
from pyinfra.connectors.ssh import ConnectorData

from deploy import spec
from deploy.catalog import CHECKPOINTS
from deploy.catalog.connection_keys import OPERATION_KEYS, SSH_KEYS
from deploy.catalog.number_ranges import RANGES, Believable, shown
from deploy.spec import Host, Replay, Rollout
from deploy.validation.numbers import number_problems
from tests.unit.samples import EMBEDDER, GPT_OSS, LLAMA, MACHINE, ONE_B, RERANKER, main

CLASSES = [class_ for class_ in vars(spec).values() if isinstance(class_, type) and is_dataclass(class_)]


def is_numeric(hint: Any) -> bool:
    """True for a number, an optional one, and a tuple or dictionary of numbers."""
    return hint in (int, float) or any(map(is_numeric, get_args(hint)))


def numeric_fields() -> Iterator[tuple[type, Field[Any]]]:
    """Every field of the spec that holds numbers."""
    for class_ in CLASSES:
        hints = get_type_hints(class_)
        yield from ((class_, field) for field in fields(class_) if is_numeric(hints[field.name]))


FIELDS = list(numeric_fields())
EACH = pytest.mark.parametrize(("owner", "field"), FIELDS, ids=[f"{owner.__name__}.{f.name}" for owner, f in FIELDS])


@EACH
def test_every_numeric_field_of_the_spec_has_a_range_and_a_unit(owner: type, field: Field[Any]) -> None:
    """Only ports, ids and verbosities have no unit."""
    row = RANGES[owner.__name__][field.name]
    assert row.least < row.most
    assert row.reason
    assert row.unit or any(word in field.name for word in ("port", "gpus", "_id", "max_rank", "verbose"))


@EACH
def test_every_default_is_in_its_range(owner: type, field: Field[Any]) -> None:
    """An inventory is never refused for a number that it omits."""
    value = field.default if field.default is not MISSING else None
    numbers = value if isinstance(value, tuple) else (value,)
    assert all(
        RANGES[owner.__name__][field.name].takes(number) for number in numbers if isinstance(number, int | float)
    )


@EACH
@pytest.mark.parametrize("number", [-1, 10**17, float("nan"), float("inf"), -float("inf")])
def test_no_range_accepts_a_value_that_is_not_a_number(owner: type, field: Field[Any], number: float) -> None:
    assert not RANGES[owner.__name__][field.name].takes(number)


def test_no_range_is_of_a_field_that_is_gone() -> None:
    numeric = {(owner.__name__, field.name) for owner, field in FIELDS}
    assert {(owner, name) for owner, rows in RANGES.items() for name in rows} == numeric


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_every_checkpoint_of_the_catalog_is_believed(name: str) -> None:
    """The largest and smallest known models are in the ranges."""
    assert list(number_problems(CHECKPOINTS[name].shape)) == []


@pytest.mark.parametrize(
    ("value", "row", "slip", "meant"),
    [
        (0.9, RANGES["Replay"]["equal_percent"], "a fraction", 90),
        (512, RANGES["Machine"]["memory_mib"], "GiB", 524_288),
        (2 * 2**40, RANGES["Machine"]["disk_mib"], "bytes", 2_097_152),
        (4 * 2**30, RANGES["Machine"]["disk_mib"], "KiB", 4_194_304),
        (300_000, RANGES["Rollout"]["bake_seconds"], "milliseconds", 300),
        (100_000, RANGES["LLM"]["cancellation_check_period_ms"], "microseconds", 100),
        (8, RANGES["Checkpoint"]["parameters"], "billions", 8e9),
        (0.6, RANGES["Checkpoint"]["parameters"], "billions", 6e8),
        (99, RANGES["Machine"]["gpus"], "", 16),
        (-5, RANGES["Machine"]["gpus"], "", 1),
    ],
)
def test_a_number_in_another_unit_is_named_and_converted(
    value: float, row: Believable, slip: str, meant: float
) -> None:
    assert row.slip_of(value) == (slip, meant)
    assert row.takes(meant)


def test_the_number_that_is_offered_is_taken() -> None:
    """For every field, the value after `try` is in the range."""
    for rows in RANGES.values():
        for row in rows.values():
            for value in (-1, 0.5, 10**12, 10**17, 1e300):
                assert row.takes(value) or row.takes(row.slip_of(value)[1])


def test_accepted_hosts_have_no_number_out_of_range() -> None:
    data = main(RERANKER, EMBEDDER, GPT_OSS, LLAMA)
    host = Host(name="h", machine=MACHINE, **data)
    assert [
        *number_problems(host),
        *number_problems(Rollout()),
        *number_problems(ONE_B),
        *number_problems(Replay()),
    ] == []


@pytest.mark.parametrize(
    ("number", "text"),
    [(8192, "8,192"), (0.95, "0.95"), (2.0, "2"), (10**400, "a number of 1,329 bits"), (1e300, "1e+300")],
)
def test_a_number_is_written_for_a_person(number: float, text: str) -> None:
    """The text also exists for numbers with more digits than Python prints."""
    assert shown(number) == text
    assert json.dumps(text)


def test_the_keys_of_pyinfra_are_those_of_the_installed_version() -> None:
    """A new or removed key fails here, and not on a host."""
    assert set(SSH_KEYS) == set(ConnectorData.__annotations__)
    assert {key for key in all_argument_meta if key != "name"} <= set(OPERATION_KEYS)
