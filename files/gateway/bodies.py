"""Parses bodies: small ones in the event loop, large ones in a separate process (`worker`).

Python's parser runs in the event loop's own time. 64 KiB of texts take it 0.7 ms, but 16 MiB of empty lists 18 s; so
not only the length but also the number of values decides. A large body comes back as values that are quick to read.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from gateway.errors import ApiError
from gateway.json_body import Bounds, JsonError, marks, parsed
from gateway.lanes import Lanes
from gateway.load import Turns
from gateway.worker import Program, Refused, Work, serve

if TYPE_CHECKING:
    from gateway.settings import Settings

BODY_BYTES_A_TOKEN = 32
"""Most bytes of JSON per token, averaged over a whole context: English has 5, Chinese in escapes 12."""
BODY_MARGIN = 2**20
"""Bytes for tools, schemas and names around the texts."""
INLINE_BYTES = 65_536
INLINE_MARKS = 2048
"""Bodies within both limits are parsed in the event loop: at most 0.7 ms for texts, 3 ms for other values
(2026-11-25, two cores of an unnamed x86-64 VM, Python 3.11)."""
SHORT_BYTES = 2**18
"""Bodies up to this size do not wait for larger bodies; parsing takes 0.2 s at most."""
MOST_SECONDS = 5.0
MOST_MORE_BYTES = 512 * 2**20
"""Bytes beside Python's own memory. 16 MiB of ordinary documents take 100 MiB."""
TOO_MUCH = "reading it takes too long, or too much memory"
PROGRAM = Program("gateway.bodies", {}, MOST_SECONDS, TOO_MUCH, most_more_bytes=MOST_MORE_BYTES)


@dataclass(frozen=True)
class BodyBounds:
    """Bounds of a body for one endpoint: bytes, and the counts of `json_body`."""

    most_bytes: int
    json: Bounds


def body_bounds(settings: Settings, kind: str) -> BodyBounds:
    """Bounds of a body for models of this kind, within the operator's limits."""
    limits = settings.limits
    models = [model for model in settings.models.values() if model.kind == kind]
    tokens = max([0, *(model.context_tokens or model.max_tokens for model in models)])
    items = {"embedder": limits.inputs, "reranker": limits.documents}.get(kind, 0)
    most_bytes = min(limits.body_bytes, BODY_MARGIN + tokens * BODY_BYTES_A_TOKEN * max(items, 1))
    marks = limits.values + (4 * items or tokens)
    return BodyBounds(most_bytes, Bounds(limits.nesting, limits.values // 2 + items, marks))


class Parser:
    """The processes that parse large bodies; the first large body starts them."""

    def __init__(self, turns: Turns) -> None:
        self._lanes = Lanes(PROGRAM, turns, SHORT_BYTES)

    async def value(self, raw: bytes, bounds: Bounds, tenant: str) -> Any:
        """The value of the body.

        Raises: ApiError 400 if it is not JSON within the bounds; the errors of `Turns`.
        """
        try:
            if not is_large(raw):
                return parsed(raw, bounds)
            message = marshal.dumps((astuple(bounds), raw))
            # Written by our own code in that process, which executes nothing of what it parses.
            return marshal.loads(await self._lanes.answer(tenant, message))
        except (JsonError, Refused) as error:
            raise ApiError(400, f"the body is not acceptable JSON: {error}", code="invalid_json") from None


def is_large(raw: bytes) -> bool:
    return len(raw) > INLINE_BYTES or marks(raw) > INLINE_MARKS


def load(_preparation: Mapping[str, Any]) -> Callable[[], tuple[Work, bytes]]:
    """Prepares the process, and returns the function that parses a body."""

    def answer(message: bytes) -> bytes:
        bounds, raw = marshal.loads(message)
        return marshal.dumps(parsed(raw, Bounds(*bounds)))

    return lambda: (answer, b"")


if __name__ == "__main__":
    serve(load)
