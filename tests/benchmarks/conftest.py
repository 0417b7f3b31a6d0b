"""Small checkpoints that several tests read and none changes. Sockets and threads stay the test run's own: pyinfra's
command line replaces them when it is imported."""

from pathlib import Path
from unittest import mock

import pytest

from benchmarks import checkpoints

with mock.patch("gevent.monkey.patch_all"):
    import pyinfra_cli  # noqa: F401  (only its inventory loader is used, which needs none of that)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small reranker and a small embedder, as `--small` makes them."""
    return checkpoints.make(tmp_path_factory.mktemp("small") / "checkpoints", "cpu", small=True)
