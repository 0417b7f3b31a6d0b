"""A host's report of its servers' state, which a gate reads before and after a wave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from host import places, server_report, systemd
from host.server import Server
from tests.roles.web import Answer, Request, serving

EMBED = {"name": "embed", "kind": "embedder", "decoupled": False, "dimensions": 2}
RIGHT: Answer = (200, {}, b'{"outputs": [{"name": "embeddings", "data": [0.6, 0.8]}]}')
FULL: Answer = (503, {}, b'{"error": "Exceeds maximum queue size"}')


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server whose release `new` serves since its start `i1`."""
    monkeypatch.setattr(places, "ROOT", tmp_path)
    monkeypatch.setattr(systemd, "show", lambda *_: {"ActiveState": "active", "InvocationID": "i1"})
    (tmp_path / "releases/new").mkdir(parents=True)
    (tmp_path / "servers/main").mkdir(parents=True)
    made = Server("main")
    made.point("current", "new")
    return made


def status_of(server: Server, answer: Answer = RIGHT, asks: bool = True, **of_systemd: str) -> dict[str, Any]:
    """The server's status while its model gives `answer`."""

    def answers(request: Request) -> Answer:
        return answer if request.path.endswith("/infer") else (404, {}, b"")

    with serving(answers) as triton:
        port = int(triton.address.rsplit(":", 1)[1])
        settings = {"address": "127.0.0.1", "http_port": port, "metrics_port": port, "restricted_header": "key"}
        served = settings | {"start_seconds": 5, "models": [EMBED]}
        (places.release("new") / "server.json").write_text(json.dumps(served))
        return server_report.stand(server, asks)


def test_a_server_that_answers_has_no_problem(server: Server) -> None:
    assert status_of(server) == {
        "server": "main", "release": "new", "active": "active", "invocation": "i1", "swap": {}, "problem": "",
    }  # fmt: skip


def test_a_wrong_answer_is_reported_with_its_fault(server: Server) -> None:
    wrong: Answer = (200, {}, b'{"outputs": [{"name": "embeddings", "data": [0.5, 0.5]}]}')
    assert status_of(server, wrong)["problem"] == "embed gives a vector of length 0.7071; it should be 1"


def test_a_queue_that_clients_have_filled_is_no_problem(server: Server) -> None:
    """A full queue shows that the server answers its clients."""
    assert status_of(server, FULL)["problem"] == ""


def test_an_unreadable_answer_is_a_problem(server: Server) -> None:
    assert status_of(server, (200, {}, b"{}"))["problem"] == "embed answers in an unknown form (KeyError)"


def test_a_server_that_does_not_run_is_not_asked(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(systemd, "show", lambda *_: {"ActiveState": "failed", "InvocationID": ""})
    assert server_report.main(["--ask", "main", "never-had"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["server"], line["release"], line["active"]) for line in lines] == [
        ("main", "new", "failed"),
        ("never-had", "", "failed"),
    ]


def test_the_verdict_of_the_last_swap_is_reported(server: Server) -> None:
    (server.place / "verdict.json").write_text('{"release": "new", "answers": {"embed": 0.02}}\n')
    assert status_of(server, asks=False)["swap"] == {"release": "new", "answers": {"embed": 0.02}}
