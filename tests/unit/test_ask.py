"""`enginehouse ask` against a server on loopback, with curl and a stand-in for ssh that runs its last argument here."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from deploy.io.ask import asked_in_turn, requests, unopened
from deploy.io.endpoints import address_of
from deploy.io.gateway_key import GivenKey, given_key
from deploy.planning.plan import Plan
from deploy.refusals.errors import Refusal
from deploy.spec import Firewall, Gateway
from tests.unit.samples import MAIN, plan, sources

SSH = """#!/bin/sh
test "$1" != -G || { echo "hostname 203.0.113.9"; exit; }
for last; do :; done
exec sh -c "$last"
"""
CLOSED = 65_009
"""A port where nothing listens."""
REPLIES = {
    "bge": {"outputs": [{"name": "scores", "shape": [1, 2], "data": [0.75, 0.5]}]},
    "nomic": {"outputs": [{"name": "embeddings", "shape": [1, 2, 2], "data": [1, 0, 1, 0]}]},
    "gpt-oss-20b": {"text_output": "hello"},
}


class Triton(BaseHTTPRequestHandler):
    """Replies by model, and records its requests."""

    received: list[tuple[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.received.append((self.path, body))
        reply = json.dumps(REPLIES.get(self.path.split("/")[3], {})).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Writes no log line."""


@pytest.fixture
def received() -> list[tuple[str, Any]]:
    """(path, body) of every received request."""
    return []


