"""A Triton server over gRPC: one inference, or a stream of events of one request.

It uses the stubs of `tritonclient` but not its client classes: there is a stream for each request, so that a slow
reader does not delay others, and leaving it cancels it, upon which Triton stops the work. A stream whose final response
has arrived is never cancelled: Triton 2.51 would then keep the model's request for ever, and its exit would take its
whole timeout (fixed in 2.57 by server#8078).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc

from gateway.errors import UpstreamError
from gateway.mutual import SERVER, Identity
from gateway.tensors import MALFORMED, Input, Output, Outputs

T = TypeVar("T")

MESSAGE_BYTES = 2**28
OPTIONS = [
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    # A swapping server is away for a minute; by default gRPC would wait up to two minutes between attempts.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_retries", 0),
    # No keepalive: Triton closes a connection that pings more often than every five minutes. Deadlines end dead
    # requests.
]
KEEPALIVE = [
    # A host without power does not answer, so its requests would wait until their deadlines. HAProxy answers pings on
    # that port, and does not limit them.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # otherwise gRPC 1.85 waits a minute for the answer
    ("grpc.http2.max_pings_without_data", 0),
]
"""Options of a channel to another host."""
STRICT = (("triton_grpc_error", "true"),)
"""Asks Triton for a gRPC status at a stream's error (since 2.49); without it there is a message and no code."""
WORDS_OF_CODES = (
    ("maximum queue size", "UNAVAILABLE"),
    ("is not ready", "UNAVAILABLE"),
    ("unknown model", "NOT_FOUND"),
    ("cancelled", "CANCELLED"),
)

DEAD = "is not healthy"
"""End of Triton's error for a model whose Python process has died: INTERNAL, until the watchdog restarts the server."""
FINAL = "triton_final_response"
"""The parameter of a stream's last response, which may be without outputs if requested."""


class Triton:
    """A server's gRPC channel. It connects at the first request, and reconnects automatically.

    With an `identity` the channel uses mutual TLS, and each call names `name`, a server of the host.
    """

    def __init__(self, address: str, identity: Identity | None = None, name: str = "") -> None:
        if identity:
            self._channel = grpc.aio.secure_channel(address, identity.credentials(), options=[*OPTIONS, *KEEPALIVE])
        else:
            self._channel = grpc.aio.insecure_channel(address, options=OPTIONS)
        self._named = ((SERVER, name),) if identity else ()
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        # On the wire, a stream with a single request equals a unary request. gRPC then sends headers, request and end
        # of stream in one batch; for a stream it would wait for each of the three.
        self._events = self._channel.unary_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
        )
        self._ending: set[asyncio.Task[None]] = set()
        """Streams with their final response, until Triton has closed them."""

    async def is_ready(self, seconds: float) -> bool:
        """True if the server and all its models report ready within the time."""
        try:
            request = service_pb2.ServerReadyRequest()
            answer = await self._stub.ServerReady(request, timeout=seconds, metadata=self._named)
        except grpc.aio.AioRpcError:
            return False
        return bool(answer.ready)

    async def infer(
        self,
        model: str,
        inputs: Sequence[Input],
        parameters: Mapping[str, str | int | bool],
        seconds: float,
        trace: str = "",
    ) -> Outputs:
        """The outputs of one inference; `trace` is its `traceparent`.

        Raises: UpstreamError.
        """
        try:
            request = request_of(model, inputs, parameters)
            metadata = (*self._named, *traced(trace))
            answer = await self._stub.ModelInfer(request, timeout=seconds, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise _upstream(error) from None
        return readable(lambda: outputs_of(answer))

    async def stream(
        self, model: str, inputs: Sequence[Input], seconds: float, trace: str = ""
    ) -> AsyncGenerator[Outputs, None]:
        """The events of one request, as they arrive. Closing the iterator before its end cancels the request.

        Raises: UpstreamError.
        """
        request = request_of(model, inputs, {"triton_enable_empty_final_response": True})
        metadata = (*STRICT, *self._named, *traced(trace))
        call, is_final = self._events(request, timeout=seconds, metadata=metadata), False
        try:
            async for event in call:
                if event.error_message:
                    raise UpstreamError(code_of(event.error_message), event.error_message)
                response = event.infer_response
                is_final = FINAL in response.parameters and response.parameters[FINAL].bool_param
                if response.outputs:
                    yield readable(partial(outputs_of, response))
                # Ends here: a reader that waits for the end of the stream may disconnect, which would cancel the call.
                if is_final:
                    break
        except grpc.aio.AioRpcError as error:
            raise _upstream(error) from None
        finally:
            if is_final:
                self._let_end(call)
            else:
                call.cancel()

    def _let_end(self, call: Any) -> None:
        """Keeps a reference to the stream until Triton closes it, because gRPC cancels an unreferenced call."""
        task = asyncio.ensure_future(_ended(call))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self, grace_seconds: float) -> None:
        await self._channel.close(grace_seconds)


def traced(trace: str) -> tuple[tuple[str, str], ...]:
    return (("traceparent", trace),) if trace else ()


def request_of(model: str, inputs: Sequence[Input], parameters: Mapping[str, str | int | bool]) -> Any:
    """The protocol's request. Its id is ours and random, so no client knows another's."""
    request = service_pb2.ModelInferRequest(model_name=model, id=os.urandom(16).hex())
    for tensor in inputs:
        request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        request.raw_input_contents.append(tensor.raw)
    for name, value in parameters.items():
        kind = "bool_param" if isinstance(value, bool) else "int64_param" if isinstance(value, int) else "string_param"
        setattr(request.parameters[name], kind, value)
    return request


def outputs_of(response: Any) -> Outputs:
    """The tensors of the protocol's response by name."""
    pairs = zip(response.outputs, response.raw_output_contents, strict=True)
    return {tensor.name: Output(tensor.datatype, tensor.shape, raw) for tensor, raw in pairs}


def readable(read: Callable[[], T]) -> T:
    """The value that `read` finds in an answer. Raises: UpstreamError for tensors of another form."""
    try:
        return read()
    except MALFORMED:
        raise UpstreamError("INTERNAL", "the answer's tensors have an unknown form") from None


def code_of(message: str) -> str:
    return next((code for words, code in WORDS_OF_CODES if words in message.lower()), "INTERNAL")


async def _ended(call: Any) -> None:
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
        async for _ in call:
            pass


def _upstream(error: grpc.aio.AioRpcError) -> UpstreamError:
    details = error.details() or ""
    return UpstreamError("NOT_FOUND" if details.strip(".").endswith(DEAD) else error.code().name, details)
