"""Counts of the encoders, published as Triton's custom metrics about once a second, beside Triton's own.

Every update is a message from this process to the server, so counts are collected and sent together. On releases
without custom metrics (before 23.05) nothing is published.

The watchdog detects a hang by `answers_total`: Triton counts a request as answered as soon as this process accepts it.
"""

import time
from collections.abc import Callable
from typing import Any

EVERY_SECONDS = 1.0
COUNTERS = {
    "answers_total": "Requests answered; those refused or failed are none",
    "documents_total": "Texts or passages computed",
    "tokens_total": "Tokens computed, special tokens included",
    "passes_total": "Forward passes",
    "pass_seconds_total": "Time the device spent in passes",
}
GAUGES = {
    "queued_tokens": "Tokens that wait for the device",
    "pass_fill": "Mean share of the token budget that passes used since the last update",
    "peak_memory_bytes": "The most device memory the allocator of this model ever held",
}


class Meter:
    """Counts of one model instance."""

    def __init__(
        self, pb_utils: Any, model: str, budget: int, peak: Callable[[], int], note: Callable[[str], None]
    ) -> None:
        self.documents = self.tokens = self.passes = self.answers = 0
        self.seconds: Callable[[], float] = lambda: 0.0
        self.note, self._budget, self._peak = note, budget, peak
        self._sent: dict[str, float] = dict.fromkeys(COUNTERS, 0.0)
        self._due = 0.0
        self._works = True
        self._metrics = _metrics(pb_utils, model) if hasattr(pb_utils, "MetricFamily") else {}

    def passed(self, documents: int, tokens: int) -> None:
        """Counts a launched pass."""
        self.documents, self.tokens, self.passes = self.documents + documents, self.tokens + tokens, self.passes + 1

    def answered(self) -> None:
        """Counts a request that has its results; called by the replying thread, if there is one."""
        self.answers += 1

    def publish(self, queued_tokens: int) -> None:
        """Sends the counts to the server, about once a second."""
        now = time.monotonic()
        if not self._metrics or now < self._due:
            return
        self._due = now + EVERY_SECONDS
        try:
            self._send(queued_tokens)
            self._works = True
        except Exception as error:  # a failure is logged once and does not stop the answers
            if self._works:
                self.note(f"metrics are not published: {type(error).__name__}: {error}")
            self._works = False

    def _send(self, queued_tokens: int) -> None:
        counts = {
            "answers_total": self.answers,
            "documents_total": self.documents,
            "tokens_total": self.tokens,
            "passes_total": self.passes,
            "pass_seconds_total": self.seconds(),
        }
        passes, tokens = (counts[name] - self._sent[name] for name in ("passes_total", "tokens_total"))
        for name, value in counts.items():
            if value > self._sent[name]:
                self._metrics[name].increment(value - self._sent[name])
                self._sent[name] = value
        self._metrics["queued_tokens"].set(queued_tokens)
        self._metrics["pass_fill"].set(tokens / (passes * self._budget) if passes else 0.0)
        self._metrics["peak_memory_bytes"].set(self._peak())


def _metrics(pb_utils: Any, model: str) -> dict[str, Any]:
    family = pb_utils.MetricFamily
    kinds = dict.fromkeys(COUNTERS, family.COUNTER) | dict.fromkeys(GAUGES, family.GAUGE)
    metrics: dict[str, Any] = {}
    for name, description in (COUNTERS | GAUGES).items():
        of = family(name=f"enginehouse_encoder_{name}", description=description, kind=kinds[name])
        metrics[name] = of.Metric(labels={"model": model})
        metrics[f"{name} family"] = of  # keeps a reference, because a metric ends with its family
    return metrics
