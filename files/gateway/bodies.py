"""Bodies to values: small ones where they stand, large ones in a process of its own (`worker`).

Python's parser runs in the event loop's own time. 64 KiB of texts take it 0.7 ms, but 16 MiB of empty lists 18 s; so
what decides is the count of values beside the length. A large body comes back as values that are quick to read.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from dataclasses import astuple
from typing import Any

from gateway.errors import ApiError
from gateway.json_body import Bounds, JsonError, marks, parsed
from gateway.load import TURNS, Turns
from gateway.worker import Lanes, Program, Refused, Work, serve

INLINE_BYTES = 65_536
INLINE_MARKS = 2048
"""Bodies within both are parsed here: 0.7 ms for the dearest texts, 3 ms for the dearest values (2026-11-25, two cores
of an unnamed x86-64 VM, Python 3.11)."""
MOST_SECONDS = 5.0
MOST_MORE_BYTES = 512 * 2**20
"""Beside what Python itself takes. 16 MiB of ordinary documents take 100."""
TOO_MUCH = "it takes too long, or too much memory, to read"
PROGRAM = Program("gateway.bodies", {}, MOST_SECONDS, TOO_MUCH, most_more_bytes=MOST_MORE_BYTES)


class Parser:
    """The processes that parse large bodies; they start with the first of them."""

    def __init__(self, turns: Turns) -> None:
        self._turns, self._lanes = turns, Lanes(PROGRAM, TURNS)

    async def value(self, raw: bytes, bounds: Bounds, tenant: str) -> Any:
        """What the body says.

        Raises: ApiError 400 where it is no JSON within the bounds; those of `Turns`.
        """
        try:
            if not is_large(raw):
                return parsed(raw, bounds)
            message = marshal.dumps((astuple(bounds), raw))
            # Written by our own code in that process, which executes nothing of what it parses.
            return marshal.loads(await self._turns.work(tenant, lambda: self._lanes.answer(message)))
        except (JsonError, Refused) as error:
            raise ApiError(400, f"the body is no JSON that is taken here: {error}", code="invalid_json") from None


def is_large(raw: bytes) -> bool:
    """True if the body is not parsed in the event loop's time."""
    return len(raw) > INLINE_BYTES or marks(raw) > INLINE_MARKS


def load(_given: Mapping[str, Any]) -> Callable[[], tuple[Work, bytes]]:
    """What parses bodies."""

    def answer(message: bytes) -> bytes:
        bounds, raw = marshal.loads(message)
        return marshal.dumps(parsed(raw, Bounds(*bounds)))

    return lambda: (answer, b"")


if __name__ == "__main__":
    serve(load)
