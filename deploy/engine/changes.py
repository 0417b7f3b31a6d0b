"""The comparison of a planned engine with those built before: known, new, or the reason for a rebuild."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deploy.slices.host import EngineSlice
from deploy.spec.surroundings import EngineRecord

MISSING = "none"
HEADINGS = ("shapes.", "flags.--", "parallel.")
"""Prefixes of field names that a person does not need."""


@dataclass(frozen=True)
class Difference:
    """A field that changed, in words."""

    name: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.name} {self.before} → {self.now}"


def why_built(engine: EngineSlice, records: Sequence[EngineRecord]) -> str:
    """`new`, `known: built 2026-11-20 on h100-01`, or `rebuild: max_batch_size 32 → 64; …`.

    A rebuild is compared with the nearest record of the same model: the one with the fewest differing fields.
    """
    same = next((record for record in records if record.fingerprint == engine.fingerprint), None)
    if same:
        return f"known: built {same.built_at[:10]} on {same.built_on}"
    mine = [record for record in records if (record.model, record.role) == (engine.model, engine.role)]
    if not mine:
        return "new"
    changed = min((differences(record.fields, engine.fields) for record in mine), key=len)
    return f"rebuild: {'; '.join(map(str, changed))}"


def differences(before: Mapping[str, object], now: Mapping[str, object]) -> list[Difference]:
    """Every field that differs, by its name for people, sorted by name."""
    old, new = dict(_leaves("", before)), dict(_leaves("", now))
    return [
        Difference(_human(name), old.get(name, MISSING), new.get(name, MISSING))
        for name in sorted({*old, *new})
        if old.get(name, MISSING) != new.get(name, MISSING)
    ]


def _leaves(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inside in value.items():
            yield from _leaves(f"{name}.{key}" if name else str(key), inside)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from _several(name, value)
    else:
        yield name, MISSING if value is None else str(value) or "on"


def _several(name: str, values: Iterable[object]) -> Iterator[tuple[str, str]]:
    for place, inside in enumerate(values, start=1):
        yield from _leaves(f"{name} {place}", inside)


def _human(name: str) -> str:
    for heading in HEADINGS:
        name = name.removeprefix(heading)
    return name.replace(".flags.--", " ").replace(".", " ")
