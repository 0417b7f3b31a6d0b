"""Three machines of Debian 12: one that serves, a balancer before it, and the monitor of both."""

from __future__ import annotations

import datetime
import http.server
import json
import os
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from deploy.monitoring.dashboards import DASHBOARDS
from rehearsal import machines, requirements, services
from rehearsal.hardware import NO_GPU
from rehearsal.machine import Machine
from rehearsal.network import Network
from rehearsal.places import REPOSITORY, Places, RehearsalRefused
from rehearsal.pyinfra_run import Run, pyinfra
from roles.exporters.defaults import COUNTERS, DCGM
from tests.faults.scene import until
from tests.monitoring.live import hurried

NUMBER = int(os.environ.get("ENGINEHOUSE_WATCHED_NUMBER", "5"))
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
INVENTORY = "tests/monitoring/live/inventories/fleet.py"
DEBIAN, SERVING, EDGE, MONITOR = "12", "h1", "e1", "m1"
RULES, SETTINGS = "/etc/enginehouse/monitor/rules.yml", "/etc/enginehouse/monitor/prometheus.yml"
STAND_IN = "/usr/local/lib/rehearsal/dcgm_exporter.py"
DROP_IN = f"""[Service]
ExecStartPre=
ExecStartPre=/bin/sh -c 'sha256sum /etc/systemd/system/{DCGM} {COUNTERS} > /run/enginehouse-dcgm/started'
ExecStart=
ExecStart=/usr/bin/python3 {STAND_IN} {COUNTERS} 8007
ExecStop=
"""
"""Drop-in without the container, whose image is not available here."""
ASKED = (
    ("/v1/completions", {"model": "gpt-oss-tiny", "prompt": "hello", "max_tokens": 4, "stream": True}),
    ("/v1/completions", {"model": "gpt-oss-tiny", "prompt": "hello", "max_tokens": 4}),
    ("/v1/embeddings", {"model": "minilm", "input": "hello"}),
    ("/v1/rerank", {"model": "xlmr-reranker", "query": "a", "documents": ["a", "b"]}),
    ("/v1/embeddings", {"model": "minilm"}),
)
"""Requests of each kind, and a client's mistake."""
CHOSEN = {"$instance": ".+", "$model": ".+", "$per_hour": "2", "$__rate_interval": "1m"}
"""Values of the dashboards' variables, as Grafana would fill them in."""
GATEWAY = "http://127.0.0.1:8080"
Row = dict[str, Any]


@dataclass
class Watched:
    """The machines, and the dashboards' queries that have had an answer so far."""

    serving: Machine
    edge: Machine
    eyes: Machine
    full: set[str] = field(default_factory=set)

    def deploy(self) -> Run:
        """Runs the operator's deploy command."""
        run = pyinfra(INVENTORY, "deploy.py", "-y", print_steps=False)
        with (PLACES.root / "operator.log").open("a") as log:
            log.write(f"$ pyinfra {INVENTORY} deploy.py -y\n{run.output}exit {run.code}\n\n")
        return run

    @property
    def url(self) -> str:
        """Returns the address of Prometheus."""
        return f"http://{self.eyes.address}:9090"

    def prometheus(self, query: str) -> list[Row]:
        """Returns the current series of a query. Raises: OSError while Prometheus does not answer."""
        return list(_get(f"{self.url}/api/v1/query", query=query)["data"]["result"])

    def notified(self) -> set[tuple[str, str]]:
        """Returns (alert, host) of current notifications of Alertmanager, without silenced and inhibited alerts."""
        shown = {"active": "true", "silenced": "false", "inhibited": "false"}
        alerts = _get(f"http://{self.eyes.address}:9093/api/v2/alerts", **shown)
        return {(alert["labels"]["alertname"], alert["labels"].get("host", "")) for alert in alerts}

    def alerts(self) -> set[str]:
        """Returns the names of all firing or pending alerts, notified or not."""
        rows = self.prometheus("count by (alertname) (ALERTS)")
        return {row["metric"]["alertname"] for row in rows}

    def ask(self) -> None:
        """Sends every kind of request to the gateway, and to Triton through the balancer."""
        words = [f"-d '{json.dumps(body)}' {GATEWAY}{path}" for path, body in ASKED]
        commands = "; ".join(
            f"curl -s -m 20 -H 'Content-Type: application/json' -o /dev/null {request}" for request in words
        )
        # A client that leaves after the first words.
        body = json.dumps(ASKED[0][1] | {"max_tokens": 1500})
        commands += (
            f"; curl -sN -m 20 -H 'Content-Type: application/json' -d '{body}' {GATEWAY}{ASKED[0][0]} | head -c 20"
        )
        ready = f"curl -s -m 5 -o /dev/null http://{self.edge.address}:9000/v2/models/minilm/ready"
        self.serving.run(f"{commands}; {ready}; true")

    def look(self) -> set[str]:
        """Asks the dashboards' open queries; returns the queries without an answer so far."""
        left = [query for query in queries() if query not in self.full]
        self.full |= {query for query in left if self.prometheus(query)}
        return set(left) - self.full

    def units(self) -> str:
        """Returns node-exporter's series of our units on the serving machine, as a file of tests/monitoring/scrapes."""
        names = "node_systemd_(unit_state|service_restart_total)"
        page = self.serving.run(f"curl -s http://127.0.0.1:8006/metrics | grep -E '^(# TYPE )?{names}'").stdout
        ours = [
            line for line in page.splitlines() if line[0] == "#" or 'name="triton@' in line or '="enginehouse-' in line
        ]
        today = datetime.datetime.now(datetime.UTC).date()
        head = (
            f"# recorded {today}: Debian 12's node-exporter on a rehearsal machine that serves, after a swap has failed"
        )
        return "\n".join([head, "# job: host", *ours]) + "\n"

    def hurry(self, pages: str = "") -> None:
        """Gives Prometheus copies of its files with short times, and recorded pages at `pages`, HOST:PORT."""
        for path, change in ((RULES, hurried.rules), (SETTINGS, partial(hurried.settings, pages=pages))):
            text = self.eyes.run(f"[ -e /run/hurried-{Path(path).name} ] || cp {path} /run/hurried-{Path(path).name};"
                                 f" cat /run/hurried-{Path(path).name}").stdout  # fmt: skip
            self.eyes.put(path, change(text))
        self.eyes.run("promtool check config /etc/enginehouse/monitor/prometheus.yml")
        self.eyes.run("systemctl reload enginehouse-prometheus")


