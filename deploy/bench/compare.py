"""Finds the figures of a bench result that are worse than another's, beyond the spread among runs.

A figure is worse if two things hold. Its runs rank worse than the other result's (Mann-Whitney, one-sided, exact), with
all figures judged together at 5 % by Holm's method. And its median is worse by `least` percent or more: a machine that
is a little slower an hour later is no finding. A figure with too few runs for any difference to be significant is
reported as "too few runs", never as "no slower".
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

FALSE_ALARMS = 0.05
"""Highest probability of a false alarm: two equal results differ by chance in at least one of their figures."""
LEAST_PERCENT = 10.0
RULE = (
    "worse: ranks worse over the runs (Mann-Whitney, one-sided, exact; all figures together at 5% by Holm) and its "
    "median by {least:g}% or more"
)
HIGHER_IS_BETTER = ("goodput_requests_per_second", "requests_per_second")
JUDGED = (
    "first_token_p50_ms",
    "first_token_p95_ms",
    "gap_p50_ms",
    "gap_p95_ms",
    "whole_p50_ms",
    "whole_p95_ms",
    *HIGHER_IS_BETTER,
)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a load in both results. `change_percent` above 0 is worse; `chance` is after Holm's method."""

    case: str
    name: str
    before: float
    after: float
    change_percent: float
    chance: float
    is_worse: bool
    is_tellable: bool


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Figures that both results have; `differences` lists unequal settings of machine, release and load."""

    figures: tuple[Figure, ...]
    differences: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """2 if a figure is worse, 1 if the runs are too few or no figure is in both results, else 0."""
        if any(figure.is_worse for figure in self.figures):
            return 2
        return 0 if self.figures and all(figure.is_tellable for figure in self.figures) else 1


def compared(before: Mapping[str, Any], after: Mapping[str, Any], least_percent: float = LEAST_PERCENT) -> Comparison:
    """The figures that got worse from the first result to the second."""
    cases = {(case["name"], case["model"], tuple(case["beside"])): case for case in before["cases"]}
    pairs = [
        (cases[key], case)
        for case in after["cases"]
        if (key := (case["name"], case["model"], tuple(case["beside"]))) in cases
    ]
    rows = [
        (old, new, name) for old, new in pairs for name in JUDGED if name in old["median"] and name in new["median"]
    ]
    raw = [_chance(_values(old, name), _values(new, name), name in HIGHER_IS_BETTER) for old, new, name in rows]
    best = [1 / math.comb(len(old["runs"]) + len(new["runs"]), len(old["runs"])) for old, new, _ in rows]
    figures = []
    for (old, new, name), chance, least in zip(rows, holm(raw), best, strict=True):
        was, now = (statistics.median(_values(case, name)) for case in (old, new))
        change = _worse_by(was, now, name in HIGHER_IS_BETTER)
        figures.append(
            Figure(
                case=f"{new['model']}: {new['name']}",
                name=name,
                before=was,
                after=now,
                change_percent=change,
                chance=chance,
                is_worse=chance <= FALSE_ALARMS and change >= least_percent,
                is_tellable=least * len(rows) <= FALSE_ALARMS,
            )
        )
    return Comparison(figures=tuple(figures), differences=tuple(_differences(before, after)))


def _values(case: Mapping[str, Any], name: str) -> list[float]:
    return [float(run[name]) for run in case["runs"]]


def _worse_by(was: float, now: float, higher_is_better: bool) -> float:
    """Percent by which `now` is worse than `was`; 0 if both are zero, 100 if only `was` is zero."""
    if not was:
        return 0.0 if higher_is_better or not now else 100.0
    return (1 - now / was) * 100 if higher_is_better else (now / was - 1) * 100


def _chance(before: Sequence[float], after: Sequence[float], higher_is_better: bool) -> float:
    """Probability that equal runs would rank as badly as `after` does; ties count half."""
    sign = -1 if higher_is_better else 1
    wins = sum((sign * (new - old) > 0) + 0.5 * (new == old) for new in after for old in before)
    most = len(before) * len(after)
    # Half a win is rounded down, so that a tie makes a finding less likely.
    reached = math.floor(wins)
    orders = sum(_rankings(len(before), len(after), count) for count in range(reached, most + 1))
    return orders / math.comb(len(before) + len(after), len(before))


@cache
def _rankings(before: int, after: int, wins: int) -> int:
    """Number of orders of two groups in which the second wins this many pairs."""
    if wins < 0 or before < 0 or after < 0:
        return 0
    if not before or not after:
        return int(wins == 0)
    return _rankings(before, after - 1, wins - before) + _rankings(before - 1, after, wins)


def holm(chances: Sequence[float]) -> list[float]:
    """The chances, each raised so that a single significance bound holds for all together (Holm 1979)."""
    order = sorted(range(len(chances)), key=lambda place: chances[place])
    raised, so_far = [1.0] * len(chances), 0.0
    for rank, place in enumerate(order):
        so_far = max(so_far, min(1.0, chances[place] * (len(chances) - rank)))
        raised[place] = so_far
    return raised


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    differences = [
        f"{key}: {before.get(key)}, then {after.get(key)}"
        for key in ("release", "plan", "hosts")
        if before.get(key) != after.get(key)
    ]
    differences += [
        f"{key} of the machine: {before['machine'].get(key)}, then {after['machine'].get(key)}"
        for key in sorted({*before["machine"], *after["machine"]})
        if before["machine"].get(key) != after["machine"].get(key)
    ]
    names = [{case["name"] for case in result["cases"]} for result in (before, after)]
    return differences + [f"measured once only: {name}" for name in sorted(names[0] ^ names[1])]
