"""Prometheus' counters and histograms, as far as the gateway needs them, without a package.

Labels come from routes, known models and statuses, never from a client's text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

REASONS = (
    "left",
    "stuck",
    "invalid_api_key",
    "cut",
    "timeout",
    "unavailable",
    "overloaded",
    "upstream_error",
    "internal_error",
    "other",
)
"""Reasons for a broken stream: its client left, took nothing, or lost its key; the rest is the gateway's or model's
doing."""
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
GAPS = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0)
"""Edges of seconds between two tokens: people read at 0.1 s a token and faster; a hanging model is above the last
one."""

Labels = tuple[str, ...]


class Counter:
    """A number for each set of labels; a gauge if it also falls."""

    def __init__(self, name: str, text: str, labels: Labels, kind: str = "counter") -> None:
        self.name, self._text, self._labels, self._kind = name, text, labels, kind
        self._values: dict[Labels, float] = {}

    def add(self, labels: Labels, value: float = 1) -> None:
        self._values[labels] = self._values.get(labels, 0) + value

    def lines(self) -> Iterator[str]:
        """The lines in Prometheus' text format."""
        yield f"# HELP {self.name} {self._text}"
        yield f"# TYPE {self.name} {self._kind}"
        for labels, value in sorted(self._values.items()):
            yield f"{self.name}{_braces(self._labels, labels)} {value:g}"


class Histogram:
    """Seconds for each set of labels, in buckets up to `edges`."""

    def __init__(self, name: str, text: str, labels: Labels, edges: tuple[float, ...] = SECONDS) -> None:
        self.name, self._text, self._labels, self._edges = name, text, labels, edges
        self._buckets: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, labels: Labels, seconds: float) -> None:
        """Adds an observed duration to the histogram."""
        counts = self._buckets.get(labels)
        if counts is None:  # setdefault would allocate a list for every event
            counts = self._buckets[labels] = [0] * (len(self._edges) + 1)
            self._sums[labels] = 0.0
        counts[bisect_left(self._edges, seconds)] += 1
        self._sums[labels] += seconds

    def lines(self) -> Iterator[str]:
        """The lines in Prometheus' text format."""
        yield f"# HELP {self.name} {self._text}"
        yield f"# TYPE {self.name} histogram"
        for labels, counts in sorted(self._buckets.items()):
            total = 0
            for edge, count in zip([*map(str, self._edges), "+Inf"], counts, strict=True):
                total += count
                yield f"{self.name}_bucket{_braces((*self._labels, 'le'), (*labels, edge))} {total}"
            yield f"{self.name}_sum{_braces(self._labels, labels)} {self._sums[labels]:.6f}"
            yield f"{self.name}_count{_braces(self._labels, labels)} {total}"


class Metrics:
    """All counters and histograms of a gateway's process."""

    def __init__(self) -> None:
        request_labels = ("endpoint", "model", "status")
        self.requests = Counter("enginehouse_gateway_requests_total", "Requests ended", request_labels)
        chosen = "Requests of aliases that split or fall back, by the model that was chosen"
        self.aliases = Counter("enginehouse_gateway_alias_requests_total", chosen, ("alias", "model", "instead_of"))
        self.tokens = Counter("enginehouse_gateway_tokens_total", "Tokens of finished requests", ("model", "kind"))
        self.running = Counter("enginehouse_gateway_running", "Requests under way", ("endpoint",), "gauge")
        self.first = Histogram("enginehouse_gateway_first_token_seconds", "Seconds until a first token", ("model",))
        gap = "Seconds between two events of a stream; an event has at least one token"
        self.gaps = Histogram("enginehouse_gateway_token_gap_seconds", gap, ("model",), GAPS)
        queued = "Seconds of waiting for a ready server"
        self.queued = Histogram("enginehouse_gateway_queue_seconds", queued, ("model",))
        broken = "Streams that broke off after their beginning"
        self.broken = Counter("enginehouse_gateway_streams_broken_total", broken, ("model", "reason"))
        self.seconds = Histogram("enginehouse_gateway_request_seconds", "Of finished requests", ("endpoint", "model"))
        self._initialised: set[str] = set()

    def stream_ended(self, model: str, end: str) -> None:
        """Counts the end of a stream; `end` is "" for a complete one, else the reason."""
        # Starts at 0, because Prometheus sees no increase in a counter whose first sample is 1.
        if model not in self._initialised:
            self._initialised.add(model)
            for reason in REASONS:
                self.broken.add((model, reason), 0)
        if end:
            self.broken.add((model, end if end in REASONS else "other"))

    def page(self) -> str:
        """The page of `GET /metrics`."""
        counters = (self.requests, self.aliases, self.tokens, self.broken, self.running)
        metrics = (*counters, self.first, self.gaps, self.queued, self.seconds)
        return "".join(f"{line}\n" for metric in metrics for line in metric.lines())


def _braces(names: Labels, values: Labels) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{','.join(pairs)}}}" if names else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
