"""An HTTP proxy with a login, the only exit of some machines: CONNECT, and forwarded plain requests.

Names of the rehearsal's services resolve to the bridge, others by the outer machine's resolver. `log` has a line for
each request: its method, its target, and whether it was known, unknown or denied.
"""

from __future__ import annotations

import base64
import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from rehearsal.network import SERVICE_NAMES

PORT = 3128
USERNAME, PASSWORD = "builder@corp", "canary pa/ss:4711%"
PLACE = re.compile(r"(?:http://)?([^/:]+)(?::(\d+))?(/.*)?")
REQUEST_SECONDS = 600


@dataclass
class ForwardProxy:
    """A proxy at the bridge; `denied` are names that it never forwards to."""

    address: str
    denied: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)

    @property
    def login(self) -> str:
        return "Basic " + base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()

    def known(self, method: str = "") -> set[str]:
        """Returns the names that logged-in clients reached by this method."""
        return {line.split()[1] for line in self.log if line.startswith(method) and line.endswith(" known")}

    def serve(self, client: socket.socket) -> None:
        """Answers the requests of one connection; a plain request ends it."""
        with client, contextlib.suppress(OSError, ValueError):
            client.settimeout(REQUEST_SECONDS)
            head = _head(client)
            while head:
                method, target, _version = head.split(b"\r\n", 1)[0].decode().split(" ")
                match = PLACE.fullmatch(target)
                name, port = (match[1], int(match[2] or 80)) if match else ("", 0)
                verdict = self._verdict(head, name)
                self.log.append(f"{method} {name} {verdict}")
                if verdict == "unknown":
                    client.sendall(
                        b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="r"\r\n'
                        b"Content-Length: 0\r\n\r\n"
                    )
                    head = _head(client)
                    continue
                if verdict == "denied":
                    client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    return
                self._let_through(client, method, (self._resolved(name), port), head, target)
                return

    def _verdict(self, head: bytes, name: str) -> str:
        if f"proxy-authorization: {self.login}".lower() not in head.decode("latin-1").lower():
            return "unknown"
        return "denied" if name in self.denied else "known"

    def _resolved(self, name: str) -> str:
        return self.address if name in SERVICE_NAMES else name

    def _let_through(
        self, client: socket.socket, method: str, place: tuple[str, int], head: bytes, target: str
    ) -> None:
        with socket.create_connection(place, timeout=30) as upstream:
            upstream.settimeout(REQUEST_SECONDS)
            if method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = PLACE.fullmatch(target)
                lines = head.decode("latin-1").split("\r\n")[1:]
                kept = [line for line in lines if not line.lower().startswith(("proxy-", "connection:")) and line]
                first = f"{method} {(path[3] if path else None) or '/'} HTTP/1.1"
                upstream.sendall("\r\n".join([first, *kept, "Connection: close", "", ""]).encode("latin-1"))
            back = threading.Thread(target=_copied, args=(upstream, client), daemon=True)
            back.start()
            if method == "CONNECT":
                _copied(client, upstream)
            back.join()


def _head(client: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        read = client.recv(65_536)
        if not read:
            return b""
        head += read
    return head


def _copied(source: socket.socket, target: socket.socket) -> None:
    """Copies until one side ends, and closes the other."""
    with contextlib.suppress(OSError):
        while read := source.recv(262_144):
            target.sendall(read)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def forward_proxy(address: str) -> Iterator[ForwardProxy]:
    """Runs the proxy during the block."""
    proxy = ForwardProxy(address)
    with socket.create_server((address, PORT)) as server:

        def accept() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=proxy.serve, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield proxy
