"""A thread of the pipeline dies: every request gets one answer, and the model is no longer ready."""

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from encoders.batching import Batcher, Job
from encoders.embedding import Embedder
from encoders.errors import RequestError
from encoders.pipeline import Pipeline
from encoders.serving import Service
from tests.encoders import fake_triton as triton
from tests.encoders.fake_triton import TritonError
from tests.encoders.test_contract import service
from tests.encoders.test_pipeline import PATIENCE_SECONDS, sent


@pytest.fixture
def embed(nomic: Path) -> Iterator[Service]:
    """Yields an embedder for one test, with passes of a few texts."""
    with closing(service(nomic, Embedder, max_batch_tokens="64")) as embed:
        yield embed


def until(holds: Callable[[], bool]) -> None:
    """Returns once the condition holds."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        threading.Event().wait(0.01)


def die(*_: Any) -> Any:
    raise SystemExit


class Quiet:
    """A meter that records its calls instead of reporting to Triton."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def publish(self, waiting: int) -> None:
        pass

    def note(self, message: str) -> None:
        self.notes.append(message)


class Wait:
    """A running pass."""

    def __init__(self, wait: Callable[[], Any]) -> None:
        self.wait = wait


def lengths(sequences: Any, beside: bool) -> Wait:
    return Wait(lambda: np.array([len(ids) for ids in sequences], float))


def rig(launch: Any = lengths, reply: Any = None, meter: Any = None) -> tuple[Pipeline, list[Job]]:
    """Returns a pipeline with given sequences, and the list of its replies."""
    replied: list[Job] = []

    def keep(job: Job) -> None:
        if reply:
            reply(job)
        replied.append(job)

    def encode(jobs: Any) -> None:
        for job in jobs:
            job.expect([np.zeros(4, np.int32)])

    return Pipeline(encode, Batcher(launch, 16), keep, meter or Quiet()), replied


def answered(pipeline: Pipeline, replied: list[Job], count: int = 40) -> list[str]:
    """Returns the results of `count` jobs once the pipeline is closed, and of a job that comes after a death."""
    jobs = [Job() for _ in range(count)]
    for at in range(0, count, 4):
        pipeline.submit(jobs[at : at + 4])
    pipeline.close()
    late = [Job()] * pipeline.dead
    if late:
        pipeline.submit(late)
    assert sorted(map(id, replied)) == sorted(map(id, jobs + late)), "each exactly once"
    return [job.error.code if isinstance(job.error, RequestError) else str(job.error) for job in jobs + late]


