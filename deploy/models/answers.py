"""A model's reply, from its server or a gateway, as one line for a person."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deploy.models.questions import Question
from deploy.slices.host import ModelSlice

SHOWN_NUMBERS = 4


class UnreadableReply(Exception):
    """The reply is an error of Triton's, or is not a reply to that question; the message has the reason."""


@dataclass(frozen=True)
class Answer:
    """`text` for people; `values` for programs: an LLM's text, vectors [texts, dimensions], or scores [passages]."""

    text: str
    values: object


def answer(model: ModelSlice, question: Question, reply: str) -> Answer:
    """The model's answer in `reply`. Raises `UnreadableReply`."""
    try:
        if model.kind == "llm":
            return _generated(question, reply)
        return (_vectors if model.kind == "embedder" else _scores)(question, _outputs(reply))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise UnreadableReply(f"not what Triton replies to {question.path}: {reply[:200]!r}") from None


def gateway_answer(model: ModelSlice, question: Question, reply: str) -> Answer:
    """The model's answer in a gateway's `reply`. Raises `UnreadableReply`."""
    try:
        if model.kind == "llm":
            return _spoken(reply)
        body = _body(json.loads(reply))
        if model.kind == "embedder":
            return _of_vectors([[float(number) for number in entry["embedding"]] for entry in body["data"]])
        scores = {int(entry["index"]): float(entry["relevance_score"]) for entry in body["results"]}
        return _of_scores([scores[number] for number in range(len(scores))], question)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        raise UnreadableReply(f"not what a gateway replies to {question.path}: {reply[:200]!r}") from None


def _spoken(reply: str) -> Answer:
    """The text of an OpenAI stream, of a chat or of a completion, without the model's reasoning."""
    lines = [line.removeprefix("data:").strip() for line in reply.splitlines() if line.startswith("data:")]
    events = [_body(json.loads(line)) for line in (lines or [reply]) if line != "[DONE]"]
    choices = [choice for event in events for choice in event["choices"]]
    pieces = [choice["delta"].get("content") if "delta" in choice else choice["text"] for choice in choices]
    text = "".join(piece or "" for piece in pieces)
    return Answer(text.strip() or "(an empty text)", text)


def _body(event: dict[str, Any]) -> dict[str, Any]:
    if "error" in event:
        raise UnreadableReply(str(event["error"]["message"]))
    return event


def _generated(question: Question, reply: str) -> Answer:
    lines = [line.removeprefix("data:") for line in reply.splitlines() if line.startswith("data:")]
    events = [_checked(json.loads(text)) for text in (lines if question.is_stream and lines else [reply])]
    text = "".join(str(event["text_output"]) for event in events)
    return Answer(text.strip() or "(an empty text)", text)


def _outputs(reply: str) -> dict[str, dict[str, Any]]:
    return {tensor["name"]: tensor for tensor in _checked(json.loads(reply))["outputs"]}


def _checked(event: dict[str, Any]) -> dict[str, Any]:
    if "error" in event:
        raise UnreadableReply(str(event["error"]))
    return event


def _vectors(question: Question, outputs: dict[str, dict[str, Any]]) -> Answer:
    tensor = outputs["embeddings"]
    dimensions, numbers = int(tensor["shape"][-1]), [float(number) for number in tensor["data"]]
    return _of_vectors([numbers[start : start + dimensions] for start in range(0, len(numbers), dimensions)])


def _of_vectors(vectors: list[list[float]]) -> Answer:
    dimensions = len(vectors[0])
    first = ", ".join(f"{number:.4f}" for number in vectors[0][:SHOWN_NUMBERS])
    text = f"{len(vectors)} vector{'s'[: len(vectors) > 1]} of {dimensions} numbers; the first begins {first}"
    likeness = ", ".join(f"{_cosine(vectors[0], vector):.3f}" for vector in vectors[1:])
    return Answer(f"{text}; cosine of the first to each other: {likeness}" if likeness else text, vectors)


def _scores(question: Question, outputs: dict[str, dict[str, Any]]) -> Answer:
    return _of_scores([float(number) for number in outputs["scores"]["data"]], question)


def _of_scores(scores: list[float], question: Question) -> Answer:
    ranked = sorted(zip(scores, question.texts[1:], strict=True), reverse=True)
    return Answer("\n".join(f"{score:.4f}  {passage}" for score, passage in ranked), scores)


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    length = math.hypot(*left) * math.hypot(*right)
    return sum(x * y for x, y in zip(left, right, strict=True)) / length if length else 0.0
