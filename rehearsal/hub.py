"""A model hub for HF_ENDPOINT: the part of huggingface.co that huggingface_hub and curl use, over checkpoints.

It implements revisions by commit, checksums (git's blob sha1 for small files, sha256 for large ones), large
files behind a redirect to a signed address on another host that must not be sent the token, ranges, and the error codes
a client tells apart.

    python -m rehearsal.hub --address 10.213.0.1 --port 8481 --state FOLDER CHECKPOINTS

It also answers over TLS, on separate ports, with the certificate of the rehearsal's services.
"""

from __future__ import annotations

import argparse
import hmac
import json
import re
import secrets
import ssl
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit

from rehearsal.hub_repository import BLOCK, File, Repository, repositories
from rehearsal.web import Server

PORT = 8481
CDN_PORT = 8482
TLS_PORT, TLS_CDN_PORT = 8483, 8484
# Simulates a distant hub: at the speed of the bridge, the download of weights would end before it visibly overlaps the
# pull of the image.
LARGE_BYTES_PER_SECOND = 3 << 20
LAST_MODIFIED = "2026-01-01T00:00:00.000Z"


class Refused(Exception):
    """An error answer with the code by which huggingface_hub distinguishes errors."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass
class Hub:
    """The server's state; it reads faults from files at each request, so that tests can switch them."""

    repositories: dict[str, Repository]
    token: str
    token_without_access: str
    cdn: str
    state: Path
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, name: str, revision: str, authorization: str) -> Repository:
        """Returns the repository, or raises the real hub's refusal."""
        token = authorization.removeprefix("Bearer ")
        if token and token not in (self.token, self.token_without_access):
            raise Refused(401, "", "Invalid username or password.")
        repository = self.repositories.get(name)
        if repository is None:
            raise Refused(404 if token else 401, "RepoNotFound", "Repository not found")
        if repository.gated and token != self.token:
            refusal = "Your request to access it" if token else "You must have access to it and be authenticated"
            raise Refused(403 if token else 401, "GatedRepo", f"Access to model {name} is restricted. {refusal}")
        if not repository.has(revision):
            raise Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return repository

    def signature(self, sha256: str) -> str:
        """Returns the signature that makes an address of the other host valid."""
        return hmac.new(self.key, sha256.encode(), "sha256").hexdigest()

    def bytes_per_second(self) -> int:
        """Returns the speed limit of large files from the file `large-bytes-per-second`; 0 for none."""
        wanted = self.state / "large-bytes-per-second"
        return int(wanted.read_text()) if wanted.exists() else LARGE_BYTES_PER_SECOND

    def cut_after(self) -> int:
        """Returns the bytes after which this large answer ends, 0 for never (`fault-cut-large`: "TIMES BYTES")."""
        fault = self.state / "fault-cut-large"
        with self.lock:
            times, size = map(int, fault.read_text().split()) if fault.exists() else (0, 0)
            if times:
                fault.write_text(f"{times - 1} {size}")
        return size if times else 0


