"""Gateways behind a balancer, as far as HAProxy needs them, and clients that use TLS with the balancer."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

from tests.roles.balancer.bench import Bench, until
from tests.roles.balancer.standins import Host


class Gateway:
    """A process of a gateway: it records the headers of its requests, and answers by path.

    `/health` shows if it is stopping, `/stream` sends an event for each `go`, `/never` waits until its client
    disconnects; every other path is answered with the name.
    """

    def __init__(self, name: str) -> None:
        self.name, self.port = name, 0
        self.stops = False
        self.heads: list[str] = []
        """The line and headers of each request that a client sent."""
        self.left = 0
        self.go = asyncio.Semaphore(0)

    async def start(self) -> Gateway:
        """Starts to listen."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return self

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := (await reader.readuntil(b"\r\n\r\n")).decode().lower():
                path = head.split()[1]
                if path == "/health":
                    writer.write(_whole("", 503 if self.stops else 200))
                    continue
                self.heads.append(head)
                if path == "/never":
                    self.left += await _is_gone(reader)
                    return
                if path == "/stream":
                    await self._stream(writer)
                else:
                    writer.write(_whole(self.name))
                await writer.drain()
        writer.close()

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await self.go.acquire()
            event = f"data: {self.name}\n\n".encode()
            writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            await writer.drain()


async def _is_gone(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


def _whole(text: str, status: int = 200) -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


async def give_gateways(hosts: list[Host]) -> None:
    """Gives each host a gateway."""
    for host in hosts:
        host.gateway = await Gateway(host.name).start()


def trusting(pem: Path) -> ssl.SSLContext:
    """TLS settings of a client that trusts this certificate; HTTP/1 only."""
    context = ssl.create_default_context(cafile=str(pem))
    context.set_alpn_protocols(["http/1.1"])
    return context


@contextlib.asynccontextmanager
async def connection(
    edge: Bench, pem: Path, mine: Path | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client's connection to the gateways' port, with the client certificate `mine`."""
    context = trusting(pem)
    if mine:
        context.load_cert_chain(mine, f"{mine}.key")
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", edge.gateway_port, ssl=context, server_hostname="localhost"
    )
    try:
        yield reader, writer
    finally:
        writer.close()


async def response_to(edge: Bench, pem: Path, request: str, mine: Path | None = None) -> tuple[int, str]:
    """Status and body of the answer to a raw request."""
    async with connection(edge, pem, mine) as (reader, writer):
        writer.write(request.encode())
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        lengths = [line.split(":")[1] for line in head.splitlines() if line.startswith("content-length")]
        body = await reader.readexactly(int(lengths[0])) if lengths else b""
        return int(head.split()[1]), body.decode()


async def sent_to_gateways(edge: Bench, *hosts: Host) -> None:
    """Returns as soon as the balancer sends new requests to exactly these hosts' gateways."""
    wanted = sorted(f"chat_gateway/{host.name}.8080" for host in hosts)

    def holds() -> bool:
        return sorted(line for line, state in edge.states().items() if "_gateway/" in line and state == "UP") == wanted

    await until(holds)
