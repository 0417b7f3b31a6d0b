"""The gateway of a rehearsal machine, for clients here: a key in its file, and a chat that streams."""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rehearsal import gateway
from rehearsal.places import Places, RehearsalRefused

MODELS = {"base": {"kind": "llm"}, "minilm": {"kind": "embedder"}}
CHUNK = b'data: {"choices": [{"delta": {"content": "hi"}}]}\n\n'


class Machine:
    """A machine whose commands run here, on separate files."""

    name = "d13a"

    def __init__(self, root: Path) -> None:
        self.files = root / "files"
        self.places = Places(root)
        self.files.mkdir()
        (root / "secrets").mkdir()

    def run(self, command: str, *, check: bool = True, input: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a command like `rehearsal.machine.Machine.run`."""
        here = command.replace(gateway.FOLDER, str(self.files))
        return subprocess.run(["sh", "-c", here], check=check, input=input, capture_output=True, text=True)


class GatewayHandler(BaseHTTPRequestHandler):
    """Reads the machine's keys at each request, as a gateway does; its only LLM has no chats."""

    keys: Path

    def do_GET(self) -> None:
        key = self.headers["Authorization"].removeprefix("Bearer ").encode()
        known = [line["sha256"] for line in json.loads(self.keys.read_text())["keys"]]
        self.answer(200 if hashlib.sha256(key).hexdigest() in known else 401, b"{}")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "messages" in request:
            self.answer(400, b'{"error": {"message": "no chat template"}}')
        else:
            self.answer(200, CHUNK * 3 + b"data: [DONE]\n\n")

    def answer(self, status: int, content: bytes) -> None:
        """Sends the whole answer."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Writes no log line."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A machine with a gateway and another tenant's key, which this computer reaches."""
    made = Machine(tmp_path)
    other_tenant = {"sha256": "a" * 64, "prefix": "eh-other1", "tenant": "other", "models": ["*"], "created": 1}
    (made.files / "keys.json").write_text(json.dumps({"keys": [other_tenant]}))
    handler = type("Handler", (GatewayHandler,), {"keys": made.files / "keys.json"})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        listen = {"address": "127.0.0.1", "ports": [server.server_port]}
        (made.files / "settings.json").write_text(json.dumps({"listen": listen, "models": MODELS}))
        monkeypatch.setattr(gateway, "_forwarded", lambda machine, far: f"http://{far}")
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield made
        server.shutdown()


def test_the_machine_learns_of_one_key_and_keeps_those_of_others(machine: Any) -> None:
    """A second call gives the same key; only its owner can read the copy here."""
    first, again = gateway.opened(machine), gateway.opened(machine)
    assert first == again and first.to_json() == {"url": first.url, "key": first.key, "ca": None}
    lines = json.loads((machine.files / "keys.json").read_text())["keys"]
    assert [line["tenant"] for line in lines] == ["other", "rehearsal"]
    assert (machine.places.root / "secrets/gateway_key").stat().st_mode & 0o777 == 0o600
    assert (machine.files / "keys.json").stat().st_mode & 0o777 == 0o640


def test_a_model_that_knows_no_chats_streams_a_text(machine: Any) -> None:
    events = list(gateway.spoken(gateway.opened(machine), gateway.models(machine, "llm")[0], "Say hello."))
    assert (events[0], len(events), events[-1]) == ("POST /v1/completions", 5, "data: [DONE]")


def test_a_machine_without_a_gateway_says_how_to_get_one(machine: Any) -> None:
    (machine.files / "settings.json").unlink()
    with pytest.raises(RehearsalRefused, match="d13a has no gateway"):
        gateway.opened(machine)
