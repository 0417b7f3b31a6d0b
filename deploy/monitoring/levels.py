"""Service levels of the gateway, and alerts on the speed at which a month's budget of bad requests is spent.

Burn rates and windows are those of Google's SRE workbook, chapter 5 (read 2026-11-22). A month's budget that is spent
14.4 times too fast is gone in two days. The long window shows that the rate matters, the short window that the rate
continues. At a few requests an hour a single failure would look like an outage, so no alert fires below
`floor_requests` in the long window; the watchdog's probes report a silent model.

A request is bad if its status is 5xx, a stream if the gateway or the model broke it. A client's own mistake (4xx) or
cancellation (499) is not.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from deploy.monitoring.alert import Alert, Recording, Severity


@dataclass(frozen=True)
class Burn:
    """A speed at which the budget is spent; factor 1 spends the budget of 30 days in 30 days."""

    factor: float
    long: str
    short: str
    severity: Severity
    gone: str


BURNS = (
    Burn(14.4, "1h", "5m", "page", "2Days"),
    Burn(6, "6h", "30m", "page", "5Days"),
    Burn(1, "3d", "6h", "ticket", "30Days"),
)
WINDOWS = ("5m", "30m", "1h", "6h", "3d")
SECONDS = {"1h": 3_600, "6h": 21_600, "3d": 259_200}


@dataclass(frozen=True)
class Level:
    """A service level: the share of a model's requests that must be good over 30 days.

    `bad` and `all` are requests a second by model over the range WINDOW. `floor_requests` is the least number of
    requests in the long window for its share of bad ones to count.
    """

    name: str
    good_percent: float
    bad: str
    all: str
    means: str
    remedy: str
    floor_requests: int = 50

    @property
    def budget(self) -> float:
        return round(1 - self.good_percent / 100, 6)


def slow(histogram: str, seconds: str, matching: str = "") -> str:
    """Requests a second, by model, that took longer than `seconds`, a bucket edge of the histogram."""
    comma = "," if matching else ""
    total = f"sum by (model) (rate({histogram}_count{{{matching}}}[WINDOW]))"
    return f'{total} - sum by (model) (rate({histogram}_bucket{{{matching}{comma}le="{seconds}"}}[WINDOW]))'


REQUESTS = "enginehouse_gateway_requests_total"
BROKEN = "enginehouse_gateway_streams_broken_total"
CLIENTS = "left|stuck|invalid_api_key"
"""Reasons of broken streams for which the client is responsible."""
GAP = "enginehouse_gateway_token_gap_seconds"
QUEUE = "enginehouse_gateway_queue_seconds"
FIRST = "enginehouse_gateway_first_token_seconds"
WHOLE = "enginehouse_gateway_request_seconds"
ENCODERS = 'endpoint=~"embeddings|rerank"'

LEVELS = (
    Level(
        "Answers",
        99.5,
        # The labels differ, so `or` keeps both; a stream that broke has the status with which it began, 200.
        f'sum by (model) (rate({REQUESTS}{{status=~"5.."}}[WINDOW]) or rate({BROKEN}{{reason!~"{CLIENTS}"}}[WINDOW]))',
        f"sum by (model) (rate({REQUESTS}[WINDOW]))",
        "too many requests fail, and not because of their clients",
        "enginehouse ask INVENTORY {{ $labels.model }}; enginehouse drift INVENTORY; after a deploy: pyinfra INVENTORY "
        "rollback.py",
    ),
    Level(
        "FirstToken",
        95,
        slow(FIRST, "2.5"),
        f"sum by (model) (rate({FIRST}_count[WINDOW]))",
        "too many answers take more than 2.5 s to the first token",
        "compare the model's running requests and prompt tokens with last week's: the fleet is too small, or a deploy "
        "made it slower (pyinfra INVENTORY rollback.py)",
    ),
    Level(
        "Encoders",
        95,
        slow(WHOLE, "0.5", ENCODERS),
        f"sum by (model) (rate({WHOLE}_count{{{ENCODERS}}}[WINDOW]))",
        "too many vectors or scores take longer than 0.5 s",
        "compare the model's queued tokens with last week's: the fleet is too small, or a deploy made it slower "
        "(pyinfra INVENTORY rollback.py)",
    ),
)


def recordings(level: Level) -> Iterator[Recording]:
    for window in WINDOWS:
        bad, every = level.bad.replace("WINDOW", window), level.all.replace("WINDOW", window)
        yield Recording(ratio(level, window), f"({bad}) / ({every} > 0)")
        if window in SECONDS:
            yield Recording(count(level, window), f"{every} * {SECONDS[window]}")


def alerts(level: Level) -> Iterator[Alert]:
    for burn in BURNS:
        limit = f"{burn.factor * level.budget:g}"
        burning = f"{ratio(level, burn.long)} > {limit} and {ratio(level, burn.short)} > {limit}"
        yield Alert(
            f"{level.name}BudgetGoneIn{burn.gone}",
            f"{burning} and {count(level, burn.long)} >= {level.floor_requests}",
            burn.severity,
            f"{{{{ $labels.model }}}}: {level.means} ({{{{ $value | humanizePercentage }}}} in {burn.long}, "
            f"{100 - level.good_percent:g}% are allowed)",
            level.remedy,
        )


def ratio(level: Level, window: str) -> str:
    return f"enginehouse:{level.name.lower()}_bad:ratio_rate{window}"


def count(level: Level, window: str) -> str:
    return f"enginehouse:{level.name.lower()}:requests{window}"
