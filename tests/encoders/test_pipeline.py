"""The pipeline's threads: answers through senders in any order, and cancelled, delayed and counted requests."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from encoders.embedding import Embedder
from encoders.metrics import Meter
from encoders.serving import Service
from tests.encoders import fake_triton as triton
from tests.encoders.fake_triton import InferenceResponse, Request, TritonError, strings
from tests.encoders.test_contract import service, texts

PATIENCE_SECONDS = 300


class Sender:
    """Accepts one response; Triton would report a second one as an error."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.cancelled = False

    def send(self, response: InferenceResponse, flags: int) -> None:
        assert flags == triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL and not self.done.is_set()
        self.response = response
        self.done.set()

    def is_cancelled(self) -> bool:
        return self.cancelled

    def get(self) -> InferenceResponse:
        assert self.done.wait(PATIENCE_SECONDS)
        return self.response


class Sent(Request):
    """A request of a release with response senders."""

    def get_response_sender(self) -> Sender:
        self.sender = Sender()
        return self.sender


def sent(*items: str | bytes, **options: Any) -> Sent:
    return Sent({"texts": strings([list(items)])}, options)


@pytest.fixture
def embed(nomic: Path) -> Iterator[Service]:
    """Yields an embedder for one test, with passes of a few texts."""
    with closing(service(nomic, Embedder, max_batch_tokens="64")) as embed:
        yield embed


def test_execute_returns_before_the_answers_and_each_goes_through_its_sender(embed: Service) -> None:
    requests = [sent("the cat"), sent("paris", "sea"), sent(b"\xff")]
    assert embed.execute(requests) is None
    good, better, bad = (request.sender.get() for request in requests)
    assert good["embeddings"].shape == (1, 1, 64) and better["embeddings"].shape == (1, 2, 64)
    assert bad.error is not None and bad.error.code == TritonError.INVALID_ARG


def test_many_clients_at_once_each_get_their_own_answer(embed: Service, corpus: list[str]) -> None:
    wanted = [embed.execute([texts([text])])[0]["embeddings"] for text in corpus]

    def ask(index: int) -> None:
        request = sent(corpus[index % 12])
        embed.execute([request])
        np.testing.assert_allclose(request.sender.get()["embeddings"], wanted[index % 12], atol=2e-6)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(96)))


def test_a_request_cancelled_while_it_waits_is_answered_as_cancelled(embed: Service) -> None:
    hold(embed)
    request = sent("the cat")
    embed.execute([request])
    request.sender.cancelled = True
    embed._model.runner.gate.set()
    error = request.sender.get().error
    assert error is not None and error.code == TritonError.CANCELLED


def hold(victim: Service) -> None:
    """Occupies the network with a first request until its gate is opened."""
    network, gate, began = victim._model.runner._network, threading.Event(), threading.Event()

    def slow(batch: Any) -> Any:
        began.set()
        gate.wait(PATIENCE_SECONDS)
        return network(batch)

    victim._model.runner._network, victim._model.runner.gate = slow, gate
    victim.execute([sent("held")])
    assert began.wait(PATIENCE_SECONDS)


def test_a_reply_that_cannot_be_sent_does_not_keep_others_from_theirs(embed: Service) -> None:
    gone, here = sent("the cat"), sent("paris")
    embed.execute([gone, here])
    gone.sender.send = lambda response, flags: 1 / 0
    again = sent("sea")
    embed.execute([again])
    assert again.sender.get().error is None and here.sender.get().error is None


