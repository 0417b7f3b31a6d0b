"""A read-only registry on loopback: one image's blobs (host.blobs), as long as Docker pulls them.

Docker accepts a registry on loopback without TLS, and checks the digest of every download.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from host.blobs import LARGEST, TYPES

ASKED = re.compile(r"/v2/.+/(manifests|blobs)/sha256:([0-9a-f]{64})")


@contextlib.contextmanager
def serving(directory: Path, port: int) -> Iterator[int]:
    """The port of loopback with the directory's blobs, until the block ends. Raises OSError for a port in use."""

    class Handler(_Handler):
        blobs = directory

    with _Server(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    """A server that ignores clients that disconnect, because Docker retries."""

    def handle_error(self, _request: object, _client: object) -> None:
        """Ignores the error, because Docker retries a broken connection."""


class _Handler(BaseHTTPRequestHandler):
    """Serves blobs and manifests by digest, never by tag."""

    protocol_version = "HTTP/1.1"
    # Docker tries TLS first. It falls back to HTTP only if the answer to its TLS hello begins with "HTTP/".
    default_request_version = "HTTP/1.1"
    timeout = 600.0
    """Seconds without a byte, after which a connection ends: every user of the host reaches this port."""
    blobs: Path

    def do_GET(self) -> None:
        """Answers with a blob, or confirms Docker's first request that this is a registry."""
        path = urlsplit(self.path).path
        match = ASKED.fullmatch(path)
        file = self.blobs / match[2] if match else None
        is_manifest = match is not None and match[1] == "manifests"
        if file and file.is_file() and not (is_manifest and file.stat().st_size > LARGEST):
            self._head(200, file.stat().st_size, type_of(file) if is_manifest else "", file.name)
            if self.command == "GET":
                with file.open("rb") as content:
                    shutil.copyfileobj(content, self.wfile, 1 << 20)
        else:
            self._head(200 if path.rstrip("/") == "/v2" else 404, 0)

    do_HEAD = do_GET

    def _head(self, status: int, size: int, kind: str = "", name: str = "") -> None:
        self.send_response(status)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Content-Type", kind or "application/octet-stream")
        self.send_header("Content-Length", str(size))
        if name:
            self.send_header("Docker-Content-Digest", f"sha256:{name}")
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        """Does nothing: the pull reports its progress."""


def type_of(file: Path) -> str:
    """The media type of an index or a manifest; OCI allows both to omit it."""
    try:
        content = dict(json.loads(file.read_bytes()))
    except (ValueError, TypeError, RecursionError):
        return ""
    named = content.get("mediaType")
    return str(named) if named in TYPES else TYPES[0] if "manifests" in content else TYPES[2]
