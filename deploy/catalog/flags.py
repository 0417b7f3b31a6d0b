"""The flags of `trtllm-build`, `convert_checkpoint.py` and `quantize.py` per TensorRT-LLM, and their certainty.

The rows are packaged data (`data/trtllm-flags.json`), read at the commits in its `_meta.sources`. Few releases were
read at their exact tag: the others fall between two rows, and `FlagTable.certain` has only the flags of both rows.
`deploy.linter` judges command lines, and `deploy.engine` writes them.
"""

import json
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Any

from deploy.catalog.releases import ENGINES_END
from deploy.catalog.versions import version

BUILD, CONVERT, QUANTIZE = "trtllm-build", "convert_checkpoint.py", "quantize.py"
SWITCH = "flag"
EXACT = ("exact", "near-exact")
"""Confidence levels of rows that are certain without their neighbours; 1.2 was read at the last revision that had the
programs."""
FAMILIES = ("gpt", "llama", "qwen")
"""Families whose convert script was read; `llama` serves Mistral and Mixtral too."""

# for each row: its version, and whether the flags were read before or after that version
_POSITIONS = {
    "0.11.0": (0, 11, 0, 0),
    "0.13.0.dev2024090300": (0, 13, 0, -1),
    "0.14.0.dev2024100800": (0, 14, 0, -1),
    "0.16.0": (0, 16, 0, 0),
    "0.17.0.dev2024121700": (0, 17, 0, -1),
    "0.18-0.21": (0, 17, 0, 1),
    "1.2": (1, 2, 0, 0),
}


@dataclass(frozen=True, kw_only=True)
class Flag:
    """A flag; a `type` of `flag` is a switch without value, `values` is `+` or `?` if argparse takes several."""

    name: str
    type: str
    default: object = None
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    kind: str = "build"
    values: str = ""
    required: bool = False
    note: str = ""

    @property
    def is_switch(self) -> bool:
        return self.type == SWITCH


@dataclass(frozen=True, kw_only=True)
class FlagTable:
    """The flags of one program in one TensorRT-LLM version.

    `flags` is the row itself. `certain` are its flags that exist, with the same type, in the rows on both sides of the
    version, with the choices that both rows have; `beside` are flags that only a neighbouring row has. `confidence` is
    a text of the data, `source` the place where the row was read.
    """

    program: str
    trtllm: str
    row: str
    confidence: str
    source: str
    flags: dict[str, Flag]
    certain: dict[str, Flag]
    nearby: dict[str, Flag]

    @property
    def is_removed(self) -> bool:
        return not self.flags and not self.is_unread

    @property
    def is_unread(self) -> bool:
        return not self.row

    @property
    def is_exact(self) -> bool:
        return self.confidence in EXACT

    def find(self, word: str) -> Flag | None:
        """The flag with exactly this name or alias; never by prefix, although argparse would accept one."""
        return self.names.get(word)

    @cached_property
    def names(self) -> dict[str, Flag]:
        return {name: flag for flag in self.flags.values() for name in _words(flag)}


@lru_cache(64)
def build_flags(trtllm: str) -> FlagTable:
    return _table(BUILD, trtllm, _data())


@lru_cache(256)
def convert_flags(trtllm: str, family: str) -> FlagTable:
    """The flags of the convert script of one of `FAMILIES`; the table is empty for any other family."""
    return _table(CONVERT, trtllm, _data()["_convert_checkpoint"].get(family, {}))


@lru_cache(64)
def quantize_flags(trtllm: str) -> FlagTable:
    return _table(QUANTIZE, trtllm, _data()["_quantize.py"])


def convert_script(trtllm: str, family: str) -> tuple[str, ...]:
    """The paths of a family's convert script in the source tree of this version: two for versions during its move."""
    old, new = f"examples/{family}/convert_checkpoint.py", f"examples/models/core/{family}/convert_checkpoint.py"
    if version(trtllm) >= (0, 20):
        return (new,)
    return (old, new) if version(trtllm) >= (0, 19) else (old,)


def engines_are_built_by(trtllm: str) -> bool:
    return version(trtllm)[:2] < ENGINES_END


def confidence_of(trtllm: str) -> tuple[str, str]:
    """The row used for a version, and its certainty in the data's own words; empty for an unknown version."""
    resolved = _data()["_resolve"].get(".".join(str(part) for part in _three_numbers(trtllm)), {})
    return resolved.get("use") or "", resolved.get("confidence", "")


