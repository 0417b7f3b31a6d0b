"""A client of one HTTP/1.1 server: it keeps connections for later requests, and ends each request in time."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from gateway.errors import UpstreamError
from gateway.http_connection import Body, Connection, CutOff, Head, ProtocolError
from gateway.mutual import SERVER

IDLE_SECONDS = 3.0
"""Seconds after which an idle connection is closed: uvicorn, in both engines, closes one after 5 s (its default,
2026-11-27)."""
MOST_IDLE = 256
CONNECT_SECONDS = 5.0


class Answer:
    """A current answer: its head, and the bytes of its body."""

    def __init__(self, connection: Connection, head: Head) -> None:
        """Raises: ProtocolError."""
        self.status, self._connection = head.status, connection
        self._body, self._stays_open = Body(head), head.stays_open

    @property
    def is_done(self) -> bool:
        return self._body.is_done

    @property
    def may_be_used_again(self) -> bool:
        return self._stays_open and self._body.is_done and not self._body.has_more and self._connection.is_open

    async def read(self) -> bytes:
        """The next bytes of the body, which may be empty before its end.

        Raises: OSError, ProtocolError.
        """
        data = await self._connection.read()
        if not data:
            self._body.end()
            self._stays_open = False
            return b""
        return self._body.feed(data)


class Client:
    """Connections to one server. With a `context`, they use TLS and each request names `name`, a server of the host."""

    def __init__(self, address: str, context: ssl.SSLContext | None = None, name: str = "") -> None:
        parts = urlsplit(f"//{address}")
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._context, self._idle = context, list[Connection]()
        named = f"{SERVER}: {name}\r\n" if context and name else ""
        self._shared = f"Host: {address}\r\n{named}"
        self._open = 0
        self._is_closed = False

    @contextlib.asynccontextmanager
    async def answer_to(
        self, method: str, path: str, body: list[bytes], seconds: float, headers: dict[str, str]
    ) -> AsyncIterator[Answer]:
        """A context in which the answer to a request can be read. Leaving before its end closes the connection.

        Raises: UpstreamError.
        """
        head = self._head(method, path, body, headers)
        alarm = Alarm(seconds)
        connection: Connection | None = None
        try:
            connection, answer = await self._begun(head, body, alarm)
            yield answer
            if answer.may_be_used_again:
                self._keep(connection)
                connection = None
        except (OSError, EOFError, ProtocolError) as error:
            if alarm.has_rung:
                raise UpstreamError("DEADLINE_EXCEEDED", "the engine did not answer in time") from None
            if isinstance(error, ProtocolError) and not isinstance(error, CutOff):
                raise UpstreamError("INTERNAL", f"the engine's answer is not HTTP: {error}") from None
            raise UpstreamError("UNAVAILABLE", "the engine closed the connection") from None
        finally:
            alarm.stop()
            if connection:
                connection.abort()

    async def close(self, seconds: float) -> None:
        """Closes idle connections; open requests end by themselves."""
        self._is_closed = True
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    def _head(self, method: str, path: str, body: list[bytes], headers: dict[str, str]) -> bytes:
        content = f"Content-Type: application/json\r\nContent-Length: {sum(map(len, body))}\r\n" if body else ""
        own = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{method} {path} HTTP/1.1\r\n{self._shared}{content}{own}\r\n".encode("ascii")

    async def _begun(self, head: bytes, body: list[bytes], alarm: Alarm) -> tuple[Connection, Answer]:
        """A connection that has sent the request, and the beginning of the answer.

        A kept connection that the server closes before the answer's first byte is replaced by a new one.
        """
        while True:
            connection, is_new = await self._connection(alarm)
            alarm.watch(connection)
            try:
                return connection, Answer(connection, await connection.ask(head, body))
            except (OSError, EOFError):
                connection.abort()
                if is_new or connection.has_answered or alarm.has_rung:
                    raise
            except BaseException:
                connection.abort()
                raise

    async def _connection(self, alarm: Alarm) -> tuple[Connection, bool]:
        oldest = time.monotonic() - IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.idle_since > oldest:
                return connection, False
            connection.abort()
        opening = Connection.opened(self._host, self._port, self._context)
        try:
            return await asyncio.wait_for(opening, min(CONNECT_SECONDS, max(alarm.left, 0.001))), True
        except asyncio.TimeoutError:
            raise ConnectionError from None

    def _keep(self, connection: Connection) -> None:
        if self._is_closed or len(self._idle) >= MOST_IDLE:
            connection.abort()
            return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)


class Alarm:
    """Ends a connection at a deadline: a timer for each request costs less than a limited wait for each event."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time() + seconds
        self._connection: Connection | None = None
        self._timer = self._loop.call_at(self._at, self._ring)
        self.has_rung = False

    @property
    def left(self) -> float:
        return self._at - self._loop.time()

    def watch(self, connection: Connection) -> None:
        """Registers the connection that the time limit aborts."""
        self._connection = connection
        if self.has_rung:
            connection.abort()

    def stop(self) -> None:
        self._timer.cancel()

    def _ring(self) -> None:
        self.has_rung = True
        if self._connection:
            self._connection.abort()
