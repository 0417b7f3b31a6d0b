"""Judges every number of a host by its range in the catalog, and names the probable slip."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from deploy.catalog.number_ranges import RANGES, Believable
from deploy.refusals import Refusal, refuse
from deploy.spec import LLM, Encoder


def number_problems(value: Any, where: str = "") -> Iterator[Refusal]:
    if isinstance(value, (tuple, list)):
        for number, item in enumerate(value):
            name = getattr(item, "name", getattr(item, "pool", None))
            yield from number_problems(item, f'{where}["{name}"]' if isinstance(name, str) else f"{where}[{number}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from number_problems(item, f'{where}["{key}"]')
    elif is_dataclass(value) and not isinstance(value, type):
        rows = RANGES.get(type(value).__name__, {})
        for field in fields(value):
            inside = getattr(value, field.name)
            place = f"{where}.{field.name}" if where else field.name
            if field.name == "checkpoint" and isinstance(value, (LLM, Encoder)) and value.source:
                continue  # numbers of published files, which no operator typed
            if field.name in rows:
                yield from _judged(inside, rows[field.name], place, field.name, field.default)
            yield from number_problems(inside, place)


def _judged(value: Any, row: Believable, where: str, field: str, default: object) -> Iterator[Refusal]:
    if isinstance(value, tuple):
        first = default[0] if isinstance(default, tuple) and default else None
        for number, item in enumerate(value):
            yield from _judged(item, row, f"{where}[{number}]", field, first)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _judged(item, row, f'{where}["{key}"]', field, None)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and not row.takes(value):
        slip, meant = row.slip_of(value)
        unit = row.unit.removesuffix("s") if value == 1 and row.unit != "ms" else row.unit
        text = f"{row.number(value)} {unit}".strip()
        if not slip and isinstance(default, (int, float)) and row.takes(default):
            meant = default
        meant = round(meant) if isinstance(default, int) else meant
        yield refuse(
            "unbelievable-number",
            f"`{where}` is {text}" + (f", which looks like {slip}" if slip else ", outside the accepted range"),
            where=where,
            seen=text,
            wanted=f"{row.words}: {row.reason}",
            attempt=_typed(meant) if where.endswith("]") else f"{field}={_typed(meant)}",
        )


def _typed(number: float) -> str:
    return f"{int(number)}" if number == int(number) else f"{number}"