@pytest.fixture
def port(received: list[tuple[str, Any]]) -> Iterator[int]:
    """The server's port on 127.0.0.1."""
    handler = type("Handler", (Triton,), {"received": received})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture(autouse=True)
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program `ssh` of these tests."""
    program = tmp_path / "ssh"
    program.write_text(SSH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return program


def planned(port: int, *hosts: str, **changes: Any) -> Plan:
    """A plan whose server listens at that port."""
    return plan(*sources(*hosts, servers=(replace(MAIN, http_port=port, **changes),)))


def printed_by_ask(made: Plan, model: str = "", *texts: str, as_json: bool = False) -> str:
    shown: list[str] = []
    asked_in_turn(made, {}, model, texts, shown.append, as_json)
    return "\n".join(shown)


def test_every_model_is_asked_and_its_line_asks_again(port: int, received: list[Any]) -> None:
    """The printed lines, pasted whole into a shell, send the same requests."""
    shown = printed_by_ask(planned(port))
    first = list(received)
    assert len(first) == 3
    subprocess.run(["sh", "-c", shown], check=True, stdout=subprocess.DEVNULL)
    assert received[3:] == first
    assert "# h100-01, server main: bge (reranker)\nprintf" in shown
    assert "# 0.7500  Paris is the capital of France." in shown and "\n# hello\n" in shown


@pytest.mark.parametrize("text", ["it's", 'say "hi"', "$HOME `id` \\n", "new\nline", "naïve 東京", "; exit 3"])
def test_a_text_goes_through_both_shells_unchanged(port: int, received: list[Any], text: str) -> None:
    printed_by_ask(planned(port), "nomic", text, "b")
    assert received[0][1]["inputs"][0]["data"] == [text, "b"]


def test_json_has_the_request_and_the_answer(port: int) -> None:
    (record,) = json.loads(printed_by_ask(planned(port), "bge", "q", "a", "b", as_json=True))
    assert record["answer"] == [0.75, 0.5] and record["path"] == "/v2/models/bge/infer"
    assert record["line"].startswith("printf %s ") and record["body"]["inputs"][0]["data"] == ["q"]


def test_an_address_is_asked_without_ssh(port: int) -> None:
    server = replace(MAIN, http_port=port, address="10.0.0.5", protection="firewall")
    made = plan(servers=(server,), firewall=Firewall(allow=("10.0.0.0/8",)))
    assert all(request.command.argv[0] == "curl" for request in requests(made, {}, "", ()))


def test_a_server_on_every_address_is_asked_at_the_one_ssh_dials() -> None:
    server = replace(plan().for_host("h100-01").servers[0], address="0.0.0.0")
    assert address_of(server, ["ssh", "h100-01"]) == "203.0.113.9"


def test_an_unknown_model_gets_the_near_name_and_keeps_the_text() -> None:
    with pytest.raises(Refusal) as refused:
        printed_by_ask(planned(CLOSED), "gpt_oss", "it's me")
    assert str(refused.value) == (
        "no server of these hosts has a model called 'gpt_oss'\n"
        "  seen    gpt_oss\n"
        "  wanted  the name of a model, then the texts to ask it\n"
        "  try     did you mean `gpt-oss-20b`?  known: bge, gpt-oss-20b, nomic  "
        """enginehouse ask INVENTORY gpt-oss-20b 'it'"'"'s me'\n"""
        "  state   asking; no host was changed"
    )


def test_a_server_that_is_down_is_asked_once() -> None:
    """Three models, one refusal, and the command that shows the reason."""
    with pytest.raises(Refusal) as refused:
        printed_by_ask(planned(CLOSED))
    assert refused.value.kind == "server-silent"
    assert refused.value.problem == f"server main of h100-01 does not answer at 127.0.0.1:{CLOSED}"
    assert refused.value.facts["seen"].startswith("nothing listens there (curl: (7) ")
    assert refused.value.attempt.endswith("h100-01 systemctl status triton@main")


def test_every_host_that_ssh_cannot_reach_is_named(ssh: Path) -> None:
    ssh.write_text("#!/bin/sh\necho 'Permission denied (publickey).' >&2\nexit 255\n")
    with pytest.raises(Refusal) as refused:
        printed_by_ask(planned(CLOSED, "h100-01", "h100-02"))
    assert "h100-01 does not let ssh in" in str(refused.value) and "h100-02 does not let ssh in" in str(refused.value)
    assert "seen    Permission denied (publickey)." in str(refused.value)


def test_a_missing_curl_is_reported(ssh: Path) -> None:
    ssh.write_text("#!/bin/sh\nexit 127\n")
    with pytest.raises(Refusal, match="h100-01 has no curl"):
        printed_by_ask(planned(CLOSED))


def test_tritons_error_for_a_model_is_shown_and_other_models_are_asked(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REPLIES, "bge", {"error": "Request for unknown model: 'bge' is not found"})
    shown: list[str] = []
    with pytest.raises(Refusal) as refused:
        asked_in_turn(planned(port), {}, "", (), shown.append)
    assert refused.value.facts["seen"] == "Request for unknown model: 'bge' is not found" and len(shown) == 2


class GatewayHandler(BaseHTTPRequestHandler):
    """A gateway: replies like OpenAI and Cohere to clients with the key, and records its requests."""

    received: list[tuple[str, Any]]
    key = "eh-a-key-of-this-test"
    chats = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.received.append((self.path, body))
        status, reply = self.reply(body) if self.headers["Authorization"] == f"Bearer {self.key}" else (401, UNKNOWN)
        self.send_response(status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply.encode())

    def reply(self, body: dict[str, Any]) -> tuple[int, str]:
        """Status and text of the stand-in's reply."""
        if self.path == "/v1/embeddings":
            return 200, json.dumps({"data": [{"embedding": [1, 0]}, {"embedding": [1, 0]}]})
        if self.path == "/v2/rerank":
            return 200, json.dumps(
                {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]}
            )
        if self.path == "/v1/completions":
            return 200, events({"text": "hel"}, {"text": "lo"})
        if not self.chats:
            return 400, json.dumps(
                {"error": {"message": "`messages`: the model's weights have no chat template; ask …"}}
            )
        return 200, events(
            {"delta": {"role": "assistant"}}, {"delta": {"content": "hel"}}, {"delta": {"content": "lo"}}
        )

    def log_message(self, *_: object) -> None:
        """Writes no log line."""


UNKNOWN = json.dumps({"error": {"message": "this API key is unknown, revoked or expired"}})


