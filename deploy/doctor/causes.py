"""Causes of a server or build that did not start, by fixed phrases in its log. Only the phrases leave a host.

`deploy/doctor/phrases.py` holds the phrases and their sources.
"""

import re
from collections.abc import Iterable, Iterator

from deploy.doctor.catalogue import finding_of
from deploy.doctor.finding import Finding
from deploy.doctor.phrases import OTHER, PHRASES
from deploy.doctor.readings import Readings, number

PATTERN = "|".join(phrase for phrases in PHRASES.values() for phrase in phrases)
HOST_PATTERN = re.sub(r"(\[[^]]*\])|'", lambda match: match[1] or ".", PATTERN)
"""The expression for a host's grep: any character stands for a quote outside brackets, which costs many bytes."""
_KINDS = {kind: re.compile("|".join(phrases)) for kind, phrases in PHRASES.items()}
_COUNTED = re.compile(r"\s*([0-9]{1,9})\s+(.*)")
_IN_TROUBLE = (
    *("unit-failed", "job-failed", "unit-stopped", "unit-starting", "unit-restarted", "swap-refused", "swap-cut"),
    *("model-not-ready", "server-silent", "server-missing", "watchdog-gave-up", "watchdog-restarted"),
)
_LEAST = ("cause-crash", "service-container", "cause-build", "cause-load", "service-start", "cause-request", OTHER)
"""Causes that tell no reason; each gives way to any reason, and to those before it here."""
_REASONS = set(PHRASES) - {*_LEAST, "cause-port"}
_STANDING = ("cause-memory", "cause-request", "service-pool", "service-apt", "service-apt-source", "service-apt-lock")
"""Causes that are reported while every server works."""
_FOLLOWS = {
    "cause-disk": {"cause-shm"},
    "cause-limits": {"cause-shm", "service-apt-lock"},
    "cause-pull": {"cause-disk", "service-tls"},
    "cause-no-gpu": {"cause-driver", "cause-fabric"},
    "cause-gpu": {"cause-ranks"},
    "cause-nccl": {"cause-memory", "cause-cache"},
    "cause-mpi": {"cause-ranks"},
    "cause-program": {"cause-module", "cause-files"},
    "cause-permission": {"service-balancer", "service-apt-lock"},
    "service-network": {"cause-port"},
    "service-docker": {"service-network", "service-containerd", "cause-disk"},
    "cause-port": {"cause-address"},
    "service-apt": {"service-apt-lock", "service-apt-source"},
    "cause-hub": {"service-tls", "service-apt-source"},
    **{kind: _REASONS | set(_LEAST[:place]) for place, kind in enumerate(_LEAST)},
}
"""Causes that logs also name as a consequence of another fault: they are not reported beside it."""


def cause_findings(readings: Readings, others: Iterable[Finding]) -> Iterator[Finding]:
    """The causes in the logs of servers and builds, from lines `COUNT PHRASE`; notes if `others` has no findings.

    A server that runs out of memory while it answers other requests is a finding by itself. Phrases of a cause share a
    finding, because a program and the library below it log the same fault.
    """
    is_troubled = any(finding.id in _IN_TROUBLE for finding in others)
    by_kind: dict[str, dict[str, int]] = {}
    for line in readings.lines("causes"):
        if counted := _COUNTED.fullmatch(line):
            by_kind.setdefault(cause_of(counted[2]), {})[counted[2]] = number(counted[1])
    by_kind.pop("", None)
    if not is_troubled or by_kind.keys() - {OTHER}:
        by_kind.pop(OTHER, None)
    for kind, counts in by_kind.items():
        if _FOLLOWS.get(kind, set()) & by_kind.keys():
            continue
        phrases = sorted(counts, key=lambda phrase: -counts[phrase])
        evidence = f"{', '.join(phrases)} ({max(counts.values())} times within a day)"
        yield finding_of(kind if is_troubled or kind in _STANDING else "cause-past", evidence)


def cause_of(text: str) -> str:
    return next((kind for kind, phrases in _KINDS.items() if phrases.search(text)), "")