@contextmanager
def up(keep: bool) -> Iterator[Watched]:
    """Yields the three machines, deployed to; removes them afterwards, or with `keep` only turns them off."""
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        raise RehearsalRefused(requirements.explain(lacking))
    if not keep:
        down()
    try:
        (serving,) = machines.up([SERVING], DEBIAN, places=PLACES)
        edge, eyes = machines.up([EDGE, MONITOR], DEBIAN, NO_GPU, PLACES)
        services.services_up()
        serving.put(STAND_IN, (Path(__file__).parent / "dcgm_exporter.py").read_text())
        serving.put(f"/etc/systemd/system/{DCGM}.d/rehearsal.conf", DROP_IN)
        serving.run("systemctl daemon-reload")
        watched = Watched(serving, edge, eyes)
        run = watched.deploy()
        if run.code:
            raise RehearsalRefused(f"the deploy ended with {run.code}\n{run.output[-6000:]}")
        if not answers_soon(watched, "up", 60):
            raise RehearsalRefused("Prometheus does not answer")
        yield watched
    finally:
        if keep:
            for machine in machines.known(PLACES):
                machine.stop()
            services.services_down()
        else:
            down()


def down() -> None:
    """Removes every machine and service of this number."""
    machines.down(PLACES)
    services.services_down()


@contextmanager
def recorded_pages(names: tuple[str, ...]) -> Iterator[str]:
    """Serves the kept scrapes of these names as one page; yields its HOST:PORT, reachable from the machines."""
    text = "".join((REPOSITORY / "tests/monitoring/scrapes" / f"{name}.prom").read_text() for name in names).encode()

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer((Network(PLACES.number).bridge_address, 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{server.server_address[0]!s}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def queries(chosen: Mapping[str, str] = CHOSEN) -> list[str]:
    """Returns every expression of every dashboard, each once."""
    expressions = [query for board in DASHBOARDS for panel in board.panels for query, _ in panel.queries]
    for name, value in chosen.items():
        expressions = [query.replace(name, value) for query in expressions]
    return list(dict.fromkeys(expressions))


def answers_soon(watched: Watched, query: str, seconds: float) -> bool:
    """Returns True once the query has series, while Prometheus may be away."""

    def has_series() -> bool:
        try:
            return bool(watched.prometheus(query))
        except OSError:
            return False

    return until(has_series, seconds)


def _get(url: str, **words: str) -> Any:
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(words)}", timeout=20) as answer:
        return json.load(answer)