def events(*choices: dict[str, Any]) -> str:
    """A stream of OpenAI's."""
    return "".join(f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices) + "data: [DONE]\n\n"


@pytest.fixture
def gateway(received: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Iterator[type[GatewayHandler]]:
    """The gateway's handler, with its port in `gateway.port`. The shell of pasted lines has the key."""
    handler = type("Handler", (GatewayHandler,), {"received": received})
    monkeypatch.setenv("ENGINEHOUSE_KEY", GatewayHandler.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        handler.port = server.server_port
        yield handler
        server.shutdown()


def through(gateway: Any, model: str = "", *texts: str, key: GivenKey | None = None) -> str:
    """The printed text for a plan with this gateway, if Triton does not answer."""
    made = plan(*sources(servers=(replace(MAIN, http_port=CLOSED),), gateway=Gateway(ports=(gateway.port,))))
    shown: list[str] = []
    asked_in_turn(made, {}, model, texts, shown.append, key=key or given_key("", os.environ))
    return "\n".join(shown)


def test_through_a_gateway_every_model_is_asked_and_no_line_has_the_key(gateway: Any, received: list[Any]) -> None:
    """The printed lines, pasted into a shell with the key, send the same requests."""
    shown = through(gateway)
    first = list(received)
    assert [path for path, _ in first] == ["/v2/rerank", "/v1/embeddings", "/v1/chat/completions"]
    subprocess.run(["sh", "-c", shown], check=True, stdout=subprocess.DEVNULL)
    assert received[3:] == first
    assert GatewayHandler.key not in shown and "# h100-01, gateway: gpt-oss-20b (llm)" in shown
    assert "# 0.9000  Bananas are yellow." in shown and "\n# hello\n" in shown


def test_the_key_is_in_no_program_s_arguments(gateway: Any, tmp_path: Path, ssh: Path) -> None:
    """Every user of the host and of this machine can read arguments."""
    ssh.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/argv\n{SSH}')
    file = tmp_path / "key"
    file.write_text(GatewayHandler.key + "\n")
    shown = through(gateway, key=given_key(str(file), {}))
    assert GatewayHandler.key not in (tmp_path / "argv").read_text() + shown
    assert f'"$(cat {file})"' in shown and GatewayHandler.key not in repr(given_key(str(file), {}))


@pytest.mark.parametrize("text", ["it's", 'say "hi"', "$HOME `id` \\n", "new\nline", "naïve 東京", "@/etc/passwd"])
def test_a_text_reaches_a_gateway_unchanged(gateway: Any, received: list[Any], text: str) -> None:
    through(gateway, "nomic", text, "b")
    assert received[0][1]["input"] == [text, "b"]


def test_a_model_that_knows_no_chats_is_asked_to_go_on(gateway: Any, received: list[Any]) -> None:
    gateway.chats = False
    assert "/v1/completions" in through(gateway, "gpt-oss-20b", "Say") and received[1][1]["prompt"] == "Say"


def test_the_gateways_error_for_a_wrong_key_is_shown(gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEHOUSE_KEY", "eh-another")
    with pytest.raises(Refusal) as refused:
        through(gateway, "nomic")
    assert refused.value.facts["seen"] == "this API key is unknown, revoked or expired"
    assert "eh-another" not in str(refused.value)


def test_without_a_key_triton_itself_is_asked_and_the_gateway_is_mentioned(port: int) -> None:
    made = plan(*sources(servers=(replace(MAIN, http_port=port),), gateway=Gateway()))
    assert "server main: nomic" in printed_by_ask(made, "nomic")
    assert "asked Triton itself" in unopened(made, None) and unopened(planned(port), None) == ""


@pytest.mark.parametrize("key", ["", "two words", 'eh-"quoted"', "eh-\nheader: x"])
def test_a_malformed_key_is_refused_and_not_shown(tmp_path: Path, key: str) -> None:
    (tmp_path / "key").write_text(key)
    with pytest.raises(Refusal) as refused:
        given_key(str(tmp_path / "key"), {})
    assert refused.value.kind == "no-key" and (not key or key not in str(refused.value))
