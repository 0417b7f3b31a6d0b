"""The table of `enginehouse top`: a line for each host, from a Prometheus or from two readings of the hosts' own pages.

A figure is the sum, or the maximum, of the host's series of one metric; a counter's figure is its growth per second. It
is an expression for Prometheus, or added up here from the text of the pages. Missing figures are left out: a machine
without dcgm-exporter and without a GPU in Triton's own metrics has no watts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from deploy.refusals import on_one_line

WINDOW = "1m"
MIB = 2**20
Labels = Mapping[str, str]
Sample = tuple[str, Labels, float]
"""Name, labels and value of a line of a page."""
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \d+)?")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)",?')


@dataclass(frozen=True)
class Figure:
    """A number of a host: the first of several `metrics` that the host has, each with its divisor."""

    name: str
    metrics: tuple[tuple[str, int], ...]
    label: str = ""
    values: tuple[str, ...] = ()
    """With `label`: only series of the first metric whose label has one of these values."""
    how: str = "sum"
    is_rate: bool = False

    def expression(self, metric: str) -> str:
        """The Prometheus query for the figure, by host."""
        is_chosen = self.label and metric == self.metrics[0][0]
        chosen = f'{{{self.label}=~"{"|".join(self.values)}"}}' if is_chosen else ""
        series = f"rate({metric}{chosen}[{WINDOW}])" if self.is_rate else f"{metric}{chosen}"
        return f"{self.how} by (host) ({series})"

    def of(self, now: Iterable[Sample], before: Iterable[Sample], seconds: float) -> float | None:
        """The figure of one host's pages; None if the pages lack all its metrics."""
        for metric, divisor in self.metrics:
            last = [value for name, labels, value in now if name == metric and self._counts(metric, labels)]
            if last:
                first = [value for name, labels, value in before if name == metric and self._counts(metric, labels)]
                total = sum(last) if self.how == "sum" else max(last)
                # A counter that fell was reset.
                return (max(total - sum(first), 0) / seconds if self.is_rate else total) / divisor
        return None

    def _counts(self, metric: str, labels: Labels) -> bool:
        return not self.label or metric != self.metrics[0][0] or labels.get(self.label) in self.values


FIGURES = (
    Figure(
        "tokens_per_second", (("enginehouse_gateway_tokens_total", 1),), "kind", ("prompt", "completion"), "sum", True
    ),
    Figure("requests_per_second", (("nv_inference_request_success", 1),), is_rate=True),
    Figure("running", (("enginehouse_gateway_running", 1), ("enginehouse_llm_running_requests", 1))),
    Figure("queued_tokens", (("enginehouse_encoder_queued_tokens", 1),)),
    Figure(
        "cache_share",
        (("nv_trt_llm_kv_cache_block_metrics", 1), ("enginehouse_llm_cache_share", 1)),
        "kv_cache_block_type",
        ("fraction",),
        how="max",
    ),
    Figure("gpu_used_mib", (("DCGM_FI_DEV_FB_USED", 1), ("nv_gpu_memory_used_bytes", MIB))),
    Figure("watts", (("DCGM_FI_DEV_POWER_USAGE", 1), ("nv_gpu_power_usage", 1))),
)


@dataclass
class ServerRow:
    """A server: True if it answers, its release, and its ready models."""

    is_up: bool | None = None
    release: str = ""
    models: dict[str, bool] = field(default_factory=dict)

    def __str__(self) -> str:
        """The server's state in one or two short words."""
        if self.is_up is None and not self.models:
            return "?"
        ready = sum(self.models.values())
        return f"{ready}/{len(self.models)} ready" if self.is_up or ready else "down"


@dataclass
class HostRow:
    """A host: True if it could be read, its servers by name, its figures."""

    answers: bool = False
    servers: dict[str, ServerRow] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """All hosts at one moment. `alerts` are firing ones (host, alert, severity); None without a source of alerts."""

    source: str
    hosts: dict[str, HostRow]
    alerts: tuple[tuple[str, str, str], ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists."""
        fire = None
        if self.alerts is not None:
            fire = [dict(zip(("host", "alert", "severity"), alert, strict=True)) for alert in self.alerts]
        return {"source": self.source, "hosts": {name: asdict(row) for name, row in self.hosts.items()}, "alerts": fire}


def samples(page: str) -> list[Sample]:
    return list(_samples(page.splitlines()))


def _samples(lines: Sequence[str]) -> Iterator[Sample]:
    for line in lines:
        if match := _SAMPLE.fullmatch(line):
            try:
                yield match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])
            except ValueError:
                continue


def table(snapshot: Snapshot) -> RenderableType:
    """The table for a person: a row for each server, alerts below."""
    shown = Table(box=None, pad_edge=False)
    for title in ("host", "server", "models", "release"):
        shown.add_column(title)
    for title in ("tokens/s", "requests/s", "running", "waiting", "cache", "GPU MiB", "W"):
        shown.add_column(title, justify="right")
    for name, host in sorted(snapshot.hosts.items()):
        for number, (server, row) in enumerate(sorted(host.servers.items()) or [("", None)]):
            first = number == 0
            state = "" if row is None else str(row)
            style = "red" if not host.answers or state in ("down", "?") else None
            figures = _figures(host.figures) if first else [""] * len(FIGURES)
            title = (name if host.answers else f"{name}  no answer") if first else ""
            shown.add_row(title, server, state, on_one_line(row.release) if row else "", *figures, style=style)
    return Group(shown, Text(""), *_alerts(snapshot), Text(f"from {snapshot.source}", style="dim"))


def _figures(figures: Mapping[str, float]) -> list[str]:
    """The figures in the order of their columns."""
    texts = []
    for figure in FIGURES:
        value = figures.get(figure.name)
        if value is None:
            texts.append("-")
        else:
            texts.append(
                f"{value:.0%}"
                if figure.name == "cache_share"
                else f"{value:,.1f}"
                if figure.is_rate
                else f"{value:,.0f}"
            )
    return texts


def _alerts(snapshot: Snapshot) -> list[Text]:
    if snapshot.alerts is None:
        return [
            Text(
                "alerts: the inventory has no monitor; enginehouse doctor INVENTORY checks the hosts once", style="dim"
            )
        ]
    if not snapshot.alerts:
        return [Text("no alert fires", style="green")]
    return [Text(f"{alert}  {host}  ({severity})", style="red") for host, alert, severity in snapshot.alerts]