def rows_with(program: str, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rows, oldest first, whose `program` has the flag or alias `name`, and the rows whose program does not."""
    kept: tuple[list[str], list[str]] = ([], [])
    for row, known in _known_words(program).items():
        kept[name not in known].append(row)
    return tuple(kept[0]), tuple(kept[1])


@cache
def _known_words(program: str) -> dict[str, frozenset[str]]:
    """Every flag and alias in each row of a program, the oldest row first."""
    tables = {row: [table[row] for table in _tables_of(program) if row in table] for row in _POSITIONS}
    return {
        row: frozenset(word for table in parts for flag in _row({row: table}, row).values() for word in _words(flag))
        for row, parts in tables.items()
        if parts
    }


def is_before(row: str, trtllm: str) -> bool:
    return _POSITIONS[row] < (*_three_numbers(trtllm), 0)


def _tables_of(program: str) -> list[dict[str, Any]]:
    if program == BUILD:
        return [_data()]
    if program == QUANTIZE:
        return [_data()["_quantize.py"]]
    return [_data()["_convert_checkpoint"][family] for family in FAMILIES]


def _words(flag: Flag) -> tuple[str, ...]:
    return (flag.name, *flag.aliases)


def _table(program: str, trtllm: str, rows: dict[str, Any]) -> FlagTable:
    row, confidence = confidence_of(trtllm)
    if confidence == "command removed":
        return _empty(program, trtllm, "1.3", confidence)
    known = {name: _row(rows, name) for name in _POSITIONS if name in rows}
    if not row or not known:
        return _empty(program, trtllm, "", "not read")
    used = row if row in known else _nearest_row(known, row)
    flags = known[used]
    near = _uncertain_kinds(confidence, row_is_missing=used != row)
    sides = _sides(known, trtllm, used)
    certain = {flag.name: flag for flag in flags.values() if flag.kind not in near}
    certain |= _on_every_side([flag for flag in flags.values() if flag.kind in near], sides)
    row_confidence = confidence if used == row else f"near; {program} was last read at {used}"
    ordered = {name: certain[name] for name in flags if name in certain}
    return FlagTable(
        program=program,
        trtllm=trtllm,
        row=used,
        confidence=row_confidence,
        source=_data()["_meta"]["sources"].get(used, ""),
        flags=flags,
        certain=ordered,
        nearby={} if not near else {name: flag for side in sides for name, flag in side.items() if name not in flags},
    )


def _empty(program: str, trtllm: str, row: str, confidence: str) -> FlagTable:
    source = _data()["_meta"]["sources"].get(row, "")
    return FlagTable(
        program=program, trtllm=trtllm, row=row, confidence=confidence, source=source, flags={}, certain={}, nearby={}
    )


def _uncertain_kinds(confidence: str, *, row_is_missing: bool) -> tuple[str, ...]:
    """Kinds of flags whose row does not prove that a flag exists."""
    if row_is_missing:
        return ("build", "plugin", "convert", "quantize")
    if confidence in EXACT:
        return ()
    if confidence.startswith("build exact"):
        return ("plugin", "convert", "quantize")
    return ("build", "plugin", "convert", "quantize")


def _sides(known: dict[str, dict[str, Flag]], trtllm: str, used: str) -> list[dict[str, Flag]]:
    """The rows next below and next above a version; one row if the version is beyond the table."""
    place = (*_three_numbers(trtllm), 0)
    # the 0.16.0 row has plugin and script flags that were read later, so it cannot confirm itself
    names = [name for name in known if not (used == name == "0.16.0")]
    below = [name for name in names if _POSITIONS[name] <= place]
    above = [name for name in names if _POSITIONS[name] >= place]
    return [known[name] for name in dict.fromkeys([*below[-1:], *above[:1]])]


def _on_every_side(flags: Iterable[Flag], sides: list[dict[str, Flag]]) -> dict[str, Flag]:
    shared = {}
    for flag in flags:
        twins = [side.get(flag.name) for side in sides]
        if all(twin is not None and twin.type == flag.type for twin in twins):
            shared[flag.name] = replace(flag, choices=_shared_choices(flag, [twin for twin in twins if twin]))
    return shared


def _shared_choices(flag: Flag, twins: list[Flag]) -> tuple[str, ...]:
    limited = [twin.choices for twin in twins if twin.choices]
    return tuple(choice for choice in flag.choices if all(choice in choices for choices in limited))


def _nearest_row(known: dict[str, dict[str, Flag]], row: str) -> str:
    older = [name for name in known if _POSITIONS[name] <= _POSITIONS[row]]
    return older[-1] if older else next(iter(known))


def _three_numbers(trtllm: str) -> tuple[int, ...]:
    """The version's first three numbers, by which rows are kept: `0.17.0.post1` is (0, 17, 0)."""
    return (*version(trtllm), 0, 0, 0)[:3]


@cache
def _data() -> Any:
    packaged = pkgutil.get_data("deploy.catalog", "data/trtllm-flags.json")
    assert packaged, "deploy/catalog/data is part of the package"
    return json.loads(packaged)


def _row(rows: dict[str, Any], name: str) -> dict[str, Flag]:
    return {flag: _flag(flag, facts) for flag, facts in rows[name].items()}


def _flag(name: str, facts: dict[str, Any]) -> Flag:
    return Flag(
        name=name,
        type=facts["type"],
        default=facts["default"],
        choices=tuple(str(choice) for choice in facts["choices"] or () if choice is not None),
        aliases=tuple(facts.get("aliases", ())),
        kind=facts["kind"],
        values=facts.get("nargs", ""),
        required=bool(facts.get("required")),
        note=facts.get("note", ""),
    )
