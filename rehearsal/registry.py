"""A container registry with login and TLS: Debian's docker-registry behind a small front.

The registry listens on loopback only, stores images in the cache and checks the login (`$oauthtoken` and a key, like
NGC). The front uses TLS and can produce two known answers of NGC: an occasional 401 for a good key, and a 403 for a
good key without access.

    python -m rehearsal.registry front --address 10.213.0.1 --port 8443 --backend 127.0.0.1:5000 FOLDER
"""

from __future__ import annotations

import argparse
import base64
import http.client
import io
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import bcrypt

from rehearsal.web import Server

PORT = 8443
NAME = "registry.rehearsal.internal"
HOST = f"{NAME}:{PORT}"
USER = "$oauthtoken"
HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "host"}


def write_configuration(folder: Path, storage: Path, backend_port: int, key: str) -> Path:
    """Writes the registry's configuration file, with a password file (bcrypt, as it requires) beside it."""
    passwords = folder / "htpasswd"
    if not passwords.exists() or not bcrypt.checkpw(key.encode(), passwords.read_bytes().strip().split(b":")[1]):
        # The registry checks every request; at the usual cost of 12 a pull would spend its time there.
        hashed = bcrypt.hashpw(key.encode(), bcrypt.gensalt(rounds=5)).decode()
        passwords.touch(mode=0o600)
        passwords.write_text(f"{USER}:{hashed}\n")
    configuration = folder / "registry.yml"
    configuration.write_text(
        "version: 0.1\n"
        "log: {level: warn}\n"
        f"storage: {{filesystem: {{rootdirectory: {storage}}}, delete: {{enabled: true}}}}\n"
        f"http: {{addr: '127.0.0.1:{backend_port}', relativeurls: true}}\n"
        f"auth: {{htpasswd: {{realm: 'rehearsal stand-in', path: {passwords}}}}}\n"
    )
    return configuration


class Faults:
    """Deliberate faults of the front, read from files so that tests can switch them while it runs.

    `fault-sporadic-401` holds how many more manifest requests answer 401; `key-without-access` a key that logs in but
    may pull nothing; `fault-slow` how many bytes a second layers get; `fault-cut-blobs` after how many bytes they end.
    """

    def __init__(self, folder: Path) -> None:
        self.sporadic = folder / "fault-sporadic-401"
        self.without_access = folder / "key-without-access"
        self.slow, self.cut = folder / "fault-slow", folder / "fault-cut-blobs"
        self._lock = threading.Lock()

    def rejects(self, path: str) -> bool:
        """Returns True for a manifest request that should be answered 401 although its key is good."""
        if "/manifests/" not in path or not self.sporadic.exists():
            return False
        with self._lock:
            left = int(self.sporadic.read_text() or 0)
            self.sporadic.write_text(str(max(0, left - 1)))
        return left > 0

    def bounds(self, path: str) -> tuple[int, int]:
        """Returns bytes a second and total bytes for the answer to this request; 0 is no limit."""
        if "/blobs/" not in path:
            return 0, 0
        texts = (file.read_text() if file.exists() else "" for file in (self.slow, self.cut))
        per_second, in_all = (int(text or 0) for text in texts)
        return per_second, in_all

    def has_no_access(self, authorization: str) -> bool:
        """Returns True when the request carries the key without access."""
        key = self.without_access.read_text().strip() if self.without_access.exists() else ""
        return bool(key) and authorization == "Basic " + base64.b64encode(f"{USER}:{key}".encode()).decode()


class Front(BaseHTTPRequestHandler):
    """Forwards every request to the registry, subject to the faults."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1024 * 1024
    backend: tuple[str, int]
    faults: Faults

    def _handle(self) -> None:
        if self.faults.rejects(self.path):
            self._refuse(401, "UNAUTHORIZED", "authentication required")
        elif self.faults.has_no_access(self.headers.get("Authorization", "")):
            if self.path == "/v2/":
                self._answer(200, b"{}")
            else:
                self._refuse(403, "DENIED", "requested access to the resource is denied")
        else:
            self._hand_on()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._answer(
            status, f'{{"errors":[{{"code":"{code}","message":"{message}","detail":"rehearsal stand-in"}}]}}'.encode()
        )

    def _answer(self, status: int, body: bytes) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(status)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 401:
            self.send_header("Www-Authenticate", 'Basic realm="rehearsal stand-in"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _hand_on(self) -> None:
        connection = http.client.HTTPConnection(*self.backend, timeout=600)
        length = int(self.headers.get("Content-Length") or 0)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_HEADERS}
        connection.request(self.command, self.path, self.rfile.read(length) if length else None, headers)
        answer = connection.getresponse()
        whole = answer.read() if answer.length is None else None
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_HEADERS | {"server", "date"}:
                self.send_header(name, value)
        if whole is not None:
            self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        if self.command != "HEAD":
            self._copy(io.BytesIO(whole) if whole is not None else answer)
        self.wfile.flush()
        connection.close()

    def _copy(self, source: io.BufferedIOBase) -> None:
        """Copies the answer's body at the speed and up to the byte that the faults allow."""
        per_second, in_all = self.faults.bounds(self.path)
        sent, piece = 0, max(per_second // 10, 1) if per_second else 1024 * 1024
        while chunk := source.read(piece):
            if in_all and sent + len(chunk) > in_all:
                self.wfile.write(chunk[: in_all - sent])
                self.close_connection = True
                return
            self.wfile.write(chunk)
            sent += len(chunk)
            if per_second:
                time.sleep(len(chunk) / per_second)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Logs a line per request without the header that has the key."""
        super().log_request(code, size)


def main() -> None:
    """Runs the front until stopped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["front"])
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--backend", required=True)
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    host, _, port = chosen.backend.partition(":")
    Front.backend, Front.faults = (host, int(port)), Faults(chosen.folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chosen.folder / "server.crt", chosen.folder / "server.key")
    server = Server((chosen.address, chosen.port), Front)
    # The handshake happens in the connection's own thread, or one silent client would hold up all others.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


if __name__ == "__main__":
    main()
