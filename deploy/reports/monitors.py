"""The report of monitors: their targets, their ports, and the networks with access."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.text import Text

from deploy.slices.monitor import MonitorSlice


def monitors_report(monitors: Iterable[MonitorSlice]) -> Iterator[RenderableType]:
    for monitor in monitors:
        yield Text(f"{monitor.host}   Prometheus and Alertmanager of {monitor.os}, {monitor.address}", style="bold")
        jobs = [target.job for target in monitor.targets]
        counts = ", ".join(f"{job} {jobs.count(job)}" for job in dict.fromkeys(jobs))
        yield Text(f"reads every {monitor.scrape_seconds} s: {counts}")
        kept = f"{monitor.retention_days} days or {monitor.retention_mib:,} MiB, whichever is reached first"
        yield Text(f"keeps samples for {kept}")
        readers = ", ".join(monitor.readers) or "this host alone"
        yield Text(
            f"Prometheus {monitor.listen}:{monitor.prometheus_port}, Alertmanager :{monitor.alertmanager_port}, "
            f"read by {readers}"
        )
        yield Text("alerts are sent to the receivers" if monitor.receivers else "alerts are only shown: no receivers")
        yield Text("")
