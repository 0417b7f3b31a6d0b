"""The LLM slot refuses what comes beyond its bound, as a full queue of Triton's does, and frees each place once.

The image's model is stood in for by one that holds every prompt until it is told to answer.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from deploy.slice import ServerSlice
from roles.triton.defaults import Defaults
from roles.triton.render import render
from tests.encoders import fake_triton, real_triton
from tests.roles.triton.test_render import config, server

__all__ = ["server"]  # a fixture: the one server of inventories/h100.py
SLOT = Path(__file__).resolve().parents[3] / "files" / "llm" / "llmapi.py"
HOLDING = '''
import json

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    """Holds prompts; "go" answers them all, "drop" forgets them without a word, as a stopped request is forgotten."""

    def initialize(self, args):
        policy = json.loads(args["model_config"]).get("model_transaction_policy", {"decoupled": True})
        self.held, self.streams = [], policy["decoupled"]

    def execute(self, requests):
        for request in requests:
            stop = pb_utils.get_input_tensor_by_name(request, "stop")
            word = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()[0].decode()
            sender = request.get_response_sender()
            if word == "hold":
                self.held.append(sender)
                continue
            if stop is not None and stop.as_numpy().any():
                held, self.held = self.held, []
                for each in held if word == "go" else []:
                    if self.streams:
                        each.send(self._said("part"))
                    each.send(self._said("all"), FINAL)
            sender.send(self._said(word))
            sender.send(flags=FINAL)

    def _said(self, word):
        return pb_utils.InferenceResponse([pb_utils.Tensor("text_output", np.array([word.encode()], dtype=object))])
'''


class Sender:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, int]] = []

    def send(self, response: Any = None, flags: int = 0) -> None:
        """Kept."""
        self.sent.append((response, flags))


class Request(fake_triton.Request):
    """A prompt; `stop` makes it one that stops others."""

    def __init__(self, word: str, stop: bool = False) -> None:
        tensors = {"text_input": np.array([word.encode()], dtype=object)}
        super().__init__(tensors | ({"stop": np.array([True])} if stop else {}))
        self.sender = Sender()

    def get_response_sender(self) -> Sender:
        """Always the same."""
        return self.sender


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The image's model, where the slot looks for it."""
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "model.py").write_text(HOLDING)
    monkeypatch.setenv("ENGINEHOUSE_LLMAPI", str(folder))
    monkeypatch.setenv("LLM_CONFIG_PATH", "")
    return folder


