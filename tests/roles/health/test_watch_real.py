"""The watchdog with the real Triton 2.51: a model that hangs is silent, whatever Triton counts meanwhile.

The LLM slot runs with a stand-in for the image's model; the encoders are the shipped ones, on the CPU.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.slices.host import ServerSlice
from host import prove, watch
from roles.triton.defaults import Defaults
from roles.triton.render import render
from tests.encoders import real_triton
from tests.encoders.conftest import nomic
from tests.roles.triton.llm_image import MODEL
from tests.roles.triton.llm_slot import lay_image
from tests.roles.triton.test_llm_slot import few
from tests.roles.triton.test_render import server

__all__ = ["nomic", "server"]  # fixtures
pytestmark = pytest.mark.rehearsal

NAME, PATIENT = "gpt-oss-20b", 30.0
HELD = 'word.startswith("hold") and not os.path.exists(GO)'
HANGS = """os.path.exists("HANGS") and (said > 0 if word == "part" else word.startswith(open("HANGS").read()))"""
"""The engine keeps every prompt that begins as the file HANGS says, and "part" after its first word."""
STUCK = """
import os, time
from encoders.batching import Batcher

_step = Batcher.step

def step(self):
    while os.path.exists("HANGS"):
        time.sleep(0.05)
    _step(self)

Batcher.step = step
"""


def eventually(is_so: Callable[[], bool]) -> bool:
    """True if the condition becomes true within five minutes."""
    until = time.monotonic() + 300
    while not (result := is_so()) and time.monotonic() < until:
        time.sleep(0.2)
    return result


class Watch:
    """The watchdog's looks at one model of a running server."""

    def __init__(self, triton: real_triton.Server, **model: Any) -> None:
        self.http, self.model, self.seen = triton.http, model, watch.counts_of({}, True)
        http, metrics = (int(url.rsplit(":", 1)[1]) for url in (triton.http, triton.metrics))
        settings = {"address": "127.0.0.1", "http_port": http, "metrics_port": metrics}
        self.asker = watch.Asker({**settings, "restricted_header": "k", "start_seconds": 5}, "main", 1.0)

    def look(self, seconds: float = 2.0) -> tuple[int, int]:
        """Misses in a row, and True if the model is slow, after one more check with this time limit."""
        self.asker.seconds = seconds
        watch.look(self.asker, self.model, self.seen)
        return self.seen["misses"], self.seen["slow"]

    def answers(self) -> bool:
        """True if a check with a long limit succeeds."""
        return self.look(PATIENT) == (0, 0)

    def await_published_answers(self) -> None:
        """Waits until answers so far are published, and are the baseline of the next check."""
        self.asker.seconds = PATIENT
        for _ in range(30):
            before = watch.answered(self.asker, self.model)
            time.sleep(1.5)
            if before == watch.answered(self.asker, self.model) and before:
                break
        self.seen["answered"] = before

    def has_moved(self) -> bool:
        """True if any published answer is newer than the last check."""
        return bool(watch.answered(self.asker, self.model) > self.seen["answered"])

    def triton_counts(self) -> int:
        """Successful requests by Triton's own count."""
        return int(watch.counted_by_triton(self.asker, self.model))

    def client(self, word: str, decoupled: bool, seconds: float = PATIENT) -> int:
        """The status that a client of the LLM gets; 0 after its own time limit."""
        verb = "generate_stream" if decoupled else "generate"
        body = json.dumps({"text_input": word, "streaming": decoupled}).encode()
        try:
            with urllib.request.urlopen(f"http://{self.http}/v2/models/{NAME}/{verb}", body, timeout=seconds) as answer:
                answer.read()
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0


@contextmanager
def an_llm(server: ServerSlice, work: Path, decoupled: bool) -> Iterator[Watch]:
    """The LLM slot of a rendered release, with room for three."""
    for path, content in render(few(server, decoupled), Defaults()).items():
        if path.startswith("models/"):
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_bytes(content)
    with real_triton.serving(work / "models", work) as triton:
        watched = Watch(triton, name=NAME, kind="llm", path="pytorch", decoupled=decoupled)
        yield watched
        (work / "hangs").unlink(missing_ok=True)  # a server with hanging requests would not stop at once


@pytest.fixture
def hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that makes the models hang; the image's model is where the slot looks for it."""
    assert HELD in MODEL
    lay_image(tmp_path / "image", MODEL.replace(HELD, HANGS.replace("HANGS", str(tmp_path / "hangs"))))
    monkeypatch.setenv("ENGINEHOUSE_LLMAPI", str(tmp_path / "image"))
    return tmp_path / "hangs"


@pytest.mark.parametrize("decoupled", [True, False])
def test_an_llm_with_a_hung_engine_is_silent_despite_refused_requests(
    server: ServerSlice, tmp_path: Path, hangs: Path, decoupled: bool
) -> None:
    with an_llm(server, tmp_path, decoupled) as watched:
        assert watched.answers()
        watched.await_published_answers()
        hangs.write_text("")
        before = watched.triton_counts()
        assert watched.client("anybody's", decoupled, 1) == 0
        assert [watched.look() for _ in range(4)] == [(1, 0), (2, 0), (3, 0), (4, 0)]
        # Three may be in flight, so the latest probes were refused too.
        assert watched.client("one too many", decoupled) >= 400
        assert eventually(lambda: watched.triton_counts() == before + 6)
        hangs.unlink()
        assert eventually(lambda: watched.client("next", decoupled) == 200)
        assert watched.answers()


@pytest.mark.parametrize("decoupled", [True, False])
def test_an_llm_that_answers_another_or_a_part_to_another_is_slow(
    server: ServerSlice, tmp_path: Path, hangs: Path, decoupled: bool
) -> None:
    with an_llm(server, tmp_path, decoupled) as watched:
        assert watched.answers()
        watched.await_published_answers()
        hangs.write_text(prove.PROMPT)
        watched.client("part" if decoupled else "another", decoupled, 1 if decoupled else PATIENT)
        assert eventually(watched.has_moved)
        assert [watched.look() for _ in range(2)] == [(0, 1), (1, 0)]


def test_a_hung_encoder_is_silent_and_a_busy_one_slow(nomic: Path, tmp_path: Path, hangs: Path) -> None:
    parameters = {"model_path": str(nomic), "device": "cpu", "dtype": "fp32"}
    limits = {"max_batch_size": 8, "max_queue_delay_microseconds": 0, "max_queue_size": 8}
    limits |= {"default_timeout_microseconds": 0, "dimensions": 64}
    real_triton.add_model(tmp_path / "models", "embedder", "embed", parameters=parameters, **limits)
    with (tmp_path / "models/embed/1/model.py").open("a") as code:
        code.write(STUCK.replace("HANGS", str(hangs)))
    with real_triton.serving(tmp_path / "models", tmp_path) as triton:
        watched = Watch(triton, name="embed", kind="embedder", decoupled=False, dimensions=64)
        assert watched.answers()
        watched.await_published_answers()
        assert watch.is_answered(watched.asker, watched.model)  # answers to other clients count
        assert eventually(watched.has_moved)
        hangs.write_text("")
        before = watched.triton_counts()
        assert [watched.look() for _ in range(3)] == [(0, 1), (1, 0), (2, 0)]
        assert watched.triton_counts() > before
        hangs.unlink()
        assert watched.answers()
