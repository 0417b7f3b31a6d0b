"""Serves the application with uvicorn: who is slow to say what is wanted is not waited for.

uvicorn closes a connection that is idle between two requests. It waits without an end for a first request, and for the
rest of headers that come a byte at a time; `Protocol` ends both.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from gateway.app import App
from gateway.gateway import Gateway

KEEP_ALIVE_SECONDS = 75
"""Longer than HAProxy and clients keep a connection, so that none of them sends into one that closes."""


class Protocol(H11Protocol):  # type: ignore[misc]  # uvicorn is not followed: its class is Any
    """HTTP/1.1 whose headers have to come within a time."""

    def __init__(self, *given: Any, header_seconds: int, **named: Any) -> None:
        super().__init__(*given, **named)
        self._header_seconds = header_seconds
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """The time for the first request begins."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """The time ends with the headers, and begins again with the first byte of the next ones."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._waiting is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self._header_seconds, self.timeout_keep_alive_handler)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


class Server(uvicorn.Server):  # type: ignore[misc]  # uvicorn is not followed: its class is Any
    """uvicorn's server, which tells systemd when it listens and when it stops."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """It listens, and systemd knows."""
        await super().startup(sockets)
        notify("READY=1")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Requests under way had their time; systemd knew."""
        notify("STOPPING=1")
        await super().shutdown(sockets)


def serve(gateway: Gateway, port: int) -> int:
    """0 once the process was told to stop and its requests have ended; 1 where it could not begin."""
    listen = gateway.settings.listen
    config = uvicorn.Config(
        App(gateway),
        host=listen.address,
        port=port,
        http=functools.partial(Protocol, header_seconds=listen.header_seconds),
        ws="none",
        loop="none",
        lifespan="on",
        log_config=None,  # what uvicorn logs of a request has its address and path; the audit has the request
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=listen.connections,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=listen.drain_seconds,
        h11_max_incomplete_event_size=listen.header_bytes,
    )
    server = Server(config)
    server.run()
    return 0 if server.started else 1


def notify(state: str) -> None:
    """systemd has heard, where it listens."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            channel.send(state.encode())