def test_closing_again_and_from_several_threads_returns_when_all_is_answered() -> None:
    """An earlier version of the second close waited forever for an ended thread."""
    pipeline, replied = rig(reply=lambda job: threading.Event().wait(0.02))
    jobs = [Job() for _ in range(20)]
    pipeline.submit(jobs)
    closers = [threading.Thread(target=pipeline.close, daemon=True) for _ in range(4)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(PATIENCE_SECONDS)
        assert not closer.is_alive() and len(replied) == len(jobs)
    pipeline.close()


def test_a_request_after_closing_is_answered_as_stopped() -> None:
    pipeline, replied = rig()
    pipeline.close()
    jobs = [Job() for _ in range(3)]
    late = threading.Thread(target=lambda: [pipeline.submit([job]) for job in jobs], daemon=True)
    late.start()
    late.join(PATIENCE_SECONDS)
    assert not late.is_alive() and [id(job) for job in replied] == [id(job) for job in jobs]
    assert {job.error.code for job in jobs if isinstance(job.error, RequestError)} == {"UNAVAILABLE"}


def broken_wait(sequences: Any, beside: bool) -> Wait:
    return Wait(die)


@pytest.mark.parametrize("launch", [die, broken_wait])
def test_a_dying_computing_thread_answers_its_current_pass_too(launch: Any) -> None:
    pipeline, replied = rig(launch)
    assert set(answered(pipeline, replied)) == {"UNAVAILABLE"} and pipeline.dead


def test_unreadable_results_fail_their_pass_but_no_thread() -> None:
    pipeline, replied = rig(lambda sequences, beside: Wait(lambda: np.array([None] * len(sequences))))
    assert all("NoneType" in message for message in answered(pipeline, replied)) and not pipeline.dead


def test_every_request_is_answered_after_the_reply_thread_died() -> None:
    tried: list[Job] = []

    def once(job: Job) -> None:
        tried.append(job)
        if len(tried) == 1:
            raise SystemExit

    pipeline, replied = rig(reply=once)
    messages = answered(pipeline, replied)
    assert pipeline.dead and messages[-1] == "UNAVAILABLE"


def test_a_log_that_cannot_be_written_keeps_no_answer_back() -> None:
    meter = Quiet()
    meter.note = lambda message: 1 / 0
    pipeline, replied = rig(die, meter=meter)
    assert set(answered(pipeline, replied)) == {"UNAVAILABLE"}


def test_closing_waits_until_refused_requests_are_answered() -> None:
    pipeline, replied = rig(die, reply=lambda job: threading.Event().wait(0.02))
    assert set(answered(pipeline, replied)) == {"UNAVAILABLE"}


def test_the_death_of_a_thread_is_logged_with_its_name() -> None:
    meter = Quiet()
    answered(*rig(die, meter=meter))
    assert meter.notes == ["thread compute died: SystemExit"]


def test_waiting_threads_keep_no_reference_to_answered_requests() -> None:
    pipeline, replied = rig()
    jobs = [Job() for _ in range(8)]
    kept = [weakref.ref(job) for job in jobs]
    pipeline.submit(jobs[:4])
    pipeline.submit(jobs[4:])
    until(lambda: len(replied) == 8)
    replied.clear(), jobs.clear()
    # A thread drops its references when it begins to wait.
    until(lambda: gc.collect() >= 0 and not any(ref() for ref in kept))
    assert [ref() for ref in kept] == [None] * 8
    pipeline.close()


def test_tensors_of_a_failed_attempt_are_freed_before_the_next_attempt(embed: Service) -> None:
    made: list[weakref.ref[Any]] = []

    def encode(jobs: Any) -> None:
        assert [ref() for ref in made] == [None] * len(made), "an earlier attempt's"
        large = np.zeros(1000)
        made.append(weakref.ref(large))
        raise MemoryError

    embed._pipeline._encode = encode
    requests = [sent("the cat"), sent("sea"), sent("paris")]
    embed.execute(requests)
    codes = [request.sender.get().error.code for request in requests]
    assert (codes, len(made)) == ([TritonError.INTERNAL] * 3, 4)


def test_tensors_of_a_failed_pass_are_freed_once_the_failure_is_reported() -> None:
    made: list[weakref.ref[Any]] = []

    def launch(sequences: Any, beside: bool) -> Any:
        large = np.zeros(1000)
        made.append(weakref.ref(large))
        raise ValueError(large.size)

    gc.disable()
    try:
        pipeline, replied = rig(launch)
        assert len(answered(pipeline, replied, 4)) == 4
        assert {type(job.error) for job in replied} == {ValueError} and [ref() for ref in made] == [None] * len(made)
    finally:
        gc.enable()


def test_a_logger_that_fails_ends_no_thread(embed: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "Logger", SimpleNamespace(log_error=lambda message: 1 / 0), raising=False)
    embed._pipeline._batcher.launch = lambda sequences, beside: 1 / 0
    embed.execute([request := sent("the cat")])
    assert request.sender.get().error.code == TritonError.INTERNAL and embed.is_ready()


def test_an_answer_that_could_not_be_sent_is_not_counted_as_one(embed: Service) -> None:
    request = sent("the cat")
    make = request.get_response_sender

    def broken() -> Any:
        sender = make()
        sender.send = lambda response, flags: 1 / 0
        return sender

    request.get_response_sender = broken
    embed.execute([request])
    embed.execute([good := sent("sea")])
    good.sender.get()
    embed.close()
    assert embed._pipeline._meter.answers == 1


def test_a_dead_computing_thread_makes_the_model_unready_and_answers_every_request(
    embed: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise SystemExit

    monkeypatch.setattr(embed._pipeline._batcher, "step", die)
    first, later = sent("the cat"), sent("paris")
    embed.execute([first])
    assert first.sender.get().error.code == TritonError.UNAVAILABLE
    assert embed.is_ready() is False
    embed.execute([later])
    assert later.sender.get().error.code == TritonError.UNAVAILABLE


def test_texts_in_encoding_are_answered_when_the_computing_thread_dies(
    embed: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, reached, go_on = embed._pipeline._encode, threading.Event(), threading.Event()

    def slow(jobs: Any) -> None:
        reached.set()
        assert go_on.wait(PATIENCE_SECONDS)
        encode(jobs)

    def die() -> None:
        raise SystemExit

    embed.execute([sent("the cat")])
    monkeypatch.setattr(embed._pipeline, "_encode", slow)
    late = sent("paris")
    embed.execute([late])
    assert reached.wait(PATIENCE_SECONDS)
    monkeypatch.setattr(embed._pipeline._batcher, "step", die)  # the batcher's next step, at most a second later
    (computing,) = embed._pipeline._stages[1][1]
    computing.join(PATIENCE_SECONDS)
    go_on.set()
    assert late.sender.get().error.code == TritonError.UNAVAILABLE
    closing = threading.Thread(target=embed.close, daemon=True)
    closing.start()
    closing.join(PATIENCE_SECONDS)
    assert not closing.is_alive()
