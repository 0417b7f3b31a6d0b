"""Metrics of the kept scrapes, with the values of each label."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from deploy.monitoring.rules import groups
from tests.monitoring.promql import parse

SCRAPES = Path(__file__).parent / "scrapes"
UNSEEN = {("enginehouse_gpu_xids", "remedy"): {"reset", "vendor", "unknown"}}
"""Values that one scrape cannot hold: files/host/gpu_state.py writes the remedies of deploy/catalog/xids.py."""
OF_TARGETS = frozenset({"job", "instance"})
"""Labels that Prometheus adds from its scrape job."""
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)",?')


@dataclass
class Metric:
    """A metric: its job, whether it comes from a machine, its type, and its label sets."""

    job: str
    is_recorded: bool
    kind: str
    series: list[dict[str, str]] = field(default_factory=list)

    def values(self, label: str) -> set[str]:
        """Returns the label's values; empty if no series has it."""
        return {labels[label] for labels in self.series if label in labels}

    @property
    def labels(self) -> set[str]:
        """Returns the labels of every series."""
        return set.intersection(*(set(labels) for labels in self.series)) if self.series else set()


@functools.cache
def metrics() -> dict[str, Metric]:
    """Returns all metrics by the names of their samples, with `up`, `ALERTS` and recorded ones."""
    known_metrics = {"up": Metric("", True, "gauge", [{}])}
    known_metrics["ALERTS"] = Metric(
        "", True, "gauge", [{"alertname": "Any", "alertstate": "firing", "severity": "page"}]
    )
    for rule in (rule for group in groups() for rule in group["rules"] if "record" in rule):
        known_metrics[rule["record"]] = Metric("", True, "gauge", [{"model": "any"}])
    for path in sorted(SCRAPES.glob("*.prom")):
        head, job, *lines = path.read_text().splitlines()
        kinds: dict[str, str] = {}
        for name, kind, labels in samples(lines):
            family = re.sub(r"_(bucket|sum|count)$", "", name) if kind == "histogram" else name
            kinds.setdefault(family, kind)
            metric = known_metrics.setdefault(
                name, Metric(job.removeprefix("# job: "), head.startswith("# recorded "), kind)
            )
            metric.series.append(labels)
    return known_metrics


def wrong_names(expression: str) -> list[str]:
    """Returns metrics, labels and label values that the expression reads and no kept scrape has."""
    wrong, parsed = [], parse(expression)
    for selector in parsed.selectors:
        metric = metrics().get(selector.metric)
        if metric is None:
            wrong.append(f"no scrape has {selector.metric}")
            continue
        known = metric.labels | OF_TARGETS
        unknown = (parsed.labels | {label for label, _, _ in selector.matchers}) - known
        wrong += [f"{selector.metric} has no label {label}" for label in sorted(unknown)]
        for label, operator, value in selector.matchers:
            if label in known - OF_TARGETS and operator in ("=", "=~"):
                pattern = re.compile(value if operator == "=~" else re.escape(value))
                values = metric.values(label) | UNSEEN.get((selector.metric, label), set())
                if not any(pattern.fullmatch(known_value) for known_value in values):
                    wrong.append(f"no {selector.metric} was seen with {label}{operator}{value}")
    return wrong


def samples(lines: list[str]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yields name, type and labels of each sample."""
    kind = ""
    for line in lines:
        if line.startswith("# TYPE "):
            kind = line.split()[3]
        elif line and not line.startswith("#"):
            match = _SAMPLE.match(line)
            assert match, line
            yield match[1], kind, dict(_LABEL.findall(match[2] or ""))
