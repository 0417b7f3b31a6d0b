"""Streams of a gateway: the content of an answer, from a server here that follows a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rehearsal.gateway import Gateway
from rehearsal.real_gpu import vllm_steps
from rehearsal.real_gpu.gateway_streams import Answer, all_at_once, clients, stream_of, under_way

USAGE = {"choices": [], "usage": {"completion_tokens": 2}}
TEXTS = [{"choices": [{"text": "one"}]}, {"choices": [{"text": " two", "finish_reason": "length"}]}, USAGE]


class Scripted(BaseHTTPRequestHandler):
    """Sends the body's `events`, waits for `opened` before the last, and ends or breaks off."""

    opened = threading.Event()

    def do_POST(self) -> None:
        """Sends the stream."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Authorization"] == "Bearer key" and body["stream"]
        self.send_response(body.get("status", 200))
        self.end_headers()
        *first, last = body["events"]
        for event in first:
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.flush()
        if body.get("waits"):
            assert self.opened.wait(30)
        self.wfile.write(b"data: " + json.dumps(last).encode() + b"\n\ndata: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Prints no log."""


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    """Yields a server on the loopback."""
    Scripted.opened.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Gateway(f"http://127.0.0.1:{server.server_port}", "key")
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_answer_is_whole_with_a_reason_a_usage_and_no_error(gateway: Gateway) -> None:
    answers = all_at_once(
        gateway, "/v1/completions", [{"events": TEXTS}, {"events": TEXTS[:2]}, {"events": TEXTS[::2]}]
    )
    assert [answer.is_whole for answer in answers] == [True, False, False]
    assert (answers[0].text, answers[0].tokens, answers[0].finish, answers[0].events) == ("one two", 2, "length", 3)


@pytest.mark.parametrize(
    ("body", "trouble"),
    [({"events": [{"error": {"message": "no"}}]}, "no"), ({"status": 503, "events": [{"error": "away"}]}, "away")],
)
def test_an_error_is_an_answers_trouble(gateway: Gateway, body: dict[str, Any], trouble: str) -> None:
    answer = stream_of(gateway, "/v1/completions", body)
    assert trouble in answer.trouble and not answer.is_whole


def test_a_server_that_is_not_there_is_an_answers_trouble() -> None:
    answer = stream_of(Gateway("http://127.0.0.1:9", "key"), "/v1/completions", {})
    assert (answer.status, answer.is_whole) == (0, False) and "Error" in answer.trouble


def test_pieces_of_a_tool_call_are_joined_by_its_index() -> None:
    answer = Answer()
    for index, part in (
        (0, {"name": "forecast"}),
        (0, {"arguments": '{"a":'}),
        (1, {"name": "x"}),
        (0, {"arguments": "1}"}),
    ):
        answer.read({"choices": [{"delta": {"tool_calls": [{"index": index, "function": part}]}}]})
    assert answer.calls == {0: {"name": "forecast", "arguments": '{"a":1}'}, 1: {"name": "x", "arguments": ""}}


def test_begun_answers_continue_during_the_block_and_end_after_it(gateway: Gateway) -> None:
    bodies = [{"events": TEXTS, "waits": True}] * 3
    with under_way(gateway, "/v1/completions", bodies, 30) as answers:
        assert [answer.is_whole for answer in answers] == [False] * 3
        Scripted.opened.set()
    assert [answer.is_whole for answer in answers] == [True] * 3


RIGHT = {"city": "Lima", "days": 2, "wants_rain": False}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (json.dumps(RIGHT), ""),
        (json.dumps(RIGHT | {"city": "Rome"}), "not of the schema"),
        (json.dumps(RIGHT | {"more": 1}), "not of the schema"),
        ('{"city": ', "Expecting value"),
    ],
)
def test_a_value_is_held_to_the_schema_that_was_asked_for(text: str, fault: str) -> None:
    assert vllm_steps._wrong_value(text).startswith(fault) and bool(vllm_steps._wrong_value(text)) == bool(fault)
    call = Answer(finish="tool_calls", calls={0: {"name": "forecast", "arguments": text}})
    assert bool(vllm_steps._wrong_call(call)) == bool(fault)
    assert "text 'hello'" in vllm_steps._wrong_call(Answer(finish="stop", text="hello"))


def test_clients_ask_one_question_after_the_other_until_the_block_ends(gateway: Gateway) -> None:
    with clients(gateway, "/v1/completions", {"events": TEXTS}, 2, 30) as answers:
        while len(answers) < 6:
            threading.Event().wait(0.01)
    assert len(answers) >= 6 and all(answer.is_whole for answer in answers)
