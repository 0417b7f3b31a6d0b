"""The program that forwards a host's pages, as a monitor and as any other client reaches it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from host.metrics import Relay


class Exporter(BaseHTTPRequestHandler):
    """Answers with the requested path; `/v2/models/cold/ready` is not ready."""

    def do_GET(self) -> None:
        self.send_response(400 if "cold" in self.path else 200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(f"{self.path} {self.headers['Accept']}\n".encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[int]:
    """The port at which it answers."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def relay(*monitors: str) -> Iterator[int]:
    """A relay over an exporter, for these monitors."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Exporter)) as port:
        pages = {
            "/host": f"http://127.0.0.1:{port}/metrics",
            "/model/main/cold": f"http://127.0.0.1:{port}/v2/models/cold/ready",
            "/gone": "http://127.0.0.1:9/metrics",
        }
        settings = {"address": "127.0.0.1", "port": 0, "monitors": list(monitors), "pages": pages}
        with serving(Relay(settings)) as at:
            yield at


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    """Status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request(method, path, headers={"Accept": "application/openmetrics-text"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_a_monitor_reads_a_page_as_its_program_wrote_it() -> None:
    with relay("127.0.0.1") as port:
        assert get(port, "/host") == (200, "/metrics application/openmetrics-text\n")


def test_the_refusal_of_an_exporter_is_passed_on() -> None:
    with relay("127.0.0.1") as port:
        assert get(port, "/model/main/cold")[0] == 400


def test_a_silent_exporter_is_distinguished_from_an_unknown_page() -> None:
    with relay("127.0.0.1") as port:
        assert [get(port, path)[0] for path in ("/gone", "/metrics", "/host/..", "//127.0.0.1:22/")] == [
            502,
            404,
            404,
            404,
        ]


def test_only_read_requests_are_passed_on() -> None:
    with relay("127.0.0.1") as port:
        assert get(port, "/host", "POST")[0] == 501


def test_a_foreign_address_gets_no_answer() -> None:
    with relay("10.0.0.9") as port, pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        get(port, "/host")
