"""A small server for Triton's HTTP and gRPC, in a thread of the test, which misbehaves on request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from aiohttp import web
from tritonclient.grpc import service_pb2, service_pb2_grpc

from benchmarks.client_protocols import Place

EMBEDDER, LLM = "embedder", "llm"
RIGHT, WRONG, REFUSED, BROKEN, SILENT = "right", "wrong", "refused", "broken", "silent"


@dataclass
class StandIn(service_pb2_grpc.GRPCInferenceServiceServicer):
    """A stand-in for Triton; `script` maps (model, request number from 1) to a wrong act.

    The server answers no request before `crowd` requests have come. `peers`: the ports that HTTP requests came from.
    """

    script: Mapping[tuple[str, int], str] = field(default_factory=dict)
    crowd: int = 0
    place: Place = field(default_factory=lambda: Place("", ""))
    requests: Counter[str] = field(default_factory=Counter)
    peers: list[int] = field(default_factory=list)
    full: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def turn(self, model: str) -> str:
        """Returns the act for this request."""
        self.requests[model] += 1
        what = self.script.get((model, self.requests[model]), RIGHT)
        if self.requests.total() >= self.crowd:
            self.full.set()
        await (self.stopped if what == SILENT else self.full).wait()
        return what

    async def http(self, request: web.Request) -> web.StreamResponse:
        """Answers Triton's infer request in JSON."""
        assert request.transport
        self.peers.append(request.transport.get_extra_info("peername")[1])
        await request.read()
        what = await self.turn(EMBEDDER)
        if what == REFUSED:
            return web.json_response({"error": "Request for unknown model"}, status=404)
        if what == BROKEN:
            request.transport.abort()
        output = {"name": "embeddings", "datatype": "FP32", "shape": [1, 2], "data": vector(what)}
        return web.Response(body=json.dumps({"outputs": [output]}), content_type="application/json")

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        """Answers an infer request over gRPC."""
        what = await self.turn(request.model_name)
        if what in (REFUSED, BROKEN):
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not ready")
        return tensor("embeddings", "FP32", [1, 2], struct.pack("<2f", *vector(what)))

    async def ModelStreamInfer(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """Sends one word per token, then the empty final response."""
        async for request in requests:
            what = await self.turn(request.model_name)
            if what == REFUSED:
                yield service_pb2.ModelStreamInferResponse(error_message="no room")
                return
            tokens = next(field for field in request.inputs if field.name == "sampling_param_max_tokens")
            for _ in range(tokens.contents.int_contents[0]):
                word = b" wrong" if what == WRONG else b" right"
                piece = tensor("text_output", "BYTES", [1], struct.pack("<I", len(word)) + word)
                yield service_pb2.ModelStreamInferResponse(infer_response=piece)
                if what == BROKEN:
                    return
            final = service_pb2.ModelInferResponse()
            final.parameters["triton_final_response"].bool_param = True
            yield service_pb2.ModelStreamInferResponse(infer_response=final)


def vector(what: str) -> list[float]:
    """Returns the embedder's answer."""
    return [0.5, 0.25] if what == WRONG else [0.6, 0.8]


def tensor(name: str, kind: str, shape: list[int], raw: bytes) -> Any:
    """Returns an answer with one output."""
    answer = service_pb2.ModelInferResponse(raw_output_contents=[raw])
    answer.outputs.add(name=name, datatype=kind, shape=shape)
    return answer


@contextlib.contextmanager
def serving(script: Mapping[tuple[str, int], str] | None = None, crowd: int = 0) -> Iterator[StandIn]:
    """Runs the server on loopback."""
    server, ready, loop = StandIn(script or {}, crowd), threading.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        over_grpc, application = grpc.aio.server(), web.Application()
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(server, over_grpc)
        application.router.add_post(f"/v2/models/{EMBEDDER}/infer", server.http)
        runner = web.AppRunner(application, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        grpc_port = over_grpc.add_insecure_port("127.0.0.1:0")
        await over_grpc.start()
        server.place = Place(f"127.0.0.1:{runner.addresses[0][1]}", f"127.0.0.1:{grpc_port}")
        ready.set()
        await server.stopped.wait()
        await over_grpc.stop(None)
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(300)
        yield server
    finally:
        loop.call_soon_threadsafe(server.stopped.set)
        thread.join()
        loop.close()
