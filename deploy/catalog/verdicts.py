"""The verdict on a flag or value of a TensorRT-LLM program in a release: known, unsure, or its replacement.

Only exact names count: argparse takes any unambiguous prefix, and after an upgrade the same prefix may mean another
flag (`--use_fp8` is read as `--use_fp8_context_fmha`). `deploy.linter` writes the messages.
"""

from dataclasses import dataclass

from deploy.catalog.flags import BUILD, CONVERT, QUANTIZE, Flag, FlagTable, is_before, rows_with
from deploy.catalog.guide_mistakes import ELSEWHERE, MISQUOTED, REMOVED, RUN_TIME, value_meant, why_not
from deploy.catalog.least_flag_values import least
from deploy.catalog.names import nearest, slip_of
from deploy.catalog.runtime_keys import RUNTIME_KEYS

KNOWN, UNSURE, UNKNOWN, PREFIX = "known", "unsure", "unknown", "prefix"
NUMBERS = {"int": int, "float": float}


@dataclass(frozen=True, kw_only=True)
class FlagVerdict:
    """`kind` is known, unsure, unknown, prefix, or a kind of `misquoted`; `instead` is the flag to type, if any."""

    kind: str
    flag: Flag | None = None
    instead: str = ""
    key: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class ValueVerdict:
    """The reason why a value is wrong; `instead` is the value to type, empty to leave the flag out, None if unknown."""

    why: str
    instead: str | None = None


def flag_verdict(table: FlagTable, word: str) -> FlagVerdict:
    """The verdict on `word`, as typed, for this program in this release."""
    flag = table.find(word)
    if flag:
        return FlagVerdict(kind=KNOWN if flag.name in table.certain else UNSURE, flag=flag)
    if word in table.nearby:
        return FlagVerdict(kind=UNSURE, flag=table.nearby[word])
    quoted = MISQUOTED[table.program].get(word)
    if quoted:
        instead = quoted.flag if table.find(quoted.flag) else ""
        return FlagVerdict(kind=quoted.kind, instead=instead, key=quoted.key, why=quoted.why)
    key = RUNTIME_KEYS.get(word.removeprefix("--").replace("-", "_"))
    if key:
        return FlagVerdict(kind=RUN_TIME, key=key.name, why="it is set when serving, never built in")
    return _guess(table, word)


def value_verdict(table: FlagTable, flag: Flag, value: str) -> ValueVerdict | None:
    """The reason why `value` is wrong for `flag`; None if it is right."""
    if flag.choices and value not in flag.choices:
        meant = value_meant(table.program, flag.name, value, flag.choices)
        return ValueVerdict(why=why_not(table.program, flag.name, value), instead=meant or _nearest(value, flag, meant))
    if flag.type in NUMBERS and not _reads_as(value, flag.type):
        digits = value.replace(",", "").replace("_", "")
        return ValueVerdict(why="", instead=digits if _reads_as(digits, flag.type) else None)
    lowest = least(flag.name)
    if lowest is not None and flag.type in NUMBERS and float(value) < lowest:
        return ValueVerdict(why=f"the least is {lowest}", instead=_usual(flag))
    return None


def _guess(table: FlagTable, word: str) -> FlagVerdict:
    names = table.names
    dashed = "--" + word.lstrip("-").replace("-", "_")
    if dashed in names:
        return FlagVerdict(kind=UNKNOWN, instead=dashed, why="these flags are written with underscores")
    slip = slip_of(word, names)
    if slip:
        return FlagVerdict(kind=UNKNOWN, instead=slip)
    known_once = _known_once(table, word) or _known_elsewhere(table, word)
    if known_once:
        return known_once
    longer = sorted(name for name in names if name.startswith(word)) if word.startswith("--") and len(word) > 2 else []
    if longer:
        why = f"argparse takes a beginning for the whole: {', '.join(longer)}"
        return FlagVerdict(kind=PREFIX, instead=longer[0] if len(longer) == 1 else "", why=why)
    close = nearest(word, names)
    return FlagVerdict(kind=UNKNOWN, why=f"the nearest name is {close}, which may mean something else" if close else "")


def _known_once(table: FlagTable, word: str) -> FlagVerdict | None:
    """A flag of an older or newer release that has no replacement in this release."""
    rows, _ = rows_with(table.program, word)
    if not rows:
        return None
    if is_before(rows[-1], table.trtllm):
        return FlagVerdict(kind=REMOVED, why=f"TensorRT-LLM {_short(rows[-1])} was the last in the catalog that had it")
    return FlagVerdict(kind=UNKNOWN, why=f"TensorRT-LLM {_short(rows[0])} is the first in the catalog that has it")


def _known_elsewhere(table: FlagTable, word: str) -> FlagVerdict | None:
    for program in (BUILD, CONVERT, QUANTIZE):
        if program != table.program and rows_with(program, word)[0]:
            return FlagVerdict(kind=ELSEWHERE, why=f"it is a flag of {program}")
    return None


def _short(row: str) -> str:
    """A row of the data as a version: `0.13.0.dev2024090300` is 0.13, `0.18-0.21` is 0.21."""
    numbers = row.rpartition("-")[2].split(".")
    return ".".join(numbers[:2])


def _usual(flag: Flag) -> str:
    return "" if flag.required or flag.default in (None, "unset") else str(flag.default)


def _nearest(value: str, flag: Flag, meant: str | None) -> str | None:
    return meant if meant == "" else nearest(value, flag.choices) or None


def _reads_as(value: str, kind: str) -> bool:
    try:
        NUMBERS[kind](value)
    except ValueError:
        return False
    return True
