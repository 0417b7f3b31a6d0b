"""A small KServe gRPC server: Triton's inference calls, with answers from a test and a record of requests.

It keeps the behaviour that a gateway depends on: a decoupled model answers on `ModelStreamInfer` with any number of
events, an error of a stream is a gRPC status if the client asks for one and a message if it does not, a disconnected
client's request is cancelled, `ModelInfer` of a decoupled model is refused, and tensors travel as raw bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc

WIDTH = 4
STATUS = grpc.StatusCode


@dataclass
class Event:
    """An event of the LLM, by the slot's names."""

    text: str = ""
    sequence: int = 0
    finish: str = ""
    tokens: int = 0
    cached: int = -1
    ids: tuple[int, ...] = ()


HELLO = (Event("Hel"), Event("lo wörld"), Event("", finish="stop", tokens=5, cached=2))


@dataclass
class ModelRequest:
    """A received request."""

    model: str
    identity: str
    tensors: dict[str, Any]
    parameters: dict[str, Any]
    metadata: dict[str, str]


@dataclass
class Script:
    """The behaviour of the server."""

    events: tuple[Event, ...] = HELLO
    error: tuple[grpc.StatusCode, str] | None = None
    """The error that replaces the answer."""
    error_after: int = 0
    """In a stream, the error follows after this many events."""
    error_prompt: tuple[int, ...] = ()
    """Ids of the only prompt that has the error; empty: every request has it."""
    halts_after: int | None = None
    """Number of events after which a stream sends nothing until it is cancelled, or until `goes_on` is set.

    With the number of all its events, the stream stays open after its final response.
    """


@dataclass
class Triton(service_pb2_grpc.GRPCInferenceServiceServicer):
    """The server; `requests` holds every request in the order they came."""

    script: Script = field(default_factory=Script)
    requests: list[ModelRequest] = field(default_factory=list)
    running: int = 0
    cancelled: int = 0
    address: str = ""
    is_ready: bool = True
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def ServerReady(self, request: Any, context: Any) -> Any:
        """Returns the readiness that the test sets."""
        return service_pb2.ServerReadyResponse(ready=self.is_ready)

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        """Returns vectors or scores that depend only on the texts."""
        received = self._remember(request, context)
        if self.script.error:
            await context.abort(*self.script.error)
        if "query" in received.tensors and not received.tensors["query"][0].split():
            await context.abort(STATUS.INVALID_ARGUMENT, "query[0] is empty")
        if "query" in received.tensors:
            scores = [score(received.tensors["query"][0], text) for text in received.tensors["passages"]]
            counts = [len(text.split()) + 4 for text in received.tensors["passages"]]
            return response(request, ("scores", "FP32", (1, len(scores)), scores), counts)
        if "texts" in received.tensors:
            vectors = [value for text in received.tensors["texts"] for value in vector(text)]
            counts = [len(text.split()) + 2 for text in received.tensors["texts"]]
            return response(request, ("embeddings", "FP32", (1, len(counts), WIDTH), vectors), counts)
        message = "ModelInfer RPC doesn't support models with decoupled transaction policy"
        return await context.abort(STATUS.UNIMPLEMENTED, message)

    async def ModelStreamInfer(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """Yields the script's events for each request of the stream."""
        is_running = False
        try:
            async for request in requests:
                received = self._remember(request, context)
                # Counted after it is recorded: a client may leave between the start of its stream and its request.
                self.running += not is_running
                is_running = True
                events, error = self._events(received), self.script.error
                if self.script.error_prompt not in ((), tuple(received.tensors.get("prompt_token_ids", ()))):
                    error = None
                for sent, event in enumerate(events):
                    if error and sent == self.script.error_after:
                        break
                    if sent == self.script.halts_after:
                        await self.goes_on.wait()
                    message = event_response(request, event, received)
                    message.parameters["triton_final_response"].bool_param = event is events[-1]
                    yield service_pb2.ModelStreamInferResponse(infer_response=message)
                if self.script.halts_after == len(events):
                    await self.goes_on.wait()
                if error:
                    if received.metadata.get("triton_grpc_error") == "true":
                        await context.abort(*error)
                    yield service_pb2.ModelStreamInferResponse(error_message=error[1])
        except (asyncio.CancelledError, GeneratorExit):  # GeneratorExit where the client cancels while an event is sent
            self.cancelled += 1
            raise
        finally:
            self.running -= is_running

    def _events(self, request: ModelRequest) -> tuple[Event, ...]:
        """Returns the script's events; a script of one sequence is repeated for every requested sequence."""
        (count,) = request.tensors.get("sampling_param_n", [1])
        if any(event.sequence for event in self.script.events):
            return self.script.events
        return tuple(replace(event, sequence=number) for number in range(count) for event in self.script.events)

    def _remember(self, request: Any, context: Any) -> ModelRequest:
        tensors = {
            tensor.name: values(tensor.datatype, raw)
            for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True)
        }
        parameters = {
            name: getattr(parameter, parameter.WhichOneof("parameter_choice"))
            for name, parameter in request.parameters.items()
        }
        metadata = {str(name): str(value) for name, value in context.invocation_metadata()}
        self.requests.append(received := ModelRequest(request.model_name, request.id, tensors, parameters, metadata))
        return received


