"""Triton's Python module and request objects, as far as the encoders use them, for tests without a server.

Behaves like the real one: inputs are object arrays of bytes, parameters arrive as JSON text, a response holds
either tensors or one error. The real server drives the same models in test_real_triton.py.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Tensor:
    """A named array."""

    label: str
    array: np.ndarray

    def name(self) -> str:
        """Returns the model's name."""
        return self.label

    def as_numpy(self) -> np.ndarray:
        """Returns the array."""
        return self.array


class TritonError(Exception):
    """A message with one of Triton's codes."""

    INTERNAL, INVALID_ARG, UNAVAILABLE, CANCELLED, UNSUPPORTED = range(1, 6)

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class InferenceResponse:
    """A response in Triton's form."""

    output_tensors: list[Tensor]
    error: TritonError | None = None

    def has_error(self) -> bool:
        """Returns True if the response is an error."""
        return self.error is not None

    def __getitem__(self, name: str) -> np.ndarray:
        return next(tensor.array for tensor in self.output_tensors if tensor.label == name)


@dataclass
class Request:
    """A client's request in the form in which the stub passes it to the model."""

    tensors: dict[str, np.ndarray]
    options: dict[str, Any] = field(default_factory=dict)
    is_cancelled: Callable[[], bool] = lambda: False

    def inputs(self) -> list[Tensor]:
        """Returns every tensor of the request."""
        return [Tensor(name, array) for name, array in self.tensors.items()]

    def parameters(self) -> str:
        """Returns the options in the stub's form."""
        return json.dumps(self.options)


TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1


class Logger:
    """Keeps every logged line."""

    lines: list[str] = []  # noqa: RUF012 (one log per process, like the real one)

    @classmethod
    def log_info(cls, message: str) -> None:
        """Adds a line to `lines`."""
        cls.lines.append(message)

    log_error = log_info


class TritonModelException(Exception):
    """Triton's exception for a model that does not load."""


def get_input_tensor_by_name(request: Request, name: str) -> Tensor | None:
    """Returns the tensor, or None."""
    return Tensor(name, request.tensors[name]) if name in request.tensors else None


def strings(rows: list[list[str | bytes]]) -> np.ndarray:
    """Returns rows of texts as the object array of bytes that the stub passes."""
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    for i, row in enumerate(rows):
        for j, text in enumerate(row):
            array[i, j] = text.encode() if isinstance(text, str) else text
    return array


def arguments(name: str, parameters: dict[str, str]) -> dict[str, str]:
    """Returns the arguments that Triton passes to `initialize`."""
    values = {key: {"string_value": value} for key, value in parameters.items()}
    return {"model_name": name, "model_config": json.dumps({"name": name, "parameters": values})}
