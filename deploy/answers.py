"""What a model replied to a question, read from the reply's bytes and put into a line for a person."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deploy.questions import Question
from deploy.slice import ModelSlice

SHOWN_NUMBERS = 4


class UnreadableReply(Exception):
    """The reply is an error of Triton's, or is no reply to that question; the message says which."""


@dataclass(frozen=True)
class Answer:
    """`text` for people; `values` for programs: an LLM's text, vectors [texts, dimensions], or scores [passages]."""

    text: str
    values: object


def answer(model: ModelSlice, asked: Question, reply: str) -> Answer:
    """The model's answer in `reply`. Raises `UnreadableReply`."""
    try:
        if model.kind == "llm":
            return _generated(asked, reply)
        return (_vectors if model.kind == "embedder" else _scores)(asked, _outputs(reply))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise UnreadableReply(f"not what Triton replies to {asked.path}: {reply[:200]!r}") from None


def _generated(asked: Question, reply: str) -> Answer:
    lines = [line.removeprefix("data:") for line in reply.splitlines() if line.startswith("data:")]
    events = [_checked(json.loads(text)) for text in (lines if asked.is_stream and lines else [reply])]
    text = "".join(str(event["text_output"]) for event in events)
    return Answer(text.strip() or "(an empty text)", text)


def _outputs(reply: str) -> dict[str, dict[str, Any]]:
    return {tensor["name"]: tensor for tensor in _checked(json.loads(reply))["outputs"]}


def _checked(event: dict[str, Any]) -> dict[str, Any]:
    if "error" in event:
        raise UnreadableReply(str(event["error"]))
    return event


def _vectors(asked: Question, outputs: dict[str, dict[str, Any]]) -> Answer:
    tensor = outputs["embeddings"]
    dimensions, numbers = int(tensor["shape"][-1]), [float(number) for number in tensor["data"]]
    vectors = [numbers[start : start + dimensions] for start in range(0, len(numbers), dimensions)]
    first = ", ".join(f"{number:.4f}" for number in vectors[0][:SHOWN_NUMBERS])
    text = f"{len(vectors)} vector{'s'[: len(vectors) > 1]} of {dimensions} numbers; the first begins {first}"
    likeness = ", ".join(f"{_cosine(vectors[0], vector):.3f}" for vector in vectors[1:])
    return Answer(f"{text}; cosine of the first to each other: {likeness}" if likeness else text, vectors)


def _scores(asked: Question, outputs: dict[str, dict[str, Any]]) -> Answer:
    scores = [float(number) for number in outputs["scores"]["data"]]
    ranked = sorted(zip(scores, asked.texts[1:], strict=True), reverse=True)
    return Answer("\n".join(f"{score:.4f}  {passage}" for score, passage in ranked), scores)


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    length = math.hypot(*left) * math.hypot(*right)
    return sum(x * y for x, y in zip(left, right, strict=True)) / length if length else 0.0
