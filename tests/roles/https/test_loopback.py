"""The role's configuration in a real HAProxy before stand-ins of the gateway and of certbot."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from deploy.spec import Https
from roles._shipping.texts import HERE
from roles.https.config import Places, config
from roles.https.operations import TRUSTED
from tests.faults.scene import until
from tests.ports import free_ports
from tests.roles.balancer.bench import HAPROXY
from tests.roles.https.test_role import slice_of
from tests.unit.certificates import write_certificate

ADDRESS = "127.0.0.1"
SECONDS = 120


class Gateway(BaseHTTPRequestHandler):
    """Answers every request with its path and headers."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps({"path": self.path, "headers": dict(self.headers)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Writes no log line."""


class Server(ThreadingHTTPServer):
    """A gateway; a health check that disconnects early is not an error."""

    def handle_error(self, *_: Any) -> None:
        """Ignores the error."""


class Front:
    """HAProxy as the role configures it, before one process of the gateway."""

    def __init__(self, folder: Path, **declared: Any) -> None:
        self.folder = folder
        self.backend = Server((ADDRESS, 0), Gateway)
        threading.Thread(target=self.backend.serve_forever, daemon=True).start()
        (self.port,) = free_ports(1)
        https = Https(address=ADDRESS, port=self.port, **declared)
        mine = slice_of(https)
        assert mine.gateway
        mine = replace(mine, gateway=replace(mine.gateway, ports=(self.backend.server_port,)))
        self.write_certificate()
        (folder / "haproxy.cfg").write_text(config(mine, https, Places(str(folder / "shown.pem"), user="")))
        self.process = subprocess.Popen(
            [HAPROXY, "-W", "-f", str(folder / "haproxy.cfg")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def write_certificate(self) -> None:
        """Writes a new certificate with its key in one file, as certificate.sh does."""
        file = write_certificate(self.folder, "made")
        (self.folder / "shown.pem").write_bytes(file.read_bytes() + file.with_suffix(".key").read_bytes())

    def context(self) -> ssl.SSLContext:
        """TLS settings of a client that trusts only the current certificate."""
        return ssl.create_default_context(cafile=str(self.folder / "made.pem"))

    def ask(self, path: str, **headers: str) -> tuple[int, Any]:
        """Status and JSON of an answer over TLS."""
        line = http.client.HTTPSConnection("localhost", self.port, context=self.context(), timeout=SECONDS)
        with contextlib.closing(line):
            line.request("GET", path, headers=headers)
            answer = line.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith(b"{") else dict(answer.headers)

    def serves(self) -> bool:
        """True once a client gets an answer from the gateway."""
        with contextlib.suppress(OSError):
            return self.ask("/v1/models")[0] == 200
        return False

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.backend.shutdown()
        self.backend.server_close()


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    """A running HAProxy."""
    with contextlib.closing(Front(tmp_path)) as front:
        assert until(front.serves, SECONDS)
        yield front


def test_a_client_reaches_the_gateway_over_tls_with_its_key(front: Front) -> None:
    status, answer = front.ask("/v1/models", Authorization="Bearer eh-key")
    assert (status, answer["path"], answer["headers"]["authorization"]) == (200, "/v1/models", "Bearer eh-key")


def test_the_gateway_believes_nothing_that_a_client_says_of_its_way(front: Front) -> None:
    made_up = {"X-Forwarded-For": "192.0.2.1", "Forwarded": "for=192.0.2.1", "traceparent": "00-1-1-01"}
    _, answer = front.ask("/v1/models", **made_up)
    assert not {name.lower() for name in made_up} & {name.lower() for name in answer["headers"]}


def test_metrics_are_for_the_host_and_health_says_no_names(front: Front) -> None:
    assert front.ask("/metrics")[0] == 404
    status, answer = front.ask("/health")
    assert status == 200 and "path" not in answer


def test_no_client_is_answered_in_plain_text(front: Front) -> None:
    line = http.client.HTTPConnection(ADDRESS, front.port, timeout=SECONDS)
    with pytest.raises((http.client.HTTPException, OSError)):
        line.request("GET", "/v1/models")
        line.getresponse()
    line.close()


def test_http_2_is_offered_over_tls_of_today(front: Front) -> None:
    context = front.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection((ADDRESS, front.port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as spoken,
    ):
        assert spoken.selected_alpn_protocol() == "h2" and spoken.version() in ("TLSv1.2", "TLSv1.3")


def test_an_address_has_a_request_limit_per_minute(tmp_path: Path) -> None:
    with contextlib.closing(Front(tmp_path, address_requests=5)) as front:
        assert until(front.serves, SECONDS)
        assert until(lambda: front.ask("/v1/models")[0] == 429, SECONDS)


def test_a_renewed_certificate_is_shown_after_a_reload(front: Front) -> None:
    front.write_certificate()
    os.kill(front.process.pid, signal.SIGUSR2)
    assert until(front.serves, SECONDS), "a client that trusts the new certificate alone is served"


CERTBOT = """#!/bin/bash
echo "$*" "${REQUESTS_CA_BUNDLE:-}" >>"$ENGINEHOUSE_HTTPS/called"
[ ! -e "$ENGINEHOUSE_HTTPS/refuses" ] || exit 1
mkdir -p acme/live/gateway-1
cp chain acme/live/gateway-1/fullchain.pem
cp key acme/live/gateway-1/privkey.pem
"""
SYSTEMCTL = """#!/bin/bash
echo "$*" >>"$ENGINEHOUSE_HTTPS/reloads"
"""


class Orders:
    """The program certificate.sh with stand-ins of certbot and systemctl."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs = folder / "https", folder / "programs"
        self.folder.mkdir()
        self.programs.mkdir()
        for name, text in {"certbot": CERTBOT, "systemctl": SYSTEMCTL}.items():
            (self.programs / name).write_text(text)
            (self.programs / name).chmod(0o755)
        (self.folder / "certbot.ini").write_text("cert-name = gateway-1\n")
        (self.folder / "issuer.pem").write_text(TRUSTED)
        (self.folder / "key").write_text("key\n")
        (self.folder / "chain").write_text("chain\n")

    def run(self) -> int:
        """Runs the program; returns its exit status."""
        path = f"{self.programs}:{os.environ['PATH']}"
        environment = {"PATH": path, "ENGINEHOUSE_HTTPS": str(self.folder)}
        command = ["bash", str(HERE / "files/shell/certificate.sh")]
        return subprocess.run(command, env=environment, check=False).returncode

    def lines(self, name: str) -> list[str]:
        """Lines of a file; none without a file."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


def test_haproxy_is_reloaded_for_a_new_certificate_and_for_no_other(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    assert [orders.run(), orders.run()] == [0, 0]
    assert orders.lines("acme.pem") == ["chain", "key"]
    (orders.folder / "chain").write_text("renewed\n")
    assert orders.run() == 0
    assert orders.lines("acme.pem") == ["renewed", "key"]
    assert orders.lines("reloads") == ["try-reload-or-restart enginehouse-https.service"] * 2
    assert (orders.folder / "acme.pem").stat().st_mode & 0o777 == 0o600


def test_an_order_that_is_refused_leaves_the_certificate_and_is_made_again(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    assert orders.run() == 0
    answered = orders.lines("ordered")
    (orders.folder / "certbot.ini").write_text("domains = other.example.com\ncert-name = gateway-1\n")
    (orders.folder / "refuses").touch()
    assert orders.run() != 0
    assert (orders.lines("acme.pem"), orders.lines("ordered")) == (["chain", "key"], answered)
    (orders.folder / "refuses").unlink()
    assert orders.run() == 0 and orders.lines("ordered") != answered


def test_an_authority_that_the_system_does_not_trust_is_believed_by_its_issuer(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    (orders.folder / "issuer.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    assert orders.run() == 0
    assert orders.lines("called") == [f"certonly --config certbot.ini {orders.folder}/issuer.pem"]
