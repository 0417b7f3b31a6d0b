"""Judges the flags of `trtllm-build`, `convert_checkpoint.py` and `quantize.py`, one by one, by the catalog.

Paths, parallelism and features of an architecture are judged in `deploy.linter.engines`.
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace

from deploy.catalog.flags import Flag, FlagTable
from deploy.catalog.guide_mistakes import DEPRECATED, ELSEWHERE, NEVER, REMOVED, RUN_TIME
from deploy.catalog.least_flag_values import least
from deploy.catalog.verdicts import NUMBERS, PREFIX, UNSURE, FlagVerdict, flag_verdict, value_verdict
from deploy.linter.findings import Judged, raws
from deploy.linter.options import Option, argparse_options
from deploy.linter.words import Word, varies

HELP = ("-h", "--help")
SEE_HELP = "ask the image itself: {program} --help"


def judge_flags(table: FlagTable, args: Sequence[Word]) -> Judged:
    """Every finding about the flags, and the corrected flags."""
    options = list(argparse_options(args))
    judged = Judged()
    for option in options:
        judged.right += _judge_option(judged, table, option, options)
    _require(judged, table, options)
    return judged


def _judge_option(judged: Judged, table: FlagTable, option: Option, options: list[Option]) -> list[str]:
    """The corrected words of one option, after its mistakes were added."""
    if not option.name:
        return _stray(judged, table, option.values)
    if option.name in HELP or varies(option.name):
        return list(option.raw)
    verdict = flag_verdict(table, option.name)
    if verdict.flag is None:
        lost = _beyond_its_value(table, option)
        kept = replace(option, values=option.values[:lost], raw=option.raw[: lost + 1])
        right = _wrong_name(judged, table, kept, verdict, options)
        return [*right, *_stray(judged, table, option.values[lost:])]
    if verdict.kind == UNSURE:
        judged.know(
            "unsure-flag",
            f"`{option.name}` may or may not be in TensorRT-LLM {table.trtllm}",
            seen=option.name,
            wanted=f"a flag on both sides of {table.trtllm}; its row is {_row(table)}",
            attempt=SEE_HELP.format(program=table.program),
        )
    return _right_values(judged, table, verdict.flag, option)


def _beyond_its_value(table: FlagTable, option: Option) -> int:
    """The index, among an unknown flag's values, of the first other word: a flag without dashes, or a variable."""
    places = (
        place for place, value in enumerate(option.values) if table.find(f"--{value.text}") or (place and value.varies)
    )
    return next(places, len(option.values))


def _right_values(judged: Judged, table: FlagTable, flag: Flag, option: Option) -> list[str]:
    if flag.is_switch:
        return _switch(judged, table, option)
    if not option.values and flag.values != "?":
        choices = ", ".join(flag.choices) or f"a value of type {flag.type}"
        judged.add(
            "no-value",
            f"`{option.name}` stands without its value",
            seen=option.name,
            wanted=choices,
            attempt=f"{option.name} {_example(flag)}",
        )
        return [option.name, _example(flag)]
    known, extra = (option.values, ()) if flag.values == "+" else (option.values[:1], option.values[1:])
    if any(value.varies for value in known):
        return list(option.raw)
    fixed = [_right_value(judged, table, flag, option.name, value) for value in known]
    after = _stray(judged, table, extra)
    if "" in fixed:
        return after
    return [*_deprecated(judged, table, flag, option, fixed), *after]


def _right_value(judged: Judged, table: FlagTable, flag: Flag, name: str, value: Word) -> str:
    """The value to type; empty if the flag should be left out."""
    verdict = None if value.varies else value_verdict(table, flag, value.text)
    if verdict is None:
        return value.raw
    lowest = least(flag.name)
    number = f"a number of type {flag.type}" + (f", at least {lowest}" if lowest is not None else "")
    wanted = f"one of {', '.join(flag.choices)}" if flag.choices else number
    instead = verdict.instead
    attempt = f"leave {name} out" if instead == "" else f"{name} {instead}" if instead else f"{name} {_example(flag)}"
    judged.add(
        "value-not-offered",
        f"`{name}` does not take `{value.text}` in TensorRT-LLM {table.trtllm}"
        + (f": {verdict.why}" if verdict.why else ""),
        seen=f"{name} {value.raw}",
        wanted=wanted,
        attempt=attempt,
    )
    return shlex.quote(instead) if instead else "" if instead == "" else _example(flag)


def _switch(judged: Judged, table: FlagTable, option: Option) -> list[str]:
    if not option.is_attached and option.values and option.values[0].varies:
        return list(option.raw)
    off = option.value.lower() in ("disable", "false", "0", "no", "off")
    if option.is_attached or option.values:
        judged.add(
            "switch-with-value",
            f"`{option.name}` is a switch and takes no value",
            seen=" ".join(option.raw),
            wanted=f"{option.name} alone turns it on; left out, it is off",
            attempt=f"leave {option.name} out" if off else option.name,
        )
    return [] if off else [option.name]


def _deprecated(judged: Judged, table: FlagTable, flag: Flag, option: Option, fixed: list[str]) -> list[str]:
    newer, values = DEPRECATED.get((table.program, flag.name), ("", {}))
    if not newer or flag.kind != "build" or not table.find(newer) or not fixed or fixed[0] not in values:
        return list(option.raw) if option.is_attached and raws(option.values) == fixed else [option.name, *fixed]
    judged.know(
        "deprecated-flag",
        f"`{option.name}` is deprecated; this release still accepts it",
        seen=" ".join(option.raw),
        wanted=newer,
        attempt=f"{newer} {values[fixed[0]]}",
    )
    return [newer, values[fixed[0]]]


