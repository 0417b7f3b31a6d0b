"""The program that puts an LLM beside Triton into service, with a stand-in of a completions endpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from host import places, prove, prove_llm
from tests.roles.web import Answer, Request, Web, serving

WORDS: Answer = (200, {}, b'{"choices": [{"text": " turns"}], "usage": {"completion_tokens": 8}}')
BUSY: Answer = (503, {}, b'{"error": {"message": "too many requests"}}')
VLLM_ERROR = b'{"error": {"message": "max_tokens is too large", "type": "BadRequestError", "code": 400}}'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The server's folder, with a release."""
    monkeypatch.setattr(places, "ROOT", tmp_path)
    monkeypatch.setattr(prove.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(prove_llm, "ANSWERS", 0)
    (tmp_path / "servers/main/current").mkdir(parents=True)
    return tmp_path / "servers/main"


def call(
    place: Path, completion: Answer | Callable[[], Answer] = WORDS, health: Callable[[], int] = lambda: 200
) -> tuple[int, dict[str, Any], Web]:
    """Exit status, the recorded proof, and the requests to the program."""

    def answer(request: Request) -> Answer:
        if request.path == "/health":
            return health(), {}, b""
        return completion() if callable(completion) else completion

    with serving(answer) as engine:
        settings = {"address": "10.0.0.11", "http_port": 1, "llm_port": int(engine.address.rsplit(":", 1)[1])}
        settings |= {"restricted_header": "key", "start_seconds": 5, "llm": {"name": "llama", "runtime": "vllm"}}
        (place / "current/server.json").write_text(json.dumps(settings))
        status = prove_llm.main(["main"])
    return status, json.loads((place / "proof-llm.json").read_text()), engine


def test_an_llm_that_answers_with_a_token_serves(place: Path) -> None:
    status, proof, engine = call(place)
    assert (status, proof["ok"], proof["reason"], list(proof["seconds"])) == (0, True, "", ["llama"])
    assert [request.path for request in engine.requests] == ["/health", "/v1/completions"]
    assert json.loads(engine.requests[-1].body)["model"] == "llama"


def test_the_llm_is_called_on_loopback_for_any_address_of_triton(place: Path) -> None:
    assert call(place)[0] == 0


def test_an_engine_that_loads_is_waited_for(place: Path) -> None:
    states = iter([503, 503, 200])
    assert call(place, health=lambda: next(states))[0] == 0


def test_a_full_queue_is_waited_for(place: Path) -> None:
    """Clients may have come first."""
    answers = iter([BUSY, BUSY, WORDS])
    assert call(place, lambda: next(answers))[0] == 0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((400, {}, VLLM_ERROR), "llama answers its first prompt with 400: max_tokens is too large"),
        (
            (400, {}, b'{"object": "error", "message": "no such model"}'),
            "llama answers its first prompt with 400: no such model",
        ),
        ((500, {}, b"Internal Server Error"), "llama answers its first prompt with 500: Internal Server Error"),
        ((200, {}, b'{"usage": {"completion_tokens": 0}}'), "llama answers its first prompt with an empty text"),
        ((200, {}, b"<html>"), "llama answers its first prompt without counting its tokens"),
    ],
)
def test_an_llm_without_a_token_does_not_serve_and_the_reason_is_its_own(
    place: Path, answer: Answer, reason: str
) -> None:
    status, proof, _ = call(place, answer)
    assert (status, proof["ok"], proof["reason"]) == (1, False, reason)


def test_a_program_that_never_listens_ends_with_the_unit_s_time(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove_llm.Engine, "pause", _time_is_up)
    status, proof, _ = call(place, health=lambda: 503)
    assert (status, proof["reason"]) == (1, "vllm is not ready within the time limit (start_seconds)")


def _time_is_up(self: prove_llm.Engine, problem: str) -> None:
    """Raises the error of a proof whose time limit has passed."""
    self.client, self.deadline = 0, 0.0
    prove.Triton.pause(self, problem)
