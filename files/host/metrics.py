"""Forwards this host's pages of metrics to its monitors, so that the exporters can listen on loopback.

    host metrics          run by enginehouse-metrics.service

Settings: /etc/enginehouse/metrics.json. A page is fetched at each request and not stored. Only the settings' pages
exist, only for GET, and only for the monitors' addresses: the firewall has the same rule, but can be unloaded.
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from host.systemd import say

SETTINGS = Path("/etc/enginehouse/metrics.json")
FETCHED_SECONDS = 8.0
"""Seconds for a page; a later page would be too late for the monitor too."""
ASKED_SECONDS = 5.0
LARGEST_BYTES, CHUNK = 64 * 2**20, 2**18
FREEBIND = {socket.AF_INET: (socket.IPPROTO_IP, 15), socket.AF_INET6: (socket.IPPROTO_IPV6, 78)}
"""Linux's IP_FREEBIND and IPV6_FREEBIND, without names in Python: the address may appear after the program's start at a
boot."""
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens pages of this host without a proxy."""


class Relay(ThreadingHTTPServer):
    """A server on the address in the settings."""

    daemon_threads = True

    def __init__(self, settings: dict[str, Any]) -> None:
        self.pages: dict[str, str] = settings["pages"]
        self.monitors = {ipaddress.ip_address(address) for address in settings["monitors"]}
        is_v6 = ipaddress.ip_address(settings["address"]).version == 6
        self.address_family = socket.AF_INET6 if is_v6 else socket.AF_INET
        super().__init__((settings["address"], settings["port"]), Page)

    def server_bind(self) -> None:
        """Binds the address, even if the host does not have it yet."""
        self.socket.setsockopt(*FREEBIND[socket.AddressFamily(self.address_family)], 1)
        super().server_bind()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return ipaddress.ip_address(str(client_address[0]).partition("%")[0]) in self.monitors


class Page(BaseHTTPRequestHandler):
    """The handler of a request for a page."""

    server: Relay
    timeout = ASKED_SECONDS

    def do_GET(self) -> None:
        """Answers with the page of its program, including the status; 502 if there is none."""
        url = self.server.pages.get(self.path.partition("?")[0])
        if url is None:
            self.answer(HTTPStatus.NOT_FOUND, "text/plain", f"pages: {' '.join(self.server.pages)}\n".encode())
            return
        accepted = re.sub(r"[^ -~]", "", self.headers.get("Accept", "*/*"))
        request = urllib.request.Request(url, headers={"Accept": accepted})
        try:
            with DIRECT.open(request, timeout=FETCHED_SECONDS) as page:
                kind = re.sub(r"[^ -~]", "", page.headers.get("Content-Type", "text/plain"))
                self.answer(page.status, kind, whole(page, time.monotonic() + FETCHED_SECONDS))
        except urllib.error.HTTPError as error:
            self.answer(error.code, "text/plain", error.read(4096))
        except (OSError, ValueError, HTTPException) as error:
            self.answer(HTTPStatus.BAD_GATEWAY, "text/plain", f"{url} does not answer: {error}\n".encode())

    def answer(self, status: int, kind: str, content: bytes) -> None:
        """Sends head and content."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Does nothing: a line every few seconds would bury the journal's other messages."""


def whole(page: Any, until: float) -> bytes:
    """The bytes of a page. Raises OSError for too many bytes or a slow page, because each page occupies a thread."""
    parts, size = list[bytes](), 0
    while part := page.read1(CHUNK):
        parts.append(part)
        size += len(part)
        if size > LARGEST_BYTES or time.monotonic() > until:
            raise OSError(f"more than {LARGEST_BYTES >> 20} MiB, or incomplete after {FETCHED_SECONDS:g} s")
    return b"".join(parts)


def main(_: list[str]) -> int:
    """Serves until stopped."""
    settings = json.loads(SETTINGS.read_text("utf-8"))
    with Relay(settings) as relay:
        say(f"{len(relay.pages)} pages for {len(relay.monitors)} monitors", is_ready=True)
        relay.serve_forever()
    return 0
