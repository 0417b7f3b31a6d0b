"""A connection to an HTTP/1.1 server and the body of an answer; every part has a bound.

The server is an engine that may be faulty or compromised, so no data from it is stored without a limit: a head has
`MOST_HEAD` bytes at most, a chunk is passed on in pieces, and trailers are counted.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from dataclasses import dataclass
from typing import Literal

MOST_HEAD = 16_384
MOST_TRAILERS = 16_384
MOST_SIZE_LINE = 256
"""Bytes of a chunk's length with its extensions."""
AT_ONCE = 65_536
"""Bytes that are read at a time; a reader that takes none makes the server wait."""
MOST_INTERIM = 4
"""Heads of status 1xx before the answer's own."""
HEX = re.compile(rb"[0-9A-Fa-f]{1,8}")


class ProtocolError(Exception):
    """The server's bytes are not an HTTP/1.1 answer. The message does not quote them."""


class CutOff(ProtocolError):
    """The connection ended before the body did."""


@dataclass(frozen=True)
class Head:
    """Status and headers of an answer; names are in lower case."""

    status: int
    headers: dict[bytes, bytes]

    @property
    def stays_open(self) -> bool:
        return b"close" not in self.headers.get(b"connection", b"").lower()


def head_of(raw: bytes) -> Head:
    """The head in these bytes, which end in an empty line.

    Raises: ProtocolError.
    """
    first, *lines = raw[:-4].split(b"\r\n")
    match = re.fullmatch(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?", first)
    if match is None:
        raise ProtocolError("no status line")
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise ProtocolError("a header without a name")
        name = name.lower()
        if name in headers and name in (b"content-length", b"transfer-encoding"):
            raise ProtocolError("two lengths")
        headers[name] = value.strip()
    return Head(int(match[1]), headers)


class Body:
    """Takes an answer's bytes as they arrive, and returns those of its body."""

    def __init__(self, head: Head) -> None:
        """Raises: ProtocolError if the head has no length of the body, or contradicting ones."""
        encoding, length = head.headers.get(b"transfer-encoding"), head.headers.get(b"content-length")
        if encoding is not None and (encoding.lower() != b"chunked" or length is not None):
            raise ProtocolError("a body with an unsupported Transfer-Encoding")
        if length is not None and not (length.isdigit() and len(length) < 16):
            raise ProtocolError("a length that is not a number")
        if encoding is None and length is None and head.status not in (204, 304):
            raise ProtocolError("a body without a length")
        self._left = int(length or 0)
        self._rest = b""
        self._state: Literal["data", "size", "mark", "trailers"] = "data" if encoding is None else "size"
        self._is_chunked, self._trailers = encoding is not None, 0
        self.is_done = not self._is_chunked and not self._left
        self.has_more = False
        """True if bytes came after the body: the connection takes no other request."""

    def feed(self, data: bytes) -> bytes:
        """The bytes of the body among the received bytes.

        Raises: ProtocolError.
        """
        if self.is_done:
            self.has_more = self.has_more or bool(data)
            return b""
        if not self._is_chunked:
            part, extra = data[: self._left], data[self._left :]
            self._left -= len(part)
            self.is_done, self.has_more = not self._left, bool(extra)
            return part
        return self._chunks(data)

    def end(self) -> None:
        """Ends the connection.

        Raises: CutOff if the body is incomplete.
        """
        if not self.is_done:
            raise CutOff("cut off")

    def _chunks(self, data: bytes) -> bytes:
        rest, parts, place = self._rest + data, list[bytes](), 0
        while not self.is_done:
            if self._state == "data":
                part = rest[place : place + self._left]
                place, self._left = place + len(part), self._left - len(part)
                parts.append(part)
                if self._left:
                    break
                self._state = "mark"
            elif self._state == "mark":
                if len(rest) - place < 2:
                    break
                if rest[place : place + 2] != b"\r\n":
                    raise ProtocolError("a chunk longer than its length")
                place, self._state = place + 2, "size"
            else:
                end = rest.find(b"\r\n", place)
                most = MOST_SIZE_LINE if self._state == "size" else MOST_TRAILERS
                if (len(rest) if end < 0 else end) - place > most:
                    raise ProtocolError("a line without an end")
                if end < 0:
                    break
                self._line(rest[place:end])
                place = end + 2
        self._rest = b"" if self.is_done else rest[place:]
        self.has_more = self.is_done and place < len(rest)
        return b"".join(parts)

    def _line(self, line: bytes) -> None:
        if self._state == "trailers":
            self._trailers += len(line) + 2
            if self._trailers > MOST_TRAILERS:
                raise ProtocolError("trailers without an end")
            self.is_done = not line
            return
        size = line.partition(b";")[0].strip()
        if not HEX.fullmatch(size):
            raise ProtocolError("a chunk without a length")
        self._left = int(size, 16)
        self._state = "data" if self._left else "trailers"


class Connection:
    """An open connection, which carries one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.has_answered = False
        """True once a byte of the answer to the current request has arrived."""
        self.idle_since = 0.0

    @classmethod
    async def opened(cls, host: str, port: int, context: ssl.SSLContext | None) -> Connection:
        """A connection to the server.

        Raises: OSError.
        """
        reader, writer = await asyncio.open_connection(host, port, limit=AT_ONCE, ssl=context)
        return cls(reader, writer)

    @property
    def is_open(self) -> bool:
        return not self._writer.is_closing() and not self._reader.at_eof()

    async def ask(self, head: bytes, pieces: list[bytes]) -> Head:
        """The head of the answer to a request with this head and body.

        Raises: OSError, EOFError, ProtocolError.
        """
        self.has_answered = False
        self._writer.write(head)
        for piece in pieces:
            self._writer.write(piece)
            if len(piece) > 1024:
                await self._writer.drain()
                await asyncio.sleep(0)
        await self._writer.drain()
        for _ in range(MOST_INTERIM + 1):
            try:
                raw = await self._reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError as error:
                self.has_answered = bool(error.partial)
                raise EOFError from None
            except asyncio.LimitOverrunError:
                raise ProtocolError("a head without an end") from None
            self.has_answered = True
            if len(raw) > MOST_HEAD:
                raise ProtocolError("a head that is too long")
            answer = head_of(raw)
            if answer.status >= 200:
                return answer
        raise ProtocolError("no answer after interim responses")

    async def read(self) -> bytes:
        """The next bytes; empty at the end of the connection.

        Raises: OSError.
        """
        return await self._reader.read(AT_ONCE)

    def abort(self) -> None:
        """Closes the connection at once, so that the engine ends the request."""
        self._writer.transport.abort()
