"""`enginehouse cost` as typed, and the Prometheus that it queries."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest
from click.testing import CliRunner

from deploy.__main__ import main as enginehouse
from deploy.io.cost import cost_of
from deploy.io.prometheus import asker, window_of
from deploy.refusals.errors import Refusal
from tests.unit.test_cost import ENCODERS, H100, HOUR, SERVED, plan


def test_no_price_is_built_in() -> None:
    """Without a price, no cost is computed: the command refuses."""
    done = CliRunner().invoke(enginehouse, ["cost", "inventories/h100.py", "--json"])
    assert [refusal["kind"] for refusal in json.loads(done.output)["refusals"]] == ["no-price"]


def answers(query: str) -> list[tuple[dict[str, str], float]]:
    """The answers of a Prometheus whose fleet served HOUR."""
    triton = {"instance": "h/main"}
    if "gateway_tokens" in query:
        of_gateway = {"instance": "h", "model": "gpt-oss-20b"}
        kinds = {"prompt": 1_000_000.0, "completion": 250_000.0}
        counted_twice = ({"instance": "h", "model": "bge", "kind": "prompt"}, 9.0)
        return [(of_gateway | {"kind": kind}, value) for kind, value in kinds.items()] + [counted_twice]
    if "encoder_documents" in query:
        return [(triton | {"model": "bge"}, 60_000.0), (triton | {"model": "nomic"}, 10_000.0)]
    if "encoder_pass_seconds" in query:
        return [(triton | {"model": "bge"}, 300.0), (triton | {"model": "nomic"}, 100.0)]
    return [({"instance": "h", "gpu": "0"}, 0.5)] if "DCGM" in query else []


def test_counters_of_prometheus_become_a_window() -> None:
    """A host is the part of `instance` before the slash; a gateway's tokens of an encoder are not added to its own."""
    assert window_of(answers, "1h") == HOUR


class Answers(BaseHTTPRequestHandler):
    """The instant queries of Prometheus, answered from `answers`."""

    def do_GET(self) -> None:
        (query,) = parse_qs(urlparse(self.path).query)["query"]
        rows = [{"metric": labels, "value": [0, f"{value:g}"]} for labels, value in answers(query)]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Writes no log line."""


def test_cost_asks_a_prometheus_and_says_how_busy_the_fleet_was(tmp_path: Path) -> None:
    """Five queries over HTTP; the utilisation is a half."""
    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=lambda: [server.handle_request() for _ in range(5)])
    thread.start()
    (tmp_path / "audit").write_text(
        'Nov 23 a line\n{"tenant":"a","model":"gpt-oss-20b","prompt_tokens":1}\n{"tenant"\n'
    )
    report = cost_of(
        plan(**SERVED),
        H100,
        prometheus=f"http://127.0.0.1:{server.server_port}/",
        window="1h",
        audit=tmp_path / "audit",
        by=("tenant", "model"),
    )
    thread.join()
    server.server_close()
    assert (report.utilisation, report.lines[0].key) == (0.5, ("a", "gpt-oss-20b"))
    assert any("utilisation 50.0%" in note for note in report.notes)


def test_a_prometheus_that_is_not_there_is_refused() -> None:
    """The refusal names a command that queries Prometheus."""
    with pytest.raises(Refusal, match="did not answer"):
        asker("http://127.0.0.1:1")("up")


@pytest.mark.parametrize(
    "words",
    [
        ["--by", "tenant"],
        ["--by", "colour"],
        ["--spot-per-hour", "1"],
        ["--interruptions-per-day", "1"],
        ["--bench", "pyproject.toml"],
        ["--bench", "benchmarks/results/gateway.json"],
        ["--from-prometheus", "http://127.0.0.1:1", "--window", "soon"],
    ],
)
def test_wrong_options_of_cost_are_refused_with_a_way_out(words: list[str]) -> None:
    """The exit status is 1, and the message has a remedy."""
    done = CliRunner().invoke(enginehouse, ["cost", "inventories/h100.py", "--per-hour", "2.49", *words])
    assert (done.exit_code, "  try " in done.output) == (1, True)


def test_cost_says_floor_of_saturation_and_names_its_source() -> None:
    """The floor is not divided by the utilisation unless a utilisation is passed."""
    words = ["cost", "inventories/h100.py", "--per-hour", "2.49", "--bench", ENCODERS]
    output = CliRunner().invoke(enginehouse, words).output
    assert "floor: the cost of a unit if the load keeps the card full" in output
    assert "0.000103" in output and "gpt-oss-20b" in output and "not measured on h100-80" in output
    assert f"measured: {ENCODERS}, 2026-11-22" in output
    half = CliRunner().invoke(enginehouse, [*words, "--utilisation", "50"]).output
    assert "at 50% utilisation, as typed" in half and "0.000205" in half
