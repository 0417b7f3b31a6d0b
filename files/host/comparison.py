"""The verdict on an LLM that replaces another: equal tokens, met tasks, and the times of both. Pure.

Greedy answers are compared position by position, as deploy/rollout/replay.py compares an engine's with its
checkpoint's: by token ids if both programs return them, else by the words of the texts. Tasks are sampled and judged by
their regular expressions. The verdict names prompts only by number, because other users can read its records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

SHOWN = 3
WORDS = re.compile(r"\s*\w+|\s*[^\w\s]+|\s+")
"""Pieces of a text; joined they are the text."""
Units = tuple[Any, ...]
Reply = Mapping[str, Any]
"""An answer: `kind` (prompt or task), `text`, and `ids` of its tokens, none if the program does not report them."""


def verdict(replay: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison of two measurements (`answers` and `load`) by the limits of a replay, as plain values."""
    wanted, answers = of_kind(before, "prompt"), of_kind(now, "prompt")
    by_ids = all(reply["ids"] for reply in (*wanted, *answers) if reply["text"])
    pairs = [(units(first, by_ids), units(second, by_ids)) for first, second in zip(wanted, answers, strict=True)]
    count = sum(max(map(len, pair)) for pair in pairs)
    equal_percent = percent(sum(equal(*pair) for pair in pairs), count)
    expected = [task["expected"] for task in replay["tasks"]]
    met_before, met = met_tasks(of_kind(before, "task"), expected), met_tasks(of_kind(now, "task"), expected)
    met_percent = percent(len(met), len(expected))
    return {
        "model": replay["model"],
        "is_good": equal_percent >= replay["equal_percent"] and met_percent >= replay["minimum_percent"],
        "equal_percent": round(equal_percent, 1),
        "equal_wanted": replay["equal_percent"],
        "unit": "tokens" if by_ids else "words",
        "count": count,
        "tasks": len(expected),
        "met_before": len(met_before),
        "met": len(met),
        "met_wanted": replay["minimum_percent"],
        "details": details(pairs, "token" if by_ids else "word", met, len(expected)),
        "gpus": replay["gpus"],
        "before": before["load"],
        "now": now["load"],
    }


def sentence(compared: Mapping[str, Any]) -> str:
    """The shares of a verdict in one line."""
    equal_share = f"{compared['equal_percent']:.1f} % of {compared['count']:,} {compared['unit']} equal"
    line = f"{compared['model']}: {equal_share} ({compared['equal_wanted']:.1f} % wanted)"
    if not compared["tasks"]:
        return line
    met = f"{compared['met']} of {compared['tasks']} tasks met, {compared['met_before']} before"
    return f"{line}, {met} ({compared['met_wanted']:.1f} % wanted)"


def of_kind(measured: Mapping[str, Any], kind: str) -> list[Reply]:
    return [reply for reply in measured["answers"] if reply["kind"] == kind]


def units(reply: Reply, by_ids: bool) -> Units:
    return tuple(reply["ids"]) if by_ids else tuple(WORDS.findall(reply["text"]))


def equal(first: Units, second: Units) -> int:
    return sum(piece == other_piece for piece, other_piece in zip(first, second, strict=False))


def first_difference(first: Units, second: Units) -> int | None:
    """The position of the first differing piece, from 0; None if the answers are equal."""
    pairs = enumerate(zip(first, second, strict=False))
    differing = next((place for place, (piece, other_piece) in pairs if piece != other_piece), None)
    shorter = min(len(first), len(second))
    return differing if differing is not None else shorter if len(first) != len(second) else None


def met_tasks(replies: Sequence[Reply], expected: Sequence[str]) -> set[int]:
    """Numbers, from 1, of the tasks with a matching answer."""
    pairs = enumerate(zip(replies, expected, strict=True), start=1)
    return {number for number, (reply, pattern) in pairs if re.search(pattern, reply["text"])}


def details(pairs: Sequence[tuple[Units, Units]], unit: str, met: set[int], tasks: int) -> list[str]:
    """The prompts with the earliest differences, and the unmet tasks; a few of each."""
    parted = []
    for number, (first, second) in enumerate(pairs, start=1):
        place = first_difference(first, second)
        if place is not None:
            parted.append(
                (place, f"prompt {number}: {unit} {place + 1} of {max(len(first), len(second))} differs first")
            )
    missed = [f"task {number}: not met" for number in range(1, tasks + 1) if number not in met]
    return [line for _, line in sorted(parted)[:SHOWN]] + missed[:SHOWN]


def percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 100.0
