"""A gateway process before the tests' small Triton, for clients with separate environments: `make clients`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FILES = Path(__file__).parents[2] / "files"
START_SECONDS = 600

if importlib.util.find_spec("openai") is None:  # the project's own environment has no clients
    collect_ignore_glob = ["test_*.py"]


@dataclass
class Stack:
    """The gateway's address and key, and the servers behind it; `run` runs a coroutine in the small Triton's loop."""

    url: str
    key: str
    triton: Any
    weights: Path
    run: Callable[[Coroutine[Any, Any, Any]], Any]
    log: Path

    def tokens(self, text: str) -> int:
        """The number of tokens by the model's own tokenizer, without a BOS."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.weights / "tokenizer.json"))
        tokenizer.no_truncation()
        return len(tokenizer.encode(text, add_special_tokens=False).ids)


@contextlib.contextmanager
def loop_in_a_thread() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Yields a function that runs coroutines in another thread's event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(START_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextlib.contextmanager
def gateway(gateway_settings: dict[str, Any], folder: Path) -> Iterator[str]:
    """Yields the URL of a gateway process with these settings, once it listens."""
    (folder / "settings.json").write_text(json.dumps(gateway_settings))
    words = [sys.executable, "-m", "gateway", "serve", str(folder / "settings.json")]
    url = f"http://127.0.0.1:{gateway_settings['listen']['ports'][0]}"
    with (folder / "gateway.log").open("wb") as log:
        environment = {**os.environ, "PYTHONPATH": str(FILES)}
        process = subprocess.Popen(words, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            _await(url, process)
            yield url
        finally:
            process.terminate()
            process.wait(START_SECONDS)


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, "the gateway ended"
        with contextlib.suppress(urllib.error.URLError, ConnectionError), urllib.request.urlopen(f"{url}/health"):
            return
        time.sleep(0.1)
    raise AssertionError("the gateway does not listen")


@pytest.fixture(scope="session")
def session_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yields the gateway that all tests here share."""
    from tests.gateway.asking import KEY, key_line, settings
    from tests.gateway.triton import Triton, serving
    from tests.gateway.weights import written
    from tests.ports import free_port

    folder = tmp_path_factory.mktemp("stack")
    keys, weights, triton = folder / "keys.json", written(folder / "weights"), Triton()
    keys.write_text(json.dumps({"keys": [key_line(KEY, "acme")]}))
    with loop_in_a_thread() as run:
        context = serving(triton)
        run(context.__aenter__())
        try:
            listen, limits = (
                {"ports": [free_port()]},
                {"inputs": 64, "documents": 64},
            )  # a fuzzer sends the longest lists
            gateway_settings = settings([triton.address], weights, keys, listen=listen, limits=limits)
            gateway_settings["aliases"]["nomic:document"] = {"model": "nomic", "task": "search_document"}
            with gateway(gateway_settings, folder) as url:
                yield Stack(url, KEY, triton, weights, run, folder / "gateway.log")
        finally:
            run(context.__aexit__(None, None, None))


@pytest.fixture
def stack(session_stack: Stack) -> Stack:
    """Returns the shared stack with an empty Triton record and the first script."""
    from tests.gateway.triton import Script

    session_stack.triton.requests.clear()
    session_stack.triton.script = Script()
    return session_stack
