"""A KServe gRPC server with preserialised answers, so that only its client takes time.

    python -m benchmarks.instant [GAP_MS]      prints its port

`llama` streams as many tokens as the request allows, an event each, and the counts: all at once, or one every GAP_MS.
Any other model gives a vector of 768 numbers to each text, or a score if the texts are passages.
"""

from __future__ import annotations

import asyncio
import math
import struct
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import uvloop
from tritonclient.grpc import service_pb2

SERVICE = "inference.GRPCInferenceService"
WIDTH = 768


def text(value: str) -> bytes:
    """Returns a BYTES tensor of one text."""
    return struct.pack("<I", len(value.encode())) + value.encode()


def event(token: str, finish: str = "", tokens: int = 0) -> bytes:
    """Returns a serialised event of the LLM's slot; the last has Triton's mark of the final response."""
    outputs = [("text_output", "BYTES", text(token)), ("sequence_index", "INT32", struct.pack("<i", 0))]
    outputs.append(("finish_reason", "BYTES", text(finish)))
    if finish:
        outputs += [(name, "INT32", struct.pack("<i", tokens)) for name in ("num_input_tokens", "num_output_tokens")]
    message = service_pb2.ModelStreamInferResponse()
    for name, datatype, raw in outputs:
        message.infer_response.outputs.add(name=name, datatype=datatype, shape=[1])
        message.infer_response.raw_output_contents.append(raw)
    message.infer_response.parameters["triton_final_response"].bool_param = bool(finish)
    return bytes(message.SerializeToString())


class Models(grpc.GenericRpcHandler):
    """The calls that the gateway makes, bytes in and bytes out."""

    def __init__(self, gap_seconds: float = 0.0) -> None:
        self._gap_seconds = gap_seconds
        self._events: list[bytes] = []

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """Returns the handler of a call."""
        return {
            f"/{SERVICE}/ServerReady": grpc.unary_unary_rpc_method_handler(self._ready),
            f"/{SERVICE}/ModelInfer": grpc.unary_unary_rpc_method_handler(self._infer),
            f"/{SERVICE}/ModelStreamInfer": grpc.stream_stream_rpc_method_handler(self._stream),
        }.get(details.method)

    async def _ready(self, _request: bytes, _context: Any) -> bytes:
        return bytes(service_pb2.ServerReadyResponse(ready=True).SerializeToString())

    async def _infer(self, request: bytes, _context: Any) -> bytes:
        texts = service_pb2.ModelInferRequest.FromString(request).inputs[-1]
        count = texts.shape[-1]
        name, shape = ("scores", [1, count]) if texts.name == "passages" else ("embeddings", [1, count, WIDTH])
        message = service_pb2.ModelInferResponse()
        message.outputs.add(name=name, datatype="FP32", shape=shape)
        message.outputs.add(name="token_counts", datatype="INT32", shape=[1, count])
        message.raw_output_contents.extend([struct.pack("<f", 0.125) * math.prod(shape), struct.pack("<i", 7) * count])
        return bytes(message.SerializeToString())

    async def _stream(self, requests: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            tokens = tokens_asked(service_pb2.ModelInferRequest.FromString(request))
            while len(self._events) < tokens:
                self._events.append(event(f" w{len(self._events)}"))
            clock = asyncio.get_running_loop().time
            began = clock()
            for number in range(tokens):
                if number and self._gap_seconds:
                    await asyncio.sleep(began + number * self._gap_seconds - clock())
                yield self._events[number]
            yield event("", "length", tokens)


def tokens_asked(request: Any) -> int:
    """Returns the number of tokens that the request allows."""
    names = [tensor.name for tensor in request.inputs]
    (most_tokens,) = struct.unpack("<i", request.raw_input_contents[names.index("sampling_param_max_tokens")])
    return int(most_tokens)


async def serve(gap_seconds: float) -> None:
    """Listens on loopback until the process ends."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((Models(gap_seconds),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(float((sys.argv[1:] or ["0"])[0]) / 1000))
