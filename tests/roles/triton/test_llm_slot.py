"""The LLM slot refuses requests beyond its limit, like a full queue of Triton's, and frees each place once.

The image's model is a stand-in whose engine holds prompts until it is released (llm_image.py).
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from deploy.slices.host import ServerSlice
from roles.triton.defaults import Defaults
from roles.triton.render import render
from tests.encoders import fake_triton, real_triton
from tests.roles.triton.llm_slot import Request, image, load, model, refusal, senders_of, slot, texts
from tests.roles.triton.test_render import config, server

__all__ = ["image", "model", "server", "slot"]  # fixtures


def test_a_request_beyond_the_running_and_the_waiting_is_refused_as_unavailable(model: Any) -> None:
    *held, fourth = senders_of(model, "hold", "hold", "hold", "hold")
    assert refusal(fourth.events()) == (
        "Exceeds maximum queue size: 2 requests run and 1 wait at most, 3 are unanswered; send it again later",
        fake_triton.TritonError.UNAVAILABLE,
    )
    assert [sender.queue.qsize() for sender in held] == [0, 0, 0]


def test_a_last_response_makes_room(model: Any, image: Path) -> None:
    held = senders_of(model, "hold", "hold", "hold", sampling_param_max_tokens=1)
    assert refusal(senders_of(model, "hold")[0].events())
    (image / "GO").touch()
    assert [len(sender.events()) for sender in held] == [1, 1, 1]
    assert [len(sender.events()) for sender in senders_of(model, "a", "b", "c")] == [1, 1, 1]


def test_a_disconnected_clients_request_frees_its_place(model: Any) -> None:
    gone = Request(text_input="hold")
    model.execute([gone])
    held = senders_of(model, "hold", "hold")
    gone.cancel()
    assert refusal(gone.sender.events()) == ("Request cancelled by client", fake_triton.TritonError.CANCELLED)
    assert texts(senders_of(model, "next", sampling_param_max_tokens=1)[0].events()) == ["next w0"]
    assert [sender.queue.qsize() for sender in held] == [0, 0]


def test_an_answer_that_loses_a_part_ends_in_an_error(model: Any, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(text_input="one", streaming=True, sampling_param_max_tokens=10**6)
    sent = request.sender.send
    sends = iter([sent, lambda *_, **__: 1 / 0])
    monkeypatch.setattr(request.sender, "send", lambda *positional, **named: next(sends, sent)(*positional, **named))
    model.execute([request])
    first, *rest = request.sender.events()
    assert (texts([first]), refusal(rest)) == (
        ["one w0"],
        ("A part of this answer could not be sent, so it ends here; ask again", fake_triton.TritonError.UNAVAILABLE),
    )
    assert texts(senders_of(model, "next", sampling_param_max_tokens=1)[0].events()) == ["next w0"]


def test_a_client_that_is_gone_does_not_fail_the_requests_beside_its_own(
    model: Any, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = senders_of(model, "hold", "hold", "hold")
    gone = Request(text_input="hold")
    monkeypatch.setattr(gone.sender, "send", lambda *_, **__: 1 / 0)
    model.execute([gone])
    (image / "GO").touch()
    assert all(sender.events() for sender in held)


def test_declared_limits_are_the_model_s_parameters(server: ServerSlice) -> None:
    parameters = config(render(few(server), Defaults()), "gpt-oss-20b").parameters
    assert {key: value.string_value for key, value in parameters.items()} == {
        "max_running": "2",
        "max_queue_size": "1",
        "cancellation_check_period_ms": "100",
        "cache_tokens": "262144",
    }


def few(server: ServerSlice, decoupled: bool = True) -> ServerSlice:
    """The server with its LLM alone, with room for three requests."""
    model = server.models[-1]
    settings = model.settings | {"max_batch_size": 2}
    return replace(server, models=(replace(model, max_queue_size=1, settings=settings, decoupled=decoupled),))


@contextmanager
def serving(server: ServerSlice, work: Path) -> Iterator[Callable[..., tuple[int, str]]]:
    """A function that asks the LLM behind the real Triton 2.51: takes path and body, returns status and answer."""
    for path, content in render(server, Defaults()).items():
        if path.startswith("models/"):
            target = work / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    with real_triton.serving(work / "models", work) as triton:

        def ask(path: str, body: dict[str, Any]) -> tuple[int, str]:
            request = urllib.request.Request(
                f"http://{triton.http}/v2/models/gpt-oss-20b/{path}", json.dumps(body).encode()
            )
            try:
                with urllib.request.urlopen(request, timeout=300) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        yield ask
        (work / "image" / "GO").touch()  # a server with requests in it would not stop at once


HELD = {"text_input": "hold", "streaming": True, "sampling_param_max_tokens": 2}


@pytest.mark.rehearsal
def test_a_streaming_client_reads_the_refusal_and_is_served_once_there_is_room(
    server: ServerSlice, image: Path, tmp_path: Path
) -> None:
    with serving(few(server), tmp_path) as ask, ThreadPoolExecutor(4) as clients:
        answers = [clients.submit(ask, "generate_stream", HELD) for _ in range(4)]
        refused = next(as_completed(answers))
        status, message = refused.result()
        assert status >= 400 and "Exceeds maximum queue size" in message
        (image / "GO").touch()
        served = [answer.result() for answer in answers if answer is not refused]
        assert [(status, " w0" in text and " w1" in text) for status, text in served] == [(200, True)] * 3
        assert ask("generate", {"text_input": "again"})[0] == 200


@pytest.mark.rehearsal
def test_a_client_that_does_not_stream_gets_503(server: ServerSlice, image: Path, tmp_path: Path) -> None:
    inputs = [{"name": "text_input", "shape": [1], "datatype": "BYTES", "data": ["hold"]}]
    with serving(few(server, decoupled=False), tmp_path) as ask, ThreadPoolExecutor(4) as clients:
        answers = [clients.submit(ask, "infer", {"inputs": inputs}) for _ in range(4)]
        assert next(as_completed(answers)).result()[0] == 503
        (image / "GO").touch()
        assert sorted(answer.result()[0] for answer in answers) == [200, 200, 200, 503]


def test_a_request_accepted_just_before_the_end_is_answered(slot: ModuleType, image: Path) -> None:
    loaded = load(slot)
    (image / "GO").touch()
    senders = senders_of(loaded, "a", "b")
    loaded.finalize()
    assert [sender.queue.qsize() > 0 for sender in senders] == [True, True]