def _wrong_name(
    judged: Judged, table: FlagTable, option: Option, verdict: FlagVerdict, options: list[Option]
) -> list[str]:
    problems = {
        REMOVED: f"`{option.name}` is gone from {table.program}: {verdict.why}",
        RUN_TIME: f"`{option.name}` is not a flag of {table.program}: {verdict.why}",
        ELSEWHERE: f"`{option.name}` is not a flag of {table.program}: {verdict.why}",
        NEVER: f"`{option.name}` is not a flag of {table.program}: {verdict.why}",
        PREFIX: f"`{option.name}` is the beginning of a flag of {table.program}; {verdict.why}",
    }
    usual = f"{table.program} of TensorRT-LLM {table.trtllm} has no flag `{option.name}`"
    instead = _instead(table, option, verdict, options)
    judged.add(
        f"{verdict.kind}-flag",
        problems.get(verdict.kind, usual + (f": {verdict.why}" if verdict.why else "")),
        seen=" ".join(option.raw),
        wanted=_wanted(table, verdict),
        attempt=_attempt(option, verdict, instead),
    )
    if not instead:
        return []
    replaced = Option(instead[0], tuple(Word(raw, raw.strip("'\"")) for raw in instead[1:]), tuple(instead))
    flag = table.find(instead[0])
    return _right_values(judged, table, flag, replaced) if flag else instead


def _wanted(table: FlagTable, verdict: FlagVerdict) -> str:
    if verdict.key:
        return f"parameters key `{verdict.key}` in config.pbtxt of the tensorrt_llm model"
    return f"one of {len(table.flags)} flags by its exact name, from the catalog's table of TensorRT-LLM {_row(table)}"


def _attempt(option: Option, verdict: FlagVerdict, instead: list[str]) -> str:
    if instead:
        return f"did you mean `{' '.join(instead)}`?" if verdict.kind == "unknown" else " ".join(instead)
    if verdict.key:
        value = "inflight_fused_batching" if verdict.key == "gpt_model_type" else option.value or "…"
        value = {"enable": "true", "disable": "false"}.get(value, value)
        return f'remove it here and write parameters {{ key: "{verdict.key}" value: {{ string_value: "{value}" }} }}'
    return f"remove {option.name}"


def _instead(table: FlagTable, option: Option, verdict: FlagVerdict, options: list[Option]) -> list[str]:
    """The intended flag with the typed values; empty without such a flag, or if the flag is already present."""
    if not verdict.instead:
        return []
    options_by_name = {typed.name: typed for typed in options}
    if verdict.instead in options_by_name:
        return []
    if option.name == "--max_output_len":
        usual = str(table.flags["--max_input_len"].default)
        parts = [
            option.value,
            options_by_name["--max_input_len"].value if "--max_input_len" in options_by_name else usual,
        ]
        if all(part.isdecimal() for part in parts):
            return [verdict.instead, str(sum(int(part) for part in parts))]
    return [verdict.instead, *raws(option.values)]


def _stray(judged: Judged, table: FlagTable, words: Sequence[Word]) -> list[str]:
    """The words to type in the place of words without a flag: none, unless a flag lost its dashes.

    Words after a variable stay, because the variable may hold their flag.
    """
    if not words or words[0].varies:
        return raws(words)
    flag = table.find("--" + words[0].text.lstrip("-\u2013\u2014"))
    attempt = f"{flag.name} {' '.join(raws(words[1:]))}".strip() if flag else f"remove {words[0].raw}"
    variable = next((place for place, word in enumerate(words) if word.varies), len(words))
    judged.add(
        "stray-word",
        f"{table.program} takes values only after a flag, and `{words[0].text}` follows none",
        seen=" ".join(raws(words)),
        wanted="flags with two dashes, each followed by its value",
        attempt=attempt,
    )
    return [flag.name, *raws(words[1:])] if flag else raws(words[variable:])


def _require(judged: Judged, table: FlagTable, options: list[Option]) -> None:
    names = {option.name for option in options}
    if may_hold_more(table, options):
        return
    for flag in table.flags.values():
        if flag.required and flag.name not in names and not names & set(HELP):
            judged.add(
                "missing-flag",
                f"{table.program} does not start without `{flag.name}`",
                seen="not given",
                wanted=f"{flag.name} and its value",
                attempt=f"{flag.name} {_example(flag)}",
            )
            judged.right += [flag.name, _example(flag)]


def may_hold_more(table: FlagTable, options: Iterable[Option]) -> bool:
    """True if a variable among the words may bring flags that are not visible here."""
    return any(varies(option.name) or any(value.varies for value in _beyond(table, option)) for option in options)


def _beyond(table: FlagTable, option: Option) -> tuple[Word, ...]:
    """The superfluous values of an option, after the single value that its flag takes."""
    flag = table.find(option.name)
    return option.values[1:] if flag and not flag.is_switch and flag.values != "+" else option.values


def _example(flag: Flag) -> str:
    if flag.default not in (None, "unset", ""):
        return shlex.quote(str(flag.default))
    if flag.choices:
        return flag.choices[0]
    name = flag.name.removeprefix("--").upper()
    return f"<{name}>" if flag.type in NUMBERS else name


def _row(table: FlagTable) -> str:
    return f"{table.row} ({table.confidence})"
