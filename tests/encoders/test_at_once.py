"""Few words on an idle device: the thread that received them computes them, and the answer is in one piece."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders import batching
from encoders.embedding import Embedder
from encoders.serving import Service
from tests.encoders.fake_triton import TritonError
from tests.encoders.test_contract import service
from tests.encoders.test_pipeline import hold, sent


@pytest.fixture
def embed(nomic: Path) -> Iterator[Service]:
    """An embedder that takes up to 40 letters at once, as one with graphs takes thousands."""
    with closing(service(nomic, Embedder, max_batch_tokens="64")) as embed:
        embed._pipeline.prompt_letters = 40
        yield embed


def test_few_words_are_answered_in_the_call_as_by_the_threads(embed: Service) -> None:
    requests = [sent("the cat"), sent("paris", "sea"), sent(b"\xff"), sent()]
    cat, both, bad, none = embed.execute(requests) or []
    assert bad.error is not None and bad.error.code == TritonError.INVALID_ARG
    assert none["embeddings"].shape == (1, 0, 64)
    embed._pipeline.prompt_letters = 0
    threads = [sent("the cat"), sent("paris", "sea")]
    assert embed.execute(threads) is None
    for got, request in zip((cat, both), threads, strict=True):
        np.testing.assert_allclose(got["embeddings"], request.sender.get()["embeddings"], atol=2e-6)
    embed.close()
    assert embed._pipeline._meter.answers == 5 and embed._pipeline._meter.documents == 6


def test_a_new_request_is_not_checked_for_a_cancelled_client(embed: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "ASKED_AFTER_SECONDS", 3600.0)
    request = sent("the cat")
    request.is_cancelled = lambda: True
    (got,) = embed.execute([request]) or []
    assert got.error is None


def test_many_words_go_to_the_threads(embed: Service) -> None:
    assert embed.execute([many := sent("the cat sat on the mat and so did the dog")]) is None
    assert many.sender.get().error is None


def test_few_words_wait_for_those_that_are_under_way(embed: Service) -> None:
    letters, embed._pipeline.prompt_letters = embed._pipeline.prompt_letters, 0
    hold(embed)
    embed._pipeline.prompt_letters = letters
    assert embed.execute([behind := sent("the cat")]) is None
    embed._model.runner.gate.set()
    assert behind.sender.get().error is None


def test_a_text_that_the_network_fails_on_is_answered_as_such(embed: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed._pipeline._batcher, "launch", lambda sequences, beside: 1 / 0)
    (got,) = embed.execute([sent("the cat")]) or []
    assert got.error is not None and got.error.code == TritonError.INTERNAL and embed.is_ready()


def test_an_exception_that_ends_threads_is_answered_and_makes_the_model_unready(
    embed: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(sequences: Any, beside: bool) -> Any:
        raise SystemExit

    monkeypatch.setattr(embed._pipeline._batcher, "launch", dies)
    (got,) = embed.execute([sent("the cat")]) or []
    assert got.error is not None and got.error.code == TritonError.UNAVAILABLE and not embed.is_ready()
    assert embed.execute([later := sent("sea")]) is None
    assert later.sender.get().error.code == TritonError.UNAVAILABLE
