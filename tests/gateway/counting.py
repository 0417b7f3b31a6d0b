"""A program of `gateway.worker` for tests: it counts its messages, works forever or takes all memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.worker import Work, serve


def load(_settings: Mapping[str, Any]) -> Callable[[], tuple[Work, bytes]]:
    """Returns the work of the process: counting."""
    count = 0

    def answer(message: bytes) -> bytes:
        nonlocal count
        count += 1
        while message == b"for ever":
            pass
        held = [bytes(2**20)]
        while message == b"memory":
            held.append(bytes(2**20))
        return str(count).encode()

    return lambda: (answer, b"")


if __name__ == "__main__":
    serve(load)
