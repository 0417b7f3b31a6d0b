"""Small checkpoints that several tests read; none of them writes to these."""

from pathlib import Path

import pytest

from benchmarks import checkpoints


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small reranker and a small embedder, as `--small` makes them."""
    return checkpoints.make(tmp_path_factory.mktemp("small") / "checkpoints", "cpu", small=True)
