"""The outcome of every request of a load (right, lost or cut) and its duration, by phase of a change.

A request is lost if a client would call it a failure: an error, a wrong status, a wrong answer, no answer. Only a
stream that had the whole time of the host's drain before it ended is cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

RIGHT, LOST, CUT = "right", "lost", "cut"
PHASES = ("before", "during", "after")
LISTED = 20


class Outcome(NamedTuple):
    """A request's outcome. Times are in seconds: `due` is on the monotonic clock that all processes share, the other
    times count from `due`."""

    due: float
    way: str
    verdict: str
    first: float
    """Seconds until the whole answer, or the first piece of a stream; for a lost request until the client gave up."""
    sent: float
    """Seconds until the request was sent: the delay of the load itself."""
    reason: str = ""


Phases = dict[str, list[Outcome]]


def figures(phases: Phases) -> dict[str, Any]:
    """Returns counts and latencies in milliseconds.

    `p50_…` and `p99_…` cover the right answers of all kinds of requests, for a stream, its first piece; None without
    right answers.
    """
    outcomes = [outcome for members in phases.values() for outcome in members]
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    result: dict[str, Any] = {
        "sent": len(outcomes),
        "lost": verdicts[LOST],
        "cut": verdicts[CUT],
        "ways": dict(sorted(Counter(outcome.way for outcome in outcomes).items())),
        "sent_by_phase": {phase: len(members) for phase, members in phases.items()},
    }
    for percent in (50, 99):
        result |= {f"p{percent}_{phase}": percentile_ms(members, percent) for phase, members in phases.items()}
    return result | {"load_late_ms": round(max((outcome.sent for outcome in outcomes), default=0.0) * 1000, 1)}


def losses(outcomes: Sequence[Outcome], begins: float) -> dict[str, Any]:
    """Returns numbers of lost requests by protocol and reason, and the first LISTED in seconds after `begins`."""
    lost = sorted(outcome for outcome in outcomes if outcome.verdict == LOST)
    listed = [
        {"at": round(outcome.due - begins, 2), "way": outcome.way, "reason": outcome.reason}
        for outcome in lost[:LISTED]
    ]
    reasons = Counter(f"{outcome.way}: {outcome.reason.partition(':')[0]}" for outcome in lost)
    return {"reasons": dict(reasons.most_common()), "losses": listed}


def by_phase(outcomes: Sequence[Outcome], begins: float, ends: float) -> Phases:
    """Returns the outcomes of each phase by due time; the change lasted from `begins` to `ends` by the same clock."""
    phases: Phases = {phase: [] for phase in PHASES}
    for outcome in outcomes:
        phases["before" if outcome.due < begins else "during" if outcome.due <= ends else "after"].append(outcome)
    return phases


def merged(changes: Sequence[Phases]) -> Phases:
    """Returns the outcomes of several changes, phase by phase."""
    return {phase: [outcome for phases in changes for outcome in phases[phase]] for phase in PHASES}


def percentile_ms(outcomes: Sequence[Outcome], percent: float) -> float | None:
    """Returns milliseconds that `percent` of the right answers stayed under; None without right answers."""
    times = [outcome.first for outcome in outcomes if outcome.verdict == RIGHT]
    return round(float(np.percentile(times, percent)) * 1000, 1) if times else None