@contextlib.asynccontextmanager
async def serving(triton: Triton, port: int = 0) -> AsyncIterator[Triton]:
    """Runs the server on loopback; `address` holds its host and port."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(triton, server)
    triton.address = f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
    await server.start()
    try:
        yield triton
    finally:
        await server.stop(None)


def vector(text: str) -> list[float]:
    """Returns a vector that differs between texts."""
    return [float(len(text)), float(sum(text.encode()) % 97), 0.5, -1.25]


def score(query: str, passage: str) -> float:
    """Returns the share of the query's words that the passage has."""
    words = query.split()
    return sum(word in passage.split() for word in words) / len(words)


def values(datatype: str, raw: bytes) -> Any:
    """Returns a tensor's values, flat."""
    if datatype == "BYTES":
        texts, place = [], 0
        while place < len(raw):
            (length,) = struct.unpack_from("<I", raw, place)
            texts.append(raw[place + 4 : place + 4 + length].decode())
            place += 4 + length
        return texts
    letter = {"INT32": "i", "FP32": "f", "BOOL": "?", "UINT64": "Q"}[datatype]
    return list(struct.unpack(f"<{len(raw) // struct.calcsize(letter)}{letter}", raw))


def tensor(message: Any, name: str, datatype: str, shape: tuple[int, ...], values: list[Any]) -> None:
    """Adds an output tensor to the message."""
    message.outputs.add(name=name, datatype=datatype, shape=shape)
    letter = {"INT32": "i", "FP32": "f"}.get(datatype)
    if letter:
        message.raw_output_contents.append(struct.pack(f"<{len(values)}{letter}", *values))
    else:
        encoded = [text.encode() for text in values]
        message.raw_output_contents.append(b"".join(struct.pack("<I", len(text)) + text for text in encoded))


def response(request: Any, output: tuple[str, str, tuple[int, ...], list[float]], counts: list[int]) -> Any:
    """Returns an encoder's answer."""
    message = service_pb2.ModelInferResponse(model_name=request.model_name, id=request.id)
    tensor(message, *output)
    tensor(message, "token_counts", "INT32", (1, len(counts)), counts)
    return message


def event_response(request: Any, event: Event, received: ModelRequest) -> Any:
    """Returns an LLM's event: the requested outputs, and counts with a sequence's last one."""
    message = service_pb2.ModelInferResponse(model_name=request.model_name, id=request.id)
    tensor(message, "text_output", "BYTES", (1,), [event.text])
    tensor(message, "sequence_index", "INT32", (1,), [event.sequence])
    if received.tensors.get("return_finish_reason") == [True]:
        tensor(message, "finish_reason", "BYTES", (1,), [event.finish])
    if received.tensors.get("return_token_ids") == [True]:
        tensor(message, "token_ids", "INT32", (len(event.ids),), list(event.ids))
    if wanted := received.tensors.get("sampling_param_logprobs"):
        places = len(event.ids)
        tensor(message, "token_logprobs", "FP32", (places,), [-0.5] * places)
        others = ([token, token + 1, -1][: wanted[0]] for token in event.ids)
        tensor(
            message,
            "top_logprob_ids",
            "INT32",
            (places, wanted[0]),
            [token for alternatives in others for token in alternatives],
        )
        chances = [-0.5, -1.5, float("-inf")][: wanted[0]] * places
        tensor(message, "top_logprobs", "FP32", (places, wanted[0]), chances)
    if received.tensors.get("return_counts") == [True] and event.finish:
        counts = {"num_input_tokens": len(received.tensors["prompt_token_ids"]), "num_output_tokens": event.tokens}
        for name, count in (counts | {"num_cached_tokens": event.cached}).items():
            tensor(message, name, "INT32", (1,), [count])
    return message
