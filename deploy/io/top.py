"""Sources of `enginehouse top`: the Prometheus of a monitor; without one, each host's own pages over ssh.

A monitor that answers only on loopback is asked over ssh too. Changes nothing.
"""

import shlex
import subprocess
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from deploy.inventory.ssh_config import ssh_words
from deploy.io.output import output_of
from deploy.io.prometheus import Ask, Row, asker, rows_of
from deploy.models.files import ROOT
from deploy.monitoring.top import FIGURES, HostRow, Sample, ServerRow, Snapshot, samples
from deploy.planning.plan import Plan
from deploy.refusals import refuse
from deploy.slices.host import ServerSlice, Slice
from deploy.slices.monitor import MonitorSlice
from deploy.topology.balancing import LOOPBACK, is_loopback
from deploy.topology.monitors import in_address

SECONDS = 30
APART_SECONDS = 2
"""Seconds between the two readings of a host's counters."""
AT_ONCE = 32
MARK = "# enginehouse page "
Data = Mapping[str, Mapping[str, Any]]


def source_of(plan: Plan, data: Data) -> Callable[[], Snapshot]:
    """A function that reads all hosts once; `data` holds each host's data by its name."""
    if plan.monitors:
        monitor = plan.monitors[0]
        place = in_address(monitor.listen, monitor.prometheus_port)
        through = is_loopback(monitor.listen)
        ask = over_ssh(monitor, data[monitor.host]) if through else asker(f"http://{place}")
        return lambda: of_prometheus(plan, ask, f"Prometheus of {monitor.host}")
    return lambda: of_hosts(plan, data)


def of_prometheus(plan: Plan, ask: Ask, source: str) -> Snapshot:
    """The planned hosts with their figures from Prometheus: one query per figure for all hosts."""
    hosts = {slice_.host: planned(slice_) for slice_ in plan.slices}
    hosts |= {balancer.host: HostRow() for balancer in plan.balancers}
    for labels, value in ask('max by (host) (up{job="host"})'):
        if labels.get("host") in hosts:
            hosts[labels["host"]].answers = bool(value)
    for figure in FIGURES:
        for metric, divisor in reversed(figure.metrics):  # the first metric overwrites the others
            for labels, value in ask(figure.expression(metric)):
                if row := hosts.get(labels.get("host", "")):
                    row.figures[figure.name] = value / divisor
    for server, _labels, value in _of_servers(hosts, ask('up{job="triton"}')):
        server.is_up = bool(value)
    for server, labels, value in _of_servers(hosts, ask('probe_success{job="probe"}')):
        server.models["/".join(labels["instance"].split("/")[2:])] = bool(value)
    for labels, _ in ask("enginehouse_watch_release"):
        host = hosts.get(labels.get("host", ""))
        if host and labels.get("server", "") in host.servers:
            host.servers[labels["server"]].release = labels.get("release", "")
    # An alert on several models of a host is listed once.
    fire = sorted(
        {
            (labels.get("host") or labels.get("model", ""), labels.get("alertname", ""), labels.get("severity", ""))
            for labels, _ in ask('ALERTS{alertstate="firing"}')
        }
    )
    return Snapshot(source, hosts, tuple(fire))


def planned(slice_: Slice) -> HostRow:
    return HostRow(servers={server.name: ServerRow() for server in slice_.servers})


def _of_servers(hosts: Mapping[str, HostRow], rows: list[Row]) -> Iterator[tuple[ServerRow, dict[str, str], float]]:
    for labels, value in rows:
        host, _, rest = labels.get("instance", "").partition("/")
        server = hosts[host].servers.get(rest.split("/")[0]) if host in hosts else None
        if server:
            yield server, labels, value


