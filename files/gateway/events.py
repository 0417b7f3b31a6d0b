"""Events of an LLM, read by the names of the slot's contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.tensors import Outputs

ABORTED = "aborted"
"""`finish` of an answer that an HTTP engine ended early, as vLLM does while it stops."""


class Event(NamedTuple):
    """New text and tokens of a sequence; the counts are in its last event, whose `finish` is not empty."""

    sequence: int
    text: str
    ids: Sequence[int]
    """Ids of the tokens; empty unless requested."""
    finish: str
    completion_tokens: int
    cached_tokens: int
    """Tokens of the prompt that came from the cache; 0 if the release does not report it."""
    outputs: Outputs
    """All tensors of the event."""


def event_of(outputs: Outputs) -> Event:
    """The event in these tensors."""
    ids = outputs.get("token_ids")
    finish = _text(outputs, "finish_reason")
    return Event(
        _number(outputs, "sequence_index"),
        _text(outputs, "text_output"),
        ids.ints() if ids else (),
        finish,
        _number(outputs, "num_output_tokens") if finish else 0,
        max(_number(outputs, "num_cached_tokens"), 0) if finish else 0,
        outputs,
    )


def _text(outputs: Outputs, name: str) -> str:
    output = outputs.get(name)
    return output.text() if output else ""


def _number(outputs: Outputs, name: str) -> int:
    output = outputs.get(name)
    return output.number() if output else 0
