"""A steady load through a gateway: each request leaves at its due time, independent of earlier ones."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rehearsal.gateway import Gateway, connection

EVERY_SECONDS = 0.25
"""Seconds between two requests, so that fewer wait during the longest swap than a process may hold."""
MOST_AT_ONCE = 512
PATIENCE_SECONDS = 300
VECTOR = ("/v1/embeddings", {"model": "minilm", "input": "some text"})
CHAT = (
    "/v1/chat/completions",
    {"model": "gpt-oss-tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 24, "stream": True},
)


Question: TypeAlias = tuple[str, dict[str, Any]]
"""Path and body of a request."""


@dataclass
class Load:
    """The outcome of every request: the seconds from sending to the last byte, or the error."""

    requests: list[Future[float]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def waits(self) -> list[float]:
        """Returns the seconds of each answered request, in the order of sending."""
        return [request.result() for request in self.requests if request.exception() is None]

    @property
    def answered_so_far(self) -> int:
        """Requests that have been answered until now."""
        return len([request for request in self.requests if request.done() and request.exception() is None])


@contextlib.contextmanager
def loaded(gateway: Gateway, questions: Sequence[Question] = (VECTOR, CHAT)) -> Iterator[Load]:
    """Sends the questions in turn during the block; afterwards each request has its outcome."""
    load, ended = Load(), threading.Event()

    def send(pool: ThreadPoolExecutor) -> None:
        due = time.monotonic()
        while not ended.is_set():
            question = questions[len(load.requests) % len(questions)]
            load.requests.append(pool.submit(answered, gateway, *question))
            due += EVERY_SECONDS
            ended.wait(max(0.0, due - time.monotonic()))

    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        sender = threading.Thread(target=send, args=(pool,))
        sender.start()
        try:
            yield load
        finally:
            ended.set()
            sender.join()
    load.lost = [repr(request.exception()) for request in load.requests if request.exception() is not None]


def answered(gateway: Gateway, path: str, body: dict[str, Any]) -> float:
    """Returns the seconds until the complete answer. Raises: AssertionError, OSError if it is not correct."""
    began, line = time.monotonic(), connection(gateway, PATIENCE_SECONDS)
    try:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {gateway.key}"}
        line.request("POST", path, json.dumps(body), headers)
        answer = line.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, f"{answer.status} {text[:200]}"
        if "stream" in body:
            assert text.rstrip().endswith("data: [DONE]") and '"finish_reason":"' in text, text[-400:]
        else:
            assert len(json.loads(text)["data"][0]["embedding"]) == 384, text[:200]
    finally:
        line.close()
    return time.monotonic() - began
