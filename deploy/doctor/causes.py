"""Causes of a server or build that did not start, by fixed phrases in its log. Only the phrases leave a host.

`deploy/doctor/phrases.py` holds the phrases and their sources.
"""

import re
from collections.abc import Iterable, Iterator

from deploy.doctor.catalogue import finding_of
from deploy.doctor.finding import Finding
from deploy.doctor.phrases import PHRASES
from deploy.doctor.phrases_general import HEADS, SERVERS, WORDS
from deploy.doctor.readings import Readings, number

_LEVELS = {program: phrases for program, (_, phrases) in HEADS.items()}
_TABLES = ("phrase", PHRASES), ("head", _LEVELS), ("word", WORDS)
PATTERN = "|".join(phrase for _, table in _TABLES for phrases in table.values() for phrase in phrases)
HOST_PATTERN = re.sub(r"(\[[^]]*\])|'", lambda match: match[1] or ".", PATTERN)
"""The expression for a host's grep: `.` replaces each quote outside brackets, because a quoted quote takes many
bytes."""
_KINDS = [(tier, kind, re.compile("|".join(rows))) for tier, table in _TABLES for kind, rows in table.items()]
STAMP = " ?[0-9-]{4,5} [0-9:.]{8,16} +([0-9]{1,9} )?"
"""Date, time and thread in a phrase, which the host takes out, so that equal phrases are counted together."""
_COUNTED = re.compile(r"\s*([0-9]{1,9})\s+(.*)")
_IN_TROUBLE = (
    *("unit-failed", "job-failed", "unit-stopped", "unit-starting", "unit-restarted", "swap-refused", "swap-cut"),
    *("model-not-ready", "server-silent", "server-missing", "watchdog-gave-up", "watchdog-restarted"),
)
_LEAST = ("cause-crash", "service-container", "cause-build", "cause-load", "service-start", "cause-request")
"""Causes without a reason: each is dropped beside a cause with a reason, and beside an earlier cause of this tuple."""
_REASONS = set(PHRASES) - {*_LEAST, "cause-port"}
_STANDING = ("cause-memory", "cause-request", "service-pool", "service-apt", "service-apt-source", "service-apt-lock")
"""Causes that are reported while every server works."""
_FOLLOWS = {
    "cause-disk": {"cause-shm"},
    "cause-limits": {"cause-shm", "service-apt-lock"},
    "cause-pull": {"cause-disk", "service-tls"},
    "cause-no-gpu": {"cause-driver", "cause-fabric"},
    "cause-gpu": {"cause-ranks"},
    "cause-nccl": {"cause-memory", "cause-cache", "cause-port"},
    "cause-mpi": _REASONS - {"cause-mpi"},
    "cause-program": {"cause-module", "cause-files"},
    "cause-permission": {"service-balancer", "service-apt-lock"},
    "service-network": {"cause-port"},
    "service-docker": {"service-network", "service-containerd", "cause-disk"},
    "cause-port": {"cause-address"},
    "service-balancer": {"service-pool"},
    "service-apt": {"service-apt-lock", "service-apt-source"},
    "cause-hub": {"service-tls", "service-apt-source"},
    **{kind: _REASONS | set(_LEAST[:place]) for place, kind in enumerate(_LEAST)},
}
"""Causes that logs also name as a consequence of another fault: they are not reported beside it."""


def cause_findings(readings: Readings, others: Iterable[Finding]) -> Iterator[Finding]:
    """The causes in the logs of servers and builds, from lines `COUNT PHRASE`; notes if `others` has no findings.

    A server that runs out of memory while it answers other requests is a finding by itself. Phrases of a cause share a
    finding, because a program and the library below it log the same fault. Lines of an error level without a known
    phrase are a finding only if a server is in trouble: by a word in the line, or by the program alone.
    """
    troubles = {finding.id for finding in others} & set(_IN_TROUBLE)
    is_troubled = bool(troubles)
    # A failed job reports its own reason; a server's lines of the day are not about the job.
    is_server_troubled = bool(troubles - {"job-failed"})
    tiers: dict[str, dict[str, dict[str, int]]] = {tier: {} for tier, _ in _TABLES}
    for line in readings.lines("causes"):
        if (counted := _COUNTED.fullmatch(line)) and (named := _row_of(counted[2])):
            counts, phrase = tiers[named[0]].setdefault(named[1], {}), re.sub(STAMP, " ", counted[2])
            counts[phrase] = counts.get(phrase, 0) + number(counted[1])
    by_kind, heads = tiers["phrase"], tiers["head"]
    is_of_a_server = heads.keys() & SERVERS or any(kind.startswith("cause-") for kind in by_kind)
    if is_server_troubled and is_of_a_server and not by_kind.keys() - set(_LEAST):
        by_kind |= dict([(kind, tiers["word"][kind]) for kind in WORDS if kind in tiers["word"]][:1])
    for kind, counts in by_kind.items():
        if not _FOLLOWS.get(kind, set()) & by_kind.keys():
            yield finding_of(kind if is_troubled or kind in _STANDING else "cause-past", _counted(counts))
    if is_server_troubled and not by_kind and heads:
        evidence = "; ".join(f"{program}: {_counted(counts)}" for program, counts in heads.items())
        kind = "cause-other" if heads.keys() & SERVERS else "service-other"
        yield finding_of(kind, evidence, what=" ".join(dict.fromkeys(HEADS[name][0] for name in heads)))


def cause_of(text: str) -> str:
    """The finding of the first phrase or word in a text; empty for a text without a known phrase or word."""
    return next((kind for tier, kind, rows in _KINDS if tier != "head" and rows.search(text)), "")


def _row_of(text: str) -> tuple[str, str] | None:
    """The table and the row of the first expression in a text."""
    return next(((tier, kind) for tier, kind, rows in _KINDS if rows.search(text)), None)


def _counted(counts: dict[str, int]) -> str:
    phrases = sorted(counts, key=lambda phrase: -counts[phrase])
    return f"{', '.join(phrases)} ({max(counts.values())} times within a day)"
