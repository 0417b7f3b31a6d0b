"""`Balancer(clients=…)` on a machine: every port refuses clients without a certificate of the authority.

The balancer is deployed over SSH like any host. A small server here replaces the gateway of the host behind it, whose
Triton is down.
"""

from __future__ import annotations

import http.client
import shutil
import socketserver
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
import pytest

from rehearsal import machines, requirements
from rehearsal.hardware import NO_GPU
from rehearsal.machine import Machine
from rehearsal.network import Network
from rehearsal.places import REPOSITORY, Places
from tests.faults.scene import until
from tests.rehearsal.operator import Operator, Run
from tests.unit.certificates import write_certificate

pytestmark = [pytest.mark.rehearsal, pytest.mark.faults, pytest.mark.xdist_group("number-6")]

PLACES = Places(REPOSITORY / ".rehearsal" / "number-6", 6)
INVENTORY = "tests/rehearsal/inventories/client_certificates.py"
GATEWAY, HTTP, GRPC = 443, 8443, 8444
AGENT = 8004
HAPROXY = "systemctl show -P MainPID -P ActiveEnterTimestampMonotonic enginehouse-balancer"


class _Gateway(BaseHTTPRequestHandler):
    """The gateway of the host, which answers everything."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answers health checks and clients."""
        self.send_response(200)
        self.send_header("content-length", "4")
        self.end_headers()
        self.wfile.write(b"here")

    def log_message(self, format: str, *words: object) -> None:
        """Prints nothing."""


class _Agent(socketserver.StreamRequestHandler):
    """The host's answers to agent-checks."""

    def handle(self) -> None:
        """Reports that the host serves."""
        self.rfile.readline()
        self.wfile.write(b"ready\n")


class _Host(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores the error, since HAProxy closes a health check once it has the status."""


class _Agents(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True


@dataclass
class Story:
    """The machine, its operator, and the first run."""

    machine: Machine
    operator: Operator
    first: Run

    def deploy(self) -> Run:
        """Runs a deploy for the balancer, the only machine."""
        run = self.operator.pyinfra("--limit", "e1", inventory=INVENTORY)
        assert run.code == 0, run.output[-4000:]
        return run

    def status(self, port: int, own: Path | None) -> int:
        """Returns the status of an answer to a client with this certificate; 0 if the balancer ends the handshake."""
        context = ssl.create_default_context(cafile=str(PLACES.root / "edge.pem"))
        context.check_hostname = False
        if own:
            context.load_cert_chain(own, own.with_suffix(".key"))
        line = http.client.HTTPSConnection(self.machine.address, port, timeout=30, context=context)
        try:
            line.request("GET", "/v1/models")
            return line.getresponse().status
        except (ssl.SSLError, ConnectionError):
            return 0
        finally:
            line.close()

    def grpc_status(self, own: Path | None) -> str:
        """Returns the gRPC status for a client, with its own certificate or without."""
        pair = [own.with_suffix(".key").read_bytes(), own.read_bytes()] if own else []
        credentials = grpc.ssl_channel_credentials((PLACES.root / "edge.pem").read_bytes(), *pair)
        options = [("grpc.ssl_target_name_override", "localhost")]
        with grpc.secure_channel(f"{self.machine.address}:{GRPC}", credentials, options) as channel:
            try:
                channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=30)
            except grpc.RpcError as error:
                return str(error.code().name)
        return "OK"


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """Yields the balancer after its first deploy; removes it before and afterwards."""
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    bridge = Network(PLACES.number).bridge_address
    machines.down(PLACES)
    operator = Operator.fresh(PLACES)
    try:
        (machine,) = machines.up(["e1"], "12", NO_GPU, PLACES)
        for name in ("edge", "clients", "stranger"):
            write_certificate(PLACES.root, name)
        with _Host((bridge, 8080), _Gateway) as host, _Agents((bridge, AGENT), _Agent) as agents:
            for server in (host, agents):
                threading.Thread(target=server.serve_forever, daemon=True).start()
            story = Story(machine, operator, Run(0, "", [], {}, 0.0))
            story.first = story.deploy()
            yield story
            for server in (host, agents):
                server.shutdown()
    finally:
        machines.down(PLACES)


def test_clients_with_the_authoritys_certificate_reach_the_gateway(story: Story) -> None:
    assert until(lambda: story.status(GATEWAY, PLACES.root / "clients.pem") == 200, 60)


def test_clients_without_an_accepted_certificate_are_refused_at_every_port(story: Story) -> None:
    """Clients with a valid certificate are admitted: 503 and UNAVAILABLE mean that no Triton is behind the port."""
    signed, stranger = PLACES.root / "clients.pem", PLACES.root / "stranger.pem"
    assert [story.status(port, None) for port in (GATEWAY, HTTP)] == [401, 401]
    assert [story.status(port, stranger) for port in (GATEWAY, HTTP)] == [0, 0]
    assert story.status(HTTP, signed) == 503
    assert [story.grpc_status(own) for own in (None, stranger, signed)] == [
        "UNAUTHENTICATED",
        "UNAVAILABLE",
        "UNAVAILABLE",
    ]


def test_a_second_run_changes_nothing(story: Story) -> None:
    assert story.deploy().changed == {}


def test_another_authority_takes_the_first_one_s_place_and_haproxy_goes_on(story: Story) -> None:
    process, stranger = story.machine.run(HAPROXY).stdout, PLACES.root / "stranger.pem"
    before = (PLACES.root / "clients.pem").read_bytes()
    (PLACES.root / "clients.pem").write_bytes(stranger.read_bytes())
    (PLACES.root / "first.pem").write_bytes(before)
    shutil.copy(PLACES.root / "clients.key", PLACES.root / "first.key")
    assert story.deploy().changed
    assert until(lambda: story.status(GATEWAY, stranger) == 200, 60)
    assert story.status(GATEWAY, PLACES.root / "first.pem") == 0
    assert story.machine.run(HAPROXY).stdout == process
