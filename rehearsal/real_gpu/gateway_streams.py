"""Streams of a machine's gateway, event by event, and clients that keep the LLM busy through it."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from rehearsal.gateway import Gateway, connection

ANSWER_SECONDS = 180
Body = dict[str, Any]


@dataclass
class Answer:
    """The content of a stream so far."""

    status: int = 0
    events: int = 0
    text: str = ""
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    """Name and arguments of each tool call, by its index."""
    finish: str = ""
    tokens: int = -1
    """Tokens of the answer, by the usage of its last event."""
    first_seconds: float = 0.0
    seconds: float = 0.0
    trouble: str = ""

    @property
    def is_whole(self) -> bool:
        """Returns True if the stream has ended with a reason, a usage, and no error."""
        return self.status == 200 and not self.trouble and bool(self.finish) and self.tokens >= 0

    def read(self, event: Body) -> None:
        """Adds an event."""
        self.events += 1
        if "error" in event:
            self.trouble = str(event["error"])[:300]
        if usage := event.get("usage"):
            self.tokens = int(usage["completion_tokens"])
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            self.text += choice.get("text") or delta.get("content") or ""
            self.finish = choice.get("finish_reason") or self.finish
            for call in delta.get("tool_calls") or ():
                made = self.calls.setdefault(int(call["index"]), {"name": "", "arguments": ""})
                for part, words in (call.get("function") or {}).items():
                    made[part] += words or ""

    def to_json(self) -> Body:
        """Returns the fields for a step's file; a long text is cut."""
        return asdict(self) | {"text": self.text[:200], "is_whole": self.is_whole}


def stream_of(
    gateway: Gateway, path: str, body: Body, answer: Answer | None = None, within_seconds: float = ANSWER_SECONDS
) -> Answer:
    """Returns the streamed answer; fills `answer` meanwhile, if given. Records a broken connection as the answer's
    fault."""
    answer, began = answer or Answer(), time.monotonic()
    body = {"stream": True, "stream_options": {"include_usage": True}} | body
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {gateway.key}"}
    try:
        with contextlib.closing(connection(gateway, within_seconds)) as line:
            line.request("POST", path, json.dumps(body), headers)
            response = line.getresponse()
            answer.status = response.status
            if response.status != 200:
                answer.trouble = response.read().decode(errors="replace")[:300]
            for row in response:
                if row.startswith(b"data: {"):
                    answer.first_seconds = answer.first_seconds or round(time.monotonic() - began, 3)
                    answer.read(json.loads(row[6:]))
    except (OSError, ValueError, http.client.HTTPException) as error:
        answer.trouble = f"{type(error).__name__}: {error}"[:300]
    answer.seconds = round(time.monotonic() - began, 3)
    return answer


def all_at_once(gateway: Gateway, path: str, bodies: Sequence[Body]) -> list[Answer]:
    """Returns the answers to all bodies, sent concurrently."""
    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(lambda body: stream_of(gateway, path, body), bodies))


@contextlib.contextmanager
def under_way(gateway: Gateway, path: str, bodies: Sequence[Body], within_seconds: float) -> Iterator[list[Answer]]:
    """Yields answers that have begun and continue during the block; all have ended after it.

    Raises: AssertionError if an answer has not begun in time.
    """
    answers = [Answer() for _ in bodies]
    threads = [
        threading.Thread(target=stream_of, args=(gateway, path, body, answer))
        for body, answer in zip(bodies, answers, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        end = time.monotonic() + within_seconds
        while not all(answer.events or answer.trouble for answer in answers):
            assert time.monotonic() < end, f"{sum(not answer.events for answer in answers)} answers have not begun"
            time.sleep(0.02)
        yield answers
    finally:
        for thread in threads:
            thread.join()


@contextlib.contextmanager
def clients(gateway: Gateway, path: str, body: Body, count: int, within_seconds: float) -> Iterator[list[Answer]]:
    """Runs `count` clients that each ask repeatedly during the block with a time limit; yields their answers."""
    answers, ended = list[Answer](), threading.Event()

    def ask() -> None:
        while not ended.is_set():
            answers.append(stream_of(gateway, path, body, within_seconds=within_seconds))

    threads = [threading.Thread(target=ask, name=f"client-{number}") for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join()