class Handler(BaseHTTPRequestHandler):
    """A connection of a client."""

    protocol_version = "HTTP/1.1"
    hub: Hub
    routes = (
        (re.compile(r"/api/models/([^/]+/[^/]+)/revision/([^/]+)"), "_model"),
        (re.compile(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)"), "_tree"),
        (re.compile(r"/api/models/([^/]+/[^/]+)"), "_model"),
        (re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)"), "_resolve"),
        (re.compile(r"/cdn/([0-9a-f]{64})"), "_cdn"),
    )

    def do_GET(self) -> None:
        """Answers, or refuses in the real hub's words."""
        path = unquote(urlsplit(self.path).path)
        try:
            for pattern, answer in self.routes:
                if match := pattern.fullmatch(path):
                    return getattr(self, answer)(*match.groups())
            raise Refused(404, "", "Sorry, we can't find the page you are looking for.")
        except Refused as refusal:
            self._refuse(refusal)

    do_HEAD = do_GET

    def _find(self, name: str, revision: str) -> Repository:
        return self.hub.find(name, revision, self.headers.get("Authorization", ""))

    def _model(self, name: str, revision: str = "main") -> None:
        repository = self._find(name, revision)
        rows = [file.to_json() for file in repository.files.values()]
        if "blobs" not in parse_qs(urlsplit(self.path).query):
            rows = [{"rfilename": row["rfilename"]} for row in rows]
        self._json({
            "_id": repository.commit[:24], "id": name, "modelId": name, "sha": repository.commit, "private": False,
            "gated": "manual" if repository.gated else False, "disabled": False, "lastModified": LAST_MODIFIED,
            "createdAt": LAST_MODIFIED, "tags": ["rehearsal-stand-in"], "downloads": 0, "likes": 0, "siblings": rows,
        }, {"X-Repo-Commit": repository.commit})  # fmt: skip

    def _tree(self, name: str, revision: str) -> None:
        repository = self._find(name, revision)
        rows = [
            {"type": "file", "oid": file.git_sha1, "size": file.size, "path": file.name}
            | ({"lfs": {"oid": file.sha256, "size": file.size, "pointerSize": 134}} if file.large else {})
            for file in repository.files.values()
        ]
        self._json(rows, {"X-Repo-Commit": repository.commit})

    def _resolve(self, name: str, revision: str, path: str) -> None:
        repository = self._find(name, revision)
        file = repository.files.get(path)
        if file is None:
            raise Refused(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": repository.commit, "ETag": f'"{file.git_sha1}"', "Accept-Ranges": "bytes"}
        if not file.large:
            return self._file(file, headers)
        address = f"{self.hub.cdn}/cdn/{file.sha256}?signature={self.hub.signature(file.sha256)}"
        linked = {"X-Linked-Etag": f'"{file.sha256}"', "X-Linked-Size": str(file.size), "Location": address}
        self._send(302, f"Found. Redirecting to {address}".encode(), headers | linked)

    def _cdn(self, sha256: str) -> None:
        """Answers as the other host, which checks signatures and refuses a request that also carries a token."""
        if self.headers.get("Authorization"):
            raise Refused(400, "InvalidArgument", "Only one auth mechanism allowed")
        signature = parse_qs(urlsplit(self.path).query).get("signature", [""])[0]
        if not hmac.compare_digest(signature, self.hub.signature(sha256)):
            raise Refused(403, "AccessDenied", "Access Denied")
        files = (file for repository in self.hub.repositories.values() for file in repository.files.values())
        for file in files:
            if file.sha256 == sha256:
                return self._file(file, {"ETag": f'"{sha256}"', "Accept-Ranges": "bytes"})
        raise Refused(404, "NoSuchKey", "The specified key does not exist.")

    def _file(self, file: File, headers: dict[str, str]) -> None:
        first, last = self._range(file.size)
        partial = self.headers.get("Range") is not None
        if partial:
            headers = {**headers, "Content-Range": f"bytes {first}-{last}/{file.size}"}
        self._start(206 if partial else 200, last - first + 1, headers)
        if self.command == "HEAD":
            return
        with file.path.open("rb") as content:
            self._copy(content, first, last - first + 1, file.large)

    def _range(self, size: int) -> tuple[int, int]:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        first, last = (int(match[1]), int(match[2] or size - 1)) if match else (0, size - 1)
        if first >= size > 0:
            raise Refused(416, "", "Range Not Satisfiable")
        return first, min(last, size - 1)

    def _copy(self, content: BinaryIO, first: int, length: int, large: bool) -> None:
        cut_after = self.hub.cut_after() if large else 0
        pace = self.hub.bytes_per_second() if large else 0
        end = first + (min(length, cut_after) if cut_after else length)
        step = BLOCK if pace else max(1, end - first)
        for start in range(first, end, step):
            sent = self.connection.sendfile(content, start, min(step, end - start))
            if pace:
                time.sleep(sent / pace)
        if cut_after and cut_after < length:
            self.close_connection = True

    def _json(self, value: object, headers: dict[str, str]) -> None:
        self._send(200, json.dumps(value).encode(), headers | {"Content-Type": "application/json"})

    def _refuse(self, refusal: Refused) -> None:
        headers = {"X-Error-Message": refusal.message} | ({"X-Error-Code": refusal.code} if refusal.code else {})
        self._send(refusal.status, json.dumps({"error": refusal.message}).encode(), headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self._start(status, len(body), headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _start(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Logs a line per request without the signature, since an address with one is as good as a token."""
        self.log_message('"%s %s" %s', self.command, self.path.split("?")[0], str(code))


def serve(hub: Hub, address: str, port: int) -> Server:
    """Returns a server for the hub; the caller starts it."""
    handler = type("HubHandler", (Handler,), {"hub": hub})
    return Server((address, port), handler)


def main() -> None:
    """Serves until stopped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("checkpoints", type=Path)
    chosen = parser.parse_args()
    known = repositories(chosen.checkpoints)
    token, without_access = (
        (chosen.state / name).read_text().strip() for name in ("hub_token", "hub_token_without_access")
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chosen.state / "server.crt", chosen.state / "server.key")

    def begin(cdn: str, *ports: int, tls: ssl.SSLContext | None = None) -> None:
        """Serves the hub at the first port, and large files at the second."""
        # Another port is another host to a client, so it has to drop the token there.
        hub = Hub(known, token, without_access, cdn, chosen.state)
        for port in ports:
            server = serve(hub, chosen.address, port)
            if tls:  # the handshake happens in the connection's own thread
                server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            threading.Thread(target=server.serve_forever).start()

    begin(f"http://{chosen.address}:{CDN_PORT}", chosen.port, CDN_PORT)
    begin(f"https://{chosen.address}:{TLS_CDN_PORT}", TLS_PORT, TLS_CDN_PORT, tls=context)


if __name__ == "__main__":
    main()
