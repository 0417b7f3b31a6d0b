"""An alert and a recorded expression, as rows of data."""

from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["page", "ticket"]
JOBS = ("gateway", "haproxy", "triton", "host", "dcgm", "probe")
"""Scrape jobs: the gateway, balancers' HAProxy, Triton servers, node-exporter, dcgm-exporter, blackbox-exporter."""
LLM_JOB = "llm"
"""The scrape job of LLMs beside Triton, which a fleet without them does not have."""


@dataclass(frozen=True)
class Alert:
    """An alert: it fires once `expression` has held for `hold_minutes`.

    `means` and `remedy` may name a label of the series as `{{ $labels.NAME }}`. A page needs a person now; a ticket
    needs one within days.
    """

    name: str
    expression: str
    severity: Severity
    means: str
    remedy: str
    hold_minutes: int = 0

    def to_yaml(self) -> dict[str, Any]:
        """The rule, as Prometheus names its parts."""
        held = {"for": f"{self.hold_minutes}m"} if self.hold_minutes else {}
        annotations = {"summary": self.means, "remedy": self.remedy}
        rule = {"alert": self.name, "expr": self.expression, **held}
        return rule | {"labels": {"severity": self.severity}, "annotations": annotations}


@dataclass(frozen=True)
class Recording:
    """An expression that Prometheus stores under a name, because several rules read it or it reads days of samples."""

    name: str
    expression: str

    def to_yaml(self) -> dict[str, Any]:
        return {"record": self.name, "expr": self.expression}
