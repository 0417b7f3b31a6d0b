"""Judges every number of a host by its range in the catalog, and names the probable slip."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from deploy.catalog.believable import RANGES, Believable
from deploy.refusals.errors import Refusal
from deploy.refusals.refuse import refuse
from deploy.spec import LLM, Encoder

MIB_PER_GIB = 1024
BYTES_PER_MIB = 2**20


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
                continue  # numbers of published files, which nobody typed
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
        slip, meant = slip_of(value, row)
        text = f"{row.number(value)} {row.unit}".strip()
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


def slip_of(value: float, row: Believable) -> tuple[str, float]:
    """The unit in which a number out of range was probably typed, and the number in the field's own unit.

    Without a likely slip, the number is the nearer end of the range.
    """
    candidates: list[tuple[str, float]] = []
    if row.unit == "percent" and 0 < value <= 1:
        candidates.append(("a fraction", value * 100))
    if row.unit == "MiB" and 0 < value < row.least:
        candidates.append(("GiB", value * MIB_PER_GIB))
    if row.unit == "MiB" and value > row.most:
        candidates += [("KiB", value / MIB_PER_GIB), ("bytes", value / BYTES_PER_MIB)]
    if row.unit in ("seconds", "ms") and value > row.most:
        candidates.append(("milliseconds" if row.unit == "seconds" else "microseconds", value / 1000))
    if row.unit == "Gbit/s" and value > row.most:
        candidates += [("Mbit/s", value / 1000), ("bit/s", value / 1e9)]
    if row.unit == "parameters" and 0 < value < row.least:
        candidates += [("billions", value * 1e9), ("millions", value * 1e6)]
    if row.unit == "for a million tokens" and 0 < value < row.least:
        candidates.append(("the price of one token", round(value * 1e6, 6)))
    for words, meant in candidates:
        if row.least <= meant <= row.most:
            return words, int(meant) if meant == int(meant) or meant > 1000 else round(meant, 2)
    return "", row.most if value > row.most else row.least


def _typed(number: float) -> str:
    return f"{int(number)}" if number == int(number) else f"{number}"
