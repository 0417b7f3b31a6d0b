"""Checkpoints and loaded models that several tests read; no test writes to these."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from encoders import batching
from encoders.embedding import Embedder
from encoders.reranking import Reranker
from tests.encoders import checkpoints
from tests.encoders.checkpoints import on_cpu


@pytest.fixture(autouse=True)
def clients_may_leave_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes each pass ask Triton if a client has disconnected, however short the client's wait was."""
    monkeypatch.setattr(batching, "ASKED_AFTER_SECONDS", 0.0)


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Fails if a pipeline is open: a thread inside torch at the interpreter's end aborts the run (exit 134)."""
    yield
    left = [thread.name for thread in threading.enumerate() if thread.name in ("encode", "compute", "reply")]
    assert left == [], "a test left a Service or Pipeline open: use `closing`"


@pytest.fixture(scope="session")
def nomic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes a small NomicBert v2-MoE checkpoint."""
    weights = checkpoints.weights_for(checkpoints.NOMIC)
    return checkpoints.write(tmp_path_factory.mktemp("nomic"), checkpoints.NOMIC, weights)


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes a small BERT checkpoint."""
    weights = checkpoints.weights_for(checkpoints.BERT)
    return checkpoints.write(tmp_path_factory.mktemp("bert"), checkpoints.BERT, weights)


@pytest.fixture(scope="session")
def xlmr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes a small XLM-RoBERTa checkpoint with a one-label head."""
    weights = checkpoints.weights_for(checkpoints.XLMR)
    return checkpoints.write(tmp_path_factory.mktemp("xlmr"), checkpoints.XLMR, weights)


@pytest.fixture(scope="session")
def embedder(nomic: Path) -> Embedder:
    """Loads the NomicBert checkpoint."""
    return Embedder(on_cpu(nomic))


@pytest.fixture(scope="session")
def reranker(xlmr: Path) -> Reranker:
    """Loads the XLM-RoBERTa checkpoint."""
    return Reranker(on_cpu(xlmr))


@pytest.fixture(scope="session")
def corpus() -> list[str]:
    """Returns texts of 4 to 90 words in random order of length."""
    rng = random.Random(7)
    lengths = [4, 90, 8, 60, 5, 33, 17, 71, 12, 44, 9, 26]
    return [" ".join(rng.choices(checkpoints.WORDS, k=length)) for length in lengths]