def test_a_panic_of_the_tokeniser_fails_only_its_own_request(embed: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """Stand-in for the exception that tokenizers raises when its Rust code panics."""

    encode = embed._pipeline._encode

    def panics(jobs: Any) -> None:
        if any("poison" in text for job in jobs for text in job.texts):
            raise PanicException("index out of bounds")
        encode(jobs)

    monkeypatch.setattr(embed._pipeline, "_encode", panics)
    bad, beside, after = sent("poison"), sent("paris"), sent("sea")
    embed.execute([bad, beside])
    embed.execute([after])
    assert bad.sender.get().error.code == TritonError.INTERNAL
    assert beside.sender.get().error is None and after.sender.get().error is None
    assert embed.is_ready()


def test_closing_answers_submitted_jobs(embed: Service) -> None:
    requests = [sent(*["the cat"] * 20) for _ in range(5)]
    for request in requests:
        embed.execute([request])
    embed.close()
    assert all(request.sender.done.is_set() and request.sender.response.error is None for request in requests)


def test_text_waits_outside_while_enough_tokens_wait_for_the_device(embed: Service) -> None:
    hold(embed)
    late = threading.Thread(target=lambda: [embed.execute([sent(*["the cat"] * 30)]) for _ in range(6)], daemon=True)
    late.start()
    time.sleep(0.3)
    assert late.is_alive(), "six requests of 450 tokens are more than two passes of 64"
    embed._model.runner.gate.set()
    late.join(PATIENCE_SECONDS)
    assert not late.is_alive()


class Family:
    """Triton's metric family, and all metrics by name."""

    COUNTER, GAUGE = "counter", "gauge"
    made: dict[str, float] = {}  # noqa: RUF012 (one registry per process, like the real one)

    def __init__(self, name: str, description: str, kind: str) -> None:
        self.name = name

    def Metric(self, labels: dict[str, str]) -> "Family":
        assert labels == {"model": "some_model"}
        self.made[self.name] = 0.0
        return self

    def increment(self, value: float) -> None:
        self.made[self.name] += value

    def set(self, value: float) -> None:
        self.made[self.name] = value


def test_the_computed_amounts_are_published_as_metrics(nomic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "MetricFamily", Family, raising=False)
    monkeypatch.setattr("encoders.metrics.EVERY_SECONDS", 0.0)
    embed = service(nomic, Embedder, max_batch_tokens="64")
    embed.execute([texts(["the cat"] * 4), texts(["sea"]), texts([b"\xff"])])
    embed.close()
    counts = {name.removeprefix("enginehouse_encoder_"): value for name, value in Family.made.items()}
    assert counts.pop("pass_seconds_total") > 0
    assert counts["answers_total"] <= embed._pipeline._meter.answers == 2, "the third was refused"
    assert (counts["documents_total"], counts["tokens_total"], counts["passes_total"]) == (5.0, 74.0, 2.0)
    assert counts["queued_tokens"] == 0.0


def test_unpublishable_metrics_stop_no_request_and_are_logged_once(
    nomic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Family):
        def set(self, value: float) -> None:
            raise RuntimeError("no shared memory left")

    monkeypatch.setattr(triton, "MetricFamily", Failing, raising=False)
    monkeypatch.setattr("encoders.metrics.EVERY_SECONDS", 0.0)
    embed = service(nomic, Embedder)
    messages: list[str] = []
    embed._pipeline._meter.note = messages.append
    for text in ("the cat", "sea", "paris"):
        assert embed.execute([texts([text])])[0].error is None
    embed.close()
    assert messages == ["metrics are not published: RuntimeError: no shared memory left"]


def test_a_count_published_late_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Once(Family):
        fails = True

        def increment(self, value: float) -> None:
            if self.name.endswith("_tokens_total") and Once.fails:
                Once.fails = False
                raise RuntimeError("no shared memory left")
            super().increment(value)

    monkeypatch.setattr("encoders.metrics.EVERY_SECONDS", 0.0)
    meter = Meter(SimpleNamespace(MetricFamily=Once), "some_model", 64, lambda: 0, lambda message: None)
    meter.answers, meter.documents, meter.tokens = 5, 3, 12
    meter.publish(0), meter.publish(0)
    counts = {name.removeprefix("enginehouse_encoder_"): value for name, value in Family.made.items()}
    assert (counts["answers_total"], counts["documents_total"], counts["tokens_total"]) == (5, 3, 12)