def over_ssh(monitor: MonitorSlice, data: Mapping[str, Any]) -> Ask:
    """A function that asks a Prometheus on the loopback of its host."""
    ssh, place = ssh_words(monitor.host, data), in_address(monitor.listen, monitor.prometheus_port)

    def ask(query: str) -> list[Row]:
        """Labels and value of each series; series without a number are left out."""
        address = f"http://{place}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        done = _output(ssh, f"curl -fsS --noproxy '*' --max-time 20 {shlex.quote(address)}")
        try:
            return rows_of(done or "")
        except ValueError:
            raise refuse(
                "no-prometheus",
                f"Prometheus of {monitor.host} does not answer",
                where="monitor",
                seen="no answer over ssh",
                wanted="a monitor that was deployed",
                attempt=shlex.join([*ssh, "systemctl status enginehouse-prometheus"]),
            ) from None

    return ask


@dataclass(frozen=True)
class Pages:
    """A host's pages: its samples, read twice, and the state and release of each server."""

    before: list[Sample]
    now: list[Sample]
    servers: dict[str, tuple[bool, str]]


def of_hosts(plan: Plan, data: Data) -> Snapshot:
    """The planned hosts as their own pages show them: one command per host, all at once; counters are read twice."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        pages_of_hosts = list(
            pool.map(lambda slice_: pages_of(_output(_words(slice_, data), reading(slice_))), plan.slices)
        )
    return Snapshot(
        "the hosts themselves; a Monitor in the inventory would know more",
        {slice_.host: row_of(slice_, pages) for slice_, pages in zip(plan.slices, pages_of_hosts, strict=True)},
    )


def row_of(slice_: Slice, pages: Pages | None) -> HostRow:
    """The host's row; a host without pages did not answer."""
    row = planned(slice_)
    if pages is None:
        return row
    row.answers = True
    for figure in FIGURES:
        value = figure.of(pages.now, pages.before, APART_SECONDS)
        if value is not None:
            row.figures[figure.name] = value
    misses = {
        (labels.get("server"), labels.get("model")): value
        for name, labels, value in pages.now
        if name == "enginehouse_watch_misses"
    }
    for server in slice_.servers:
        is_up, release = pages.servers.get(server.name, (False, ""))
        ready = {model.name: is_up and not misses.get((server.name, model.name), 0) for model in server.models}
        row.servers[server.name] = ServerRow(is_up, release, ready)
    return row


def reading(slice_: Slice) -> str:
    """The shell that prints a host's pages, waits, and prints them again."""
    urls = [_metrics(server) for server in slice_.servers]
    if slice_.gateway:
        urls += [f"http://{in_address(slice_.gateway.address, port)}/metrics" for port in slice_.gateway.ports]
    fetched = "; ".join(f"curl -fsS --noproxy '*' --max-time 5 {url}" for url in urls) or "true"
    states = "; ".join(
        f'echo "# server {server.name} $(systemctl is-active triton@{server.name})'
        f' $(basename "$(readlink {ROOT}/servers/{server.name}/current)")"'
        for server in slice_.servers
    )
    return (
        f"{{ echo '{MARK}1'; {fetched}; sleep {APART_SECONDS}; echo '{MARK}2'; {fetched};"
        f" cat {ROOT}/metrics/*.prom; {states or 'true'}; }} 2>/dev/null; true"
    )


def pages_of(text: str | None) -> Pages | None:
    """The pages in the shell's output; None without pages."""
    if text is None or f"{MARK}2\n" not in text:
        return None
    first, _, second = text.partition(f"{MARK}2\n")
    rows = [line.split() for line in second.splitlines() if line.startswith("# server ")]
    servers = {row[2]: (row[3] == "active", row[4][:64] if len(row) > 4 else "") for row in rows if len(row) > 3}
    return Pages(samples(first), samples(second), servers)


def _metrics(server: ServerSlice) -> str:
    address = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(server.address, server.address)
    return f"http://{in_address(address, server.metrics_port)}/metrics"


def _words(slice_: Slice, data: Data) -> list[str]:
    return ssh_words(slice_.host, data[slice_.host])


def _output(ssh: list[str], command: str) -> str | None:
    """The output of a command over ssh; None if it could not be run."""
    try:
        done = output_of([*ssh, command], seconds=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.status or done.is_too_long else done.stdout
