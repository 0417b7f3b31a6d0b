"""A request of each kind, over HTTP or gRPC, in the form of a client of this stack."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue
from types import ModuleType
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.http

Client = tritonclient.http.InferenceServerClient | tritonclient.grpc.InferenceServerClient
STREAM_SECONDS = 120
"""Seconds of a whole answer, and of the wait for its end (tests/roles/triton/llm_client.py says why)."""


def flavour(client: Client) -> ModuleType:
    """Returns the module of tritonclient for this client."""
    return tritonclient.http if isinstance(client, tritonclient.http.InferenceServerClient) else tritonclient.grpc


def strings(client: Client, name: str, rows: list[list[str]]) -> Any:
    """Returns a BYTES input of shape [rows, items]."""
    array = np.array([[text.encode() for text in row] for row in rows], dtype=object).reshape(len(rows), -1)
    tensor = flavour(client).InferInput(name, list(array.shape), "BYTES")
    return tensor.set_data_from_numpy(array)


def embed(client: Client, model: str, rows: list[list[str]], **parameters: Any) -> np.ndarray[Any, Any]:
    """Returns embeddings [rows, texts, dimensions]."""
    result = client.infer(model, [strings(client, "texts", rows)], parameters=parameters or None)
    return np.asarray(result.as_numpy("embeddings"))


def rerank(client: Client, model: str, query: str, passages: list[str], **parameters: Any) -> np.ndarray[Any, Any]:
    """Returns scores [passages] of one query."""
    inputs = [strings(client, "query", [[query]]), strings(client, "passages", [passages])]
    result = client.infer(model, inputs, parameters=parameters or None)
    return np.asarray(result.as_numpy("scores"))[0]


def generate(
    client: tritonclient.grpc.InferenceServerClient, model: str, prompt: str, tokens: int, path: str = "pytorch"
) -> Iterator[str]:
    """Yields the pieces of a streamed answer as they arrive, up to Triton's own final response.

    The two paths of an LLM differ in the names and shapes of inputs, not of outputs.
    """
    inputs = _engine_inputs(prompt, tokens) if path == "engine" else _llm_inputs(prompt, tokens)
    answers: Queue[tuple[Any, Exception | None]] = Queue()
    client.start_stream(callback=lambda result, error: answers.put((result, error)), stream_timeout=STREAM_SECONDS)
    try:
        client.async_stream_infer(model, inputs, enable_empty_final_response=True)
        while True:
            result, error = answers.get(timeout=2 * STREAM_SECONDS)
            if error:
                raise error
            text = result.as_numpy("text_output")
            if text is not None and text.size:
                yield text.reshape(-1)[0].decode()
            if result.get_response().parameters["triton_final_response"].bool_param:
                return
    finally:
        client.stop_stream()


def _llm_inputs(prompt: str, tokens: int) -> list[Any]:
    def tensor(name: str, value: Any, kind: str, dtype: Any) -> Any:
        return tritonclient.grpc.InferInput(name, [1], kind).set_data_from_numpy(np.array([value], dtype=dtype))

    return [
        tensor("text_input", prompt.encode(), "BYTES", object),
        tensor("streaming", True, "BOOL", bool),
        tensor("sampling_param_max_tokens", tokens, "INT32", np.int32),
        tensor("sampling_param_exclude_input_from_output", True, "BOOL", bool),
    ]


def _engine_inputs(prompt: str, tokens: int) -> list[Any]:
    def tensor(name: str, value: Any, kind: str, dtype: Any) -> Any:
        return tritonclient.grpc.InferInput(name, [1, 1], kind).set_data_from_numpy(np.array([[value]], dtype=dtype))

    return [
        tensor("text_input", prompt.encode(), "BYTES", object),
        tensor("max_tokens", tokens, "INT32", np.int32),
        tensor("stream", True, "BOOL", bool),
    ]