@pytest.fixture
def slot(image: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The slot's module, in a process whose Triton is a fake."""
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", fake_triton)
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("llm_slot", SLOT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("llmapi_of_the_image", None)


@pytest.fixture
def model(slot: ModuleType) -> Any:
    """Two run and one waits."""
    loaded = slot.TritonPythonModel()
    loaded.initialize(fake_triton.arguments("llm", {"max_running": "2", "max_queue_size": "1"}))
    return loaded


def asked(model: Any, *words: str, stop: bool = False) -> list[Sender]:
    """The senders of one batch of requests; none of the requests is kept here."""
    requests = [Request(word, stop) for word in words]
    model.execute(requests)
    return [request.sender for request in requests]


def refusal(sender: Sender) -> Any:
    """The error of a request that was refused at once and for good."""
    ((response, flags),) = sender.sent
    assert flags == fake_triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL
    return response.error


def test_what_comes_beyond_those_that_run_and_wait_is_refused_as_unavailable(model: Any) -> None:
    *held, fourth = asked(model, "hold", "hold", "hold", "hold")
    assert [sender.sent for sender in held] == [[], [], []]
    assert refusal(fourth).code == fake_triton.TritonError.UNAVAILABLE
    assert str(refusal(fourth)) == (
        "Exceeds maximum queue size: 2 requests run and 1 wait at most, 3 are unanswered; send it again later"
    )


def test_a_last_response_makes_room_and_a_part_of_an_answer_does_not(model: Any) -> None:
    held = asked(model, "hold", "hold", "hold")
    model.held[0].send(model._said("part"))
    assert refusal(asked(model, "hold")[0])
    model.held[0].send(model._said("all"), fake_triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    model.held[0].send(flags=fake_triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL)  # once more frees nobody else's place
    admitted, refused = asked(model, "hold", "hold")
    assert (len(held[0].sent), admitted.sent) == (3, [])
    assert refusal(refused)


def test_a_request_that_is_dropped_without_a_last_response_makes_room(model: Any) -> None:
    """So the image's model treats one that another request stopped."""
    asked(model, "hold", "hold", "hold")
    asked(model, "drop", stop=True)
    gc.collect()
    assert [sender.sent for sender in asked(model, "hold", "hold", "hold")] == [[], [], []]


def test_a_request_that_stops_another_is_never_refused(model: Any) -> None:
    asked(model, "hold", "hold", "hold")
    (sender,) = asked(model, "go", stop=True)
    assert sender.sent[0][0].error is None
    assert asked(model, "hold")[0].sent == []


def test_a_client_that_is_gone_does_not_fail_the_requests_beside_its_own(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(model, "hold", "hold", "hold")
    gone, stops = Request("hold"), Request("go", stop=True)
    monkeypatch.setattr(gone.sender, "send", lambda *_, **__: 1 / 0)
    model.execute([gone, stops])
    assert stops.sender.sent


def test_what_was_declared_is_what_the_model_is_told(server: ServerSlice) -> None:
    told = config(render(few(server), Defaults()), "gpt-oss-20b").parameters
    assert {key: value.string_value for key, value in told.items()} == {"max_running": "2", "max_queue_size": "1"}


def few(server: ServerSlice, decoupled: bool = True) -> ServerSlice:
    """The LLM alone, with room for three."""
    model = server.models[-1]
    settings = model.settings | {"max_batch_size": 2}
    return replace(server, models=(replace(model, max_queue_size=1, settings=settings, decoupled=decoupled),))


@contextmanager
def serving(server: ServerSlice, work: Path) -> Iterator[Callable[..., tuple[int, str]]]:
    """Asks the LLM behind the real Triton 2.51: a path and a body; status and answer come back."""
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
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        yield ask
        ask("generate", {"text_input": "go", "stop": True})  # a server with requests in it would not stop at once


@pytest.mark.rehearsal
def test_who_streams_reads_the_refusal_and_is_served_once_there_is_room(
    server: ServerSlice, image: Path, tmp_path: Path
) -> None:
    with serving(few(server), tmp_path) as ask, ThreadPoolExecutor(4) as clients:
        answers = [clients.submit(ask, "generate_stream", {"text_input": "hold"}) for _ in range(4)]
        refused = next(as_completed(answers))
        status, told = refused.result()
        assert status >= 400 and "Exceeds maximum queue size" in told
        assert ask("generate", {"text_input": "go", "stop": True})[0] == 200
        served = [each.result() for each in answers if each is not refused]
        assert [(status, "part" in text and "all" in text) for status, text in served] == [(200, True)] * 3
        assert ask("generate", {"text_input": "again"})[0] == 200


@pytest.mark.rehearsal
def test_who_does_not_stream_is_told_503(server: ServerSlice, image: Path, tmp_path: Path) -> None:
    inputs = [{"name": "text_input", "shape": [1], "datatype": "BYTES", "data": ["hold"]}]
    with serving(few(server, decoupled=False), tmp_path) as ask, ThreadPoolExecutor(4) as clients:
        answers = [clients.submit(ask, "infer", {"inputs": inputs}) for _ in range(4)]
        assert next(as_completed(answers)).result()[0] == 503
        ask("generate", {"text_input": "go", "stop": True})
        assert sorted(each.result()[0] for each in answers) == [200, 200, 200, 503]
