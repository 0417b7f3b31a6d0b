"""A read-only server of one bundle, with the protocols of an apt mirror, a registry and a hub; a separate process.

    python -m deploy.io.bundle_serve DIRECTORY unix:PATH | tcp:PORT

It ends when its standard input ends, so that it never outlives the run that started it. A host reaches it on its own
loopback, through the run's SSH connection. Clients verify the answers: apt by signatures, Docker by digests, a fetch by
checksums.
"""

import json
import os
import re
import socketserver
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from deploy.bundle.contents import LIST, Contents
from deploy.doctor.readings import fields
from deploy.io.bundle_store import Store

BLOB = re.compile(r"/v2/.+/(manifests|blobs)/sha256:([0-9a-f]{64})")
LISTING = re.compile(r"/api/models/([^/]+/[^/]+)/revision/([0-9a-f]{40})")
MODEL_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/([0-9a-f]{40})/(.+)")
RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{0,18})")
MOST_MANIFEST_BYTES = 2**24
"""A manifest has at most 4 MiB; a host that asks for a layer as one would have this machine parse gigabytes."""
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER = (
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of the files in the list; every other path is answered 404."""

    protocol_version = "HTTP/1.1"
    timeout = 120.0
    """Seconds without a byte, after which a connection ends."""
    contents: Contents
    store: Store
    blobs: dict[str, int]

    def do_GET(self) -> None:
        self._answer(is_head=False)

    def do_HEAD(self) -> None:
        self._answer(is_head=True)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Does nothing: clients report missing files themselves."""

    def address_string(self) -> str:
        """Clients on a Unix socket have no address."""
        return "local"

    def _answer(self, is_head: bool) -> None:
        path = urllib.parse.unquote(self.path.partition("?")[0]).replace("/./", "/")
        if path.rstrip("/") == "/v2":
            self._text(b"{}", is_head)
        elif match := BLOB.fullmatch(path):
            self._blob(match[2], is_head, is_manifest=match[1] == "manifests")
        elif match := LISTING.fullmatch(path):
            self._listing(match[1], match[2], is_head)
        elif match := MODEL_FILE.fullmatch(path):
            self._file(f"weights/{match[1]}/{match[2]}/{match[3]}", is_head)
        elif path.startswith("/apt/"):
            self._file(path[1:], is_head)
        else:
            self._lacking(is_head)

    def _listing(self, repository: str, revision: str, is_head: bool) -> None:
        folder = f"weights/{repository}/{revision}"
        files = [
            {
                "rfilename": part.path.removeprefix(f"{folder}/"),
                "size": part.size,
                "lfs": {"sha256": part.sha256, "size": part.size},
            }
            for part in self.contents.below(folder)
        ]
        if not files:
            self._lacking(is_head)
            return
        self._text(json.dumps({"id": repository, "sha": revision, "siblings": files}).encode(), is_head)

    def _blob(self, sha256: str, is_head: bool, is_manifest: bool) -> None:
        if sha256 not in self.blobs or (is_manifest and self.blobs[sha256] > MOST_MANIFEST_BYTES):
            self._lacking(is_head)
            return
        kind = "application/octet-stream"
        if is_manifest:
            content = fields(b"".join(self.store.read(sha256)).decode("utf-8", "replace"))
            named = content.get("mediaType")
            kind = named if named in (INDEX, MANIFEST, *DOCKER) else INDEX if "manifests" in content else MANIFEST
        self._send(
            sha256, self.blobs[sha256], is_head, {"Content-Type": kind, "Docker-Content-Digest": f"sha256:{sha256}"}
        )

    def _file(self, path: str, is_head: bool) -> None:
        part = self.contents.by_path.get(path)
        if part is None:
            self._lacking(is_head)
            return
        self._send(part.sha256, part.size, is_head, {"Content-Type": "application/octet-stream"})

    def _send(self, sha256: str, size: int, is_head: bool, headers: dict[str, str]) -> None:
        match = RANGE.fullmatch(self.headers.get("Range", ""))
        start = int(match[1]) if match else 0
        end = min(int(match[2]) + 1, size) if match and match[2] else size
        if match and start >= size:
            self._lacking(is_head, 416)
            return
        self.send_response(206 if match else 200)
        for name, value in headers.items():
            self.send_header(name, value)
        if match:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        if not is_head:
            for chunk in _first(self.store.read(sha256, start), end - start):
                self.wfile.write(chunk)

    def _text(self, content: bytes, is_head: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not is_head:
            self.wfile.write(content)

    def _lacking(self, is_head: bool, status: int = 404) -> None:
        content = b'{"errors": [{"code": "UNKNOWN", "message": "the bundle has no such file"}]}\n'
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not is_head:
            self.wfile.write(content)


def _first(chunks: Iterator[bytes], most: int) -> Iterator[bytes]:
    for chunk in chunks:
        if most <= 0:
            return
        yield chunk[:most]
        most -= len(chunk)


class Sockets(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A server on a Unix socket, with a thread per connection."""

    daemon_threads = True
    request_queue_size = 64


def server(directory: Path, place: str) -> socketserver.TCPServer:
    """The server, bound but not yet serving."""
    contents = Contents.of_text((directory / LIST).read_text("utf-8"))
    blobs = {part.sha256: part.size for part in contents.below("images")}
    words = {"contents": contents, "store": Store(directory), "blobs": blobs}
    handler = type("BundleHandler", (Handler,), words)
    kind, _, name = place.partition(":")
    if kind == "tcp":
        return ThreadingHTTPServer(("127.0.0.1", int(name)), handler)
    before = os.umask(0o177)
    try:
        return Sockets(name, handler)
    finally:
        os.umask(before)


def main() -> int:
    """Serves until standard input ends."""
    serving = server(Path(sys.argv[1]), sys.argv[2])
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    kind, _, name = sys.argv[2].partition(":")
    if kind == "unix":
        Path(name).unlink(missing_ok=True)
        Path(name).parent.rmdir()
    return 0


if __name__ == "__main__":
    sys.exit(main())
