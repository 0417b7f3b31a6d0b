"""A client of the contract in deploy/models/llm_contract.py, over gRPC."""

from __future__ import annotations

import queue
from typing import Any

import numpy as np
import tritonclient.grpc as grpc

from deploy.models import llm_contract
from tests.roles.triton.llm_slot import tensor

WAIT_SECONDS = 120
"""Seconds of a whole stream. Without this limit a client waited for 90 minutes for the end of a stream whose request
Triton 2.51 had counted as finished (seen once, 2026-11-27)."""
TYPES = {field.name: field.type.replace("STRING", "BYTES") for field in llm_contract.INPUTS} | {"stop": "BOOL"}
EVERYTHING = {field.asked_by: True for field in llm_contract.OUTPUTS if field.asked_by.startswith("return_")}
"""Every output that a BOOL input asks for."""


def events_of(address: str, model: str, leaves_after: int = 0, **inputs: Any) -> list[dict[str, Any]]:
    """The events of one request with outputs by name; raises an error event. Can disconnect after some events."""
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with grpc.InferenceServerClient(address) as client:
        client.start_stream(lambda result, error: answers.put((result, error)), stream_timeout=WAIT_SECONDS)
        client.async_stream_infer(model, tensors(inputs), enable_empty_final_response=True)
        events: list[dict[str, Any]] = []
        while not leaves_after or len(events) < leaves_after:
            result, error = answers.get(timeout=2 * WAIT_SECONDS)
            if error:
                raise error
            response = result.get_response()
            names = [output.name for output in response.outputs]
            events += [{name: result.as_numpy(name).tolist() for name in names}] if names else []
            if response.parameters["triton_final_response"].bool_param:
                break
        client.stop_stream(cancel_requests=bool(leaves_after))
        return events


def tensors(inputs: dict[str, Any]) -> list[grpc.InferInput]:
    """The input tensors of a request."""
    made = []
    for name, value in inputs.items():
        array = np.atleast_1d(tensor(value))
        array = array.astype(np.uint64) if TYPES[name] == "UINT64" else array
        made.append(grpc.InferInput(name, list(array.shape), TYPES[name]).set_data_from_numpy(array))
    return made


def text(events: list[dict[str, Any]]) -> str:
    """The text of all events together."""
    return "".join(event["text_output"][0].decode() for event in events)
