"""Serves the application with uvicorn; connections that send their headers too slowly are closed.

uvicorn closes a connection that is idle between two requests. It waits without a limit for a first request, and for the
rest of headers that arrive byte by byte; `Protocol` limits both. If all connections are in use, the one that has waited
longest for headers is closed, so that idle ones do not keep others out.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import resource
import socket
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.app import App
from gateway.gateway import Gateway
from gateway.settings import Listen

HEAD = b"HTTP/1.1 "
CHUNKED = b"transfer-encoding: chunked\r\n"
KEEP_ALIVE_SECONDS = 75
"""Seconds that an idle connection is kept: longer than HAProxy and clients keep one, so that no request meets a
closing connection."""


class Joining:
    """A transport that sends the head of an answer together with the body's first bytes in one write.

    uvicorn writes a head alone. The client would then wake for a head without a body, and the first token would be
    later.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._loop, self._head = transport, asyncio.get_running_loop(), b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._head and data.startswith(HEAD):
            self._head = data
            self._loop.call_soon(self._flush)  # sends only the head if no body follows, as after HEAD
        else:
            head, self._head = self._head, b""
            if not self._transport.is_closing():  # uvloop raises an error once the client has disconnected
                self._transport.write(head + data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            self.write(b"")


class Unchunked(Joining):
    """A transport for the answer to HTTP/1.0, which has no chunks: the connection's end is the end of a stream."""

    _is_chunked = False

    def write(self, data: bytes) -> None:
        if data.startswith(HEAD):
            self._is_chunked = CHUNKED in data
            data = data.replace(CHUNKED, b"")
        elif self._is_chunked:
            size, _, chunk = data.partition(b"\r\n")
            data = chunk[: int(size or b"0", 16)]
        self._transport.write(data)


class Parser:
    """llhttp, by which an offer of another protocol ends a request at its head; here the offer is ignored.

    What followed was not the request's body, but the connection's next request. Java's own client offers HTTP/2 in the
    first request of each connection without TLS (2026-11-28).
    """

    def __init__(self, protocol: Protocol) -> None:
        self._protocol, self._parser = protocol, new_parser(protocol)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def feed_data(self, data: bytes) -> None:
        """Parses the bytes. After an offer, a new parser reads the rest under the same length, without the offer."""
        rest = memoryview(data)
        while True:
            try:
                self._parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as offer:
                rest = rest[offer.args[0] :]
            self._parser = new_parser(self._protocol)
            self._parser.feed_data(self._protocol.head_of_body())


def new_parser(protocol: Protocol) -> Any:
    """llhttp as uvicorn sets it up: pipelined requests after the last one that is answered are dropped."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


class Protocol(HttpToolsProtocol):  # type: ignore[misc]  # uvicorn is not followed: its class is Any
    """HTTP/1.1 whose headers have a limit of time and of size, and have to name one host.

    `awaited`: the connections of the process without headers so far, the longest-waiting first.
    """

    def __init__(self, *args: Any, listen: Listen, awaited: dict[Protocol, None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_seconds, self._header_bytes = listen.header_seconds, listen.header_bytes
        self._most, self._awaited = listen.connections, awaited
        self._waiting: asyncio.TimerHandle | None = None
        self._is_in_headers, self._header_size = False, 0
        self.parser = Parser(self)
        self._is_offered = self._is_repeated = False
        """The head offers another protocol; it is parsed again for its body."""
        self._apart = 0
        """Bytes since the last ones of a body: trailers, and extensions of chunks."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Starts the time limit for the first request."""
        super().connection_made(Joining(transport))
        if self._awaited and len(self.connections) > self._most:
            next(iter(self._awaited)).give_way()
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Starts the time limit with the first byte of headers, and ends it with the last; limits their size.

        The parser delivers only whole headers, so the bytes of a long one are counted on arrival.
        """
        if self._is_in_headers or self._waiting is not None:
            self._header_size += len(data)
        self._apart += len(data)
        super().data_received(data)
        if not self._is_in_headers and self._apart > self._header_bytes + len(data):
            self.send_400_response("The trailers are too large.")
        if self._is_in_headers:
            if self._header_size > self._header_bytes:
                self._stop_waiting()
                self.send_400_response("The headers are too large.")
            elif self._waiting is None:
                self._wait()

    def on_message_begin(self) -> None:
        """Records that headers follow."""
        super().on_message_begin()
        self._is_in_headers, self._apart = True, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keeps a header. A trailer is dropped: uvicorn would add it to the headers, without a limit."""
        if self._is_in_headers:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Adds the part of the body to the request."""
        self._apart = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Passes the request to the application.

        Raises: ValueError, which becomes a 400, if two programs could read its host or its end differently.
        """
        self._is_in_headers, self._header_size, self._apart = False, 0, 0
        self._stop_waiting()
        if self._is_repeated:
            self._is_repeated = False
            return
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts != 1 and (hosts or self.parser.get_http_version() != "1.0"):
            raise ValueError("Host")
        if [value for name, value in self.headers if name == b"transfer-encoding"] not in ([], [b"chunked"]):
            raise ValueError("Transfer-Encoding")
        self._is_offered = self.parser.should_upgrade()
        super().on_headers_complete()
        if self.parser.get_http_version() == "1.0":
            self.cycle.transport = Unchunked(self.transport)

    def on_message_complete(self) -> None:
        """Ends the request's body, unless the parser has only ended the head."""
        if not self._is_offered:
            super().on_message_complete()

    def head_of_body(self) -> bytes:
        """A head with the length of the request whose head was parsed last, and with no more of it."""
        self._is_offered, self._is_repeated = False, True
        lengths = [pair for pair in self.headers if pair[0] in (b"content-length", b"transfer-encoding")]
        return b"\r\n".join([b"POST / HTTP/1.1", *(b": ".join(pair) for pair in lengths), b"", b""])

    def give_way(self) -> None:
        """Closes the connection, which no longer counts."""
        self._stop_waiting()
        self.connections.discard(self)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels the timer that waits for a header."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self._header_seconds, self.timeout_keep_alive_handler)
        self._awaited[self] = None

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        self._awaited.pop(self, None)


class Server(uvicorn.Server):  # type: ignore[misc]  # uvicorn is not followed: its class is Any
    """uvicorn's server around the application; it reports when it listens, when it is full, and that it will stop."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._app, listen = app, app.gateway.settings.listen
        self._notice_seconds = listen.notice_seconds
        app.is_full = lambda: len(self.server_state.connections) > listen.connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens, and informs systemd."""
        await super().startup(sockets)
        notify("READY=1")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops: waits until balancers have noticed, informs systemd, and lets open requests end."""
        notify("STOPPING=1")
        self._app.is_stopping = True
        await asyncio.sleep(self._notice_seconds)
        await super().shutdown(sockets)


def serve(gateway: Gateway, port: int) -> int:
    """0 after a stop request, once its requests have ended; 1 if it could not start."""
    listen, app = gateway.settings.listen, App(gateway)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each connection is a file, and the usual limit is 1,024
    config = uvicorn.Config(
        app,
        host=listen.address,
        port=port,
        http=functools.partial(Protocol, listen=listen, awaited={}),
        ws="none",
        loop="uvloop",
        lifespan="on",
        log_config=None,  # uvicorn's lines contain address and path; the audit's line describes the request
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=listen.drain_seconds,
    )
    server = Server(config, app)
    gc.freeze()  # excludes loaded modules from garbage collection, which would delay every stream by 10 ms
    server.run()
    return 0 if server.started else 1


def notify(state: str) -> None:
    """Sends a state to systemd, if systemd started the process."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            channel.send(state.encode())
