"""A finding: the evidence from one host, its meaning, the command to type, and if a deploy repairs it."""

from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["broken", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("broken", "warning", "note")
"""Severities, the worst first. A note does not change the verdict."""
LONGEST = 300
"""Most characters of a line of evidence that are kept."""


@dataclass(frozen=True)
class Kind:
    """A row of the catalogue. `attempt` may name {gpu}, {server}, {unit} or {what}: the finding's subject."""

    id: str
    severity: Severity
    means: str
    attempt: str
    ours: bool = False
    """True if a run of this project repairs it."""


@dataclass(frozen=True)
class Finding:
    """A row of the catalogue that applies to one host."""

    kind: Kind
    subject: str
    """The part of the host it is about: `GPU 0`, a unit, a path; empty for the whole host."""
    evidence: str
    attempt: str

    @property
    def id(self) -> str:
        return self.kind.id

    @property
    def severity(self) -> Severity:
        return self.kind.severity

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "severity": self.severity,
            "subject": self.subject,
            "evidence": self.evidence,
            "means": self.kind.means,
            "try": self.attempt,
            "ours": self.kind.ours,
        }


def printable(text: str) -> str:
    """The text on one line, without control characters, at most LONGEST characters long."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
