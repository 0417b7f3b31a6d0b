"""Hosts behind a balancer, as far as HAProxy needs them: Triton's two ports, the agent, and a record of requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import grpc
from grpc import aio

SERVICE = "/inference.GRPCInferenceService/"


class Host:
    """A host behind the balancer: its agent says `word` (silent if empty), its Triton echoes requests."""

    def __init__(self, name: str) -> None:
        self.name, self.word = name, "ready"
        self.counts: Counter[str] = Counter()
        """Requests by kind: http, unary, stream, check, agent."""
        self.open, self.left = 0, 0
        """Connections of HTTP/1; and those that ended while an answer was due."""
        self.gated: list[str] = []
        """Paths of requests that wait, in order, until the gate is released for one of them."""
        self.gate = asyncio.Semaphore(0)
        self.http_port = self.grpc_port = self.agent_port = 0
        self.told_keys = 0
        """Requests that came with a key."""
        self.gateway: Any = None
        """Its gateway, if it has one (`tests.roles.balancer.gateways`)."""
        self._triton: Any = None
        self._server: Any = None

    async def start(self) -> Host:
        """Starts to listen, at the earlier ports after a restart."""
        triton = await asyncio.start_server(self._http, "127.0.0.1", self.http_port)
        if not self.agent_port:
            agent = await asyncio.start_server(self._agent, "127.0.0.1", 0)
            self.agent_port = agent.sockets[0].getsockname()[1]
        self.http_port = triton.sockets[0].getsockname()[1]
        server = aio.server(options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((Handlers(self),))
        self.grpc_port = server.add_insecure_port(f"127.0.0.1:{self.grpc_port}")
        await server.start()
        self._triton, self._server = triton, server
        return self

    async def stop(self) -> None:
        """Stops Triton; the agent keeps running."""
        if self._triton:
            self._triton.close()
            await self._server.stop(None)
        self._triton = None

    @property
    def requests(self) -> int:
        """Number of clients' requests so far, over HTTP and gRPC."""
        return self.counts["http"] + self.counts["unary"] + self.counts["stream"]

    async def _agent(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = await reader.readline()
        self.counts["agent" if question == b"main\n" else f"agent asked {question!r}"] += 1
        if self.word:
            writer.write(f"{self.word}\n".encode())
        writer.close()

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while request := await reader.readline():
                headers = {}
                while line := (await reader.readline()).decode().strip():
                    name, _, value = line.partition(":")
                    headers[name.lower()] = value.strip()
                await reader.readexactly(int(headers.get("content-length", 0)))
                self.told_keys += "authorization" in headers
                path = request.split()[1].decode()
                self.counts["check" if path.endswith("/ready") else "http"] += 1
                if path == "/never" and await self._waits(reader):
                    return
                if path.startswith("/gated/"):
                    self.gated.append(path.removeprefix("/gated/"))
                    await self.gate.acquire()
                writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(self.name)}\r\n\r\n{self.name}".encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def _waits(self, reader: asyncio.StreamReader) -> bool:
        """True once the client has disconnected."""
        try:
            gone = await reader.read(1) == b""
        except ConnectionError:
            gone = True
        self.left += gone
        return gone


class Handlers(grpc.GenericRpcHandler):
    """ModelInfer and ModelStreamInfer of any bytes: the answer is the host's name."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def service(self, details: Any) -> Any:
        """The handler of a method."""
        if details.method == f"{SERVICE}ModelInfer":
            return grpc.unary_unary_rpc_method_handler(self._unary)
        if details.method == f"{SERVICE}ModelStreamInfer":
            return grpc.stream_stream_rpc_method_handler(self._stream)
        return None

    async def _unary(self, request: bytes, context: Any) -> bytes:
        self.host.counts["unary"] += 1
        return self.host.name.encode()

    async def _stream(self, requests: Any, context: Any) -> Any:
        self.host.counts["stream"] += 1
        async for _ in requests:
            yield self.host.name.encode()
