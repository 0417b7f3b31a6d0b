"""Options of a request, sent as request parameters: task, normalize, dimensions, truncate, raw_scores.

Parameters instead of optional tensors, because Triton's batcher does not merge requests with different sets of inputs.
"""

import difflib
import json
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from .errors import RequestError
from .settings import TASKS

# Set by clients and by the server for the transport, not for the model; tritonclient sends the first with every
# HTTP request that names no outputs.
TRANSPORT = frozenset(
    {
        "binary_data_output",
        "sequence_id",
        "sequence_start",
        "sequence_end",
        "priority",
        "timeout",
        "triton_enable_empty_final_response",
    }
)


@dataclass(frozen=True)
class EmbedOptions:
    """Options of one embedding request."""

    task: str = ""
    """search_query, search_document, classification or clustering; "" takes the model's default_task."""
    normalize: bool = True
    """Scale every vector to length 1, after `dimensions` cut it."""
    dimensions: int = 0
    """Number of leading values of each vector to keep (Matryoshka), 1 to D; 0, the default, keeps all."""
    truncate: bool = True
    """Cut a text that is longer than max_tokens; false refuses the request and names the text."""


@dataclass(frozen=True)
class RerankOptions:
    """Options of one reranking request."""

    raw_scores: bool = True
    """Scores as logits, unbounded; false gives the logistic function of them, 0 to 1, in the same order."""
    truncate: bool = True
    """Cut query (to 3/4 of max_tokens) and passage; false refuses the request and names the passage."""


Options = TypeVar("Options", EmbedOptions, RerankOptions)


def parse(raw: str | None, kind: type[Options]) -> Options:
    """The options in `raw`, the JSON of a request's parameters.

    Raises: RequestError for an unknown name, a wrong type or a value out of range.
    """
    values = {key: value for key, value in json.loads(raw or "{}").items() if key not in TRANSPORT}
    known = {field.name: field.type for field in fields(kind)}
    for name, value in values.items():
        if name not in known:
            raise RequestError(_unknown(name, list(known)))
        _check(name, value, known[name])
    return kind(**values)


def _unknown(name: str, known: list[str]) -> str:
    shown = name if len(name) <= 40 else name[:40] + "…"
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean `{near[0]}`? " if near else ""
    return f"unknown option `{shown}`; {hint}options: {', '.join(known)}"


def _check(name: str, value: Any, wanted: Any) -> None:
    if type(value) is not wanted:  # bool is an int to isinstance
        words = {bool: "true or false", int: "a whole number", str: "a string"}
        raise RequestError(f"option `{name}` must be {words[wanted]}, not {type(value).__name__}")
    if name == "task" and value not in TASKS:
        raise RequestError(f"option `task` must be one of {', '.join(TASKS)}")
    if name == "dimensions" and value < 1:
        raise RequestError("option `dimensions` must be at least 1")
