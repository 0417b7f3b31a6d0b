"""A web server for one test: answers from a function, on loopback or a Unix socket, with a record of requests."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Answer = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Web:
    """The running server: its address, and its requests so far."""

    address: str
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.address}"


class UnixServer(ThreadingHTTPServer):
    """HTTP over a Unix socket, as Docker speaks it."""

    address_family = socketserver.socket.AF_UNIX

    def server_bind(self) -> None:
        """Binds only, because a path has no host name to look up."""
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "docker", 0


@contextmanager
def serving(answer: Callable[[Request], Answer], socket: Path | None = None) -> Iterator[Web]:
    """A server that answers each request with the result of `answer`."""

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(self.command, self.path, dict(self.headers.items()), body)
            web.requests.append(request)
            status, headers, content = answer(request)
            with contextlib.suppress(ConnectionError):  # some tests have a client that disconnects
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_POST = handle_any

        def address_string(self) -> str:
            return "test"

        def log_message(self, *arguments: object) -> None:
            pass

    server = UnixServer(str(socket), Handler) if socket else ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web = Web(str(socket) if socket else f"127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=300)
