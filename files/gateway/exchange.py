"""`Exchange`: an HTTP request with a bounded body and its answer, whole or a stream; the client may disconnect.

More than 300 lines, because the request and its answer are one object with one lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any

from gateway import clock
from gateway.audit import Record
from gateway.budgets import Lease
from gateway.errors import ApiError
from gateway.fields import Ignored
from gateway.forms import HTML, PAGE_HEADERS, fields_of
from gateway.load import PIECE_SECONDS, Held, Pauses
from gateway.settings import Limits

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

KEY_HEADERS = (b"authorization", b"api-key", b"x-api-key")
ONCE = (
    *KEY_HEADERS,
    b"content-encoding",
    b"content-type",
    b"content-length",
    b"transfer-encoding",
    b"host",
)
compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
"""JSON without spaces. The encoder is made once: one per event took a tenth of the event's time."""
IGNORED = b"x-enginehouse-ignored"
ZIPPED_AT_ONCE, UNZIPPED_AT_ONCE = 2**14, 2**18
"""Bytes that take the event loop a millisecond."""
FORM_BYTES = 4096
BODY_RATE = 16_384
"""Least bytes a second of a body after `GRACE_SECONDS`, because a slow client's body occupies memory until its end."""
GRACE_SECONDS = 5.0
MOST_DIGITS = 20
"""Digits of a `Content-Length`; Python refuses to read a number of 5,000 zeros."""
PASSED_OVER_SECONDS, PASSED_OVER_AT_ONCE = 5.0, 4
MODEL = b"x-enginehouse-model"
"""Header with the model's own name, whatever name the client used."""
COMMENT, EMPTY_LINE = b": still working\n\n", b"\n"
EVENTS, LINES = b"text/event-stream; charset=utf-8", b"application/stream+json"
LAST_EVENT = b"data: [DONE]\n\n"


class Exchange:
    """A request and its answer. Every answer has a request id of ours."""

    passed_over = 0
    """Number of bodies that this process is receiving only to discard them."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: Limits) -> None:
        self.method, self.path = str(scope["method"]), str(scope["path"])
        self.query = bytes(scope.get("query_string", b""))
        header_pairs = self.sent_headers = list(scope["headers"])
        self.client = str((scope.get("client") or ("",))[0])
        """Address of the connection's client."""
        self.headers: dict[bytes, bytes] = dict(header_pairs)
        self.header_bytes = sum([len(name) + len(value) + 4 for name, value in header_pairs]) + len(self.path)
        has_two_ends = b"transfer-encoding" in self.headers and b"content-length" in self.headers
        self.is_ambiguous = has_two_ends or (len(header_pairs) > len(self.headers) and _is_twice(header_pairs))
        """True if two readers of the request could interpret the request in different ways."""
        self.limits = limits
        self.identity = os.urandom(16).hex()
        self.record = Record(self.identity, "", time.monotonic(), at=clock.now().timestamp())
        self.lease: Lease | None = None
        """The request's share of its key's limits, for the answer's rate-limit headers."""
        self.pauses = Pauses()
        """Pauses of long work in the event loop; the gateway replaces these with the pauses of its process."""
        self.held: Held | None = None
        """Memory of the request's body, counted for its tenant."""
        self.answer: Held | None = None
        """Memory of a large answer, counted for the tenant."""
        self.ignored = Ignored()
        """Fields of the request that were ignored; the answer names them."""
        self.streams = False
        """True if the client asked for events; a comment may then begin the answer."""
        self.is_lines = False
        """True for a stream with a JSON value on each line, as in Cohere's first chat, instead of events with names."""
        self.last_words: Callable[[ApiError], tuple[str, object]] | None = None
        """The name and the data of the event that ends a broken stream; None: the error's body, without a name."""
        self.content: bytes | None = None
        """JSON that replaces the body: the body was a page's form, which has been read."""
        self.view: Callable[[bytes, int], bytes] | None = None
        """Function that makes a page for people of the answer's JSON and status; None if the client wants JSON."""
        self.has_begun = False
        self.cors: list[tuple[bytes, bytes]] = []
        """Headers that let a browser give the answer to a page of another origin."""
        self._receive, self._send = receive, send
        self._turn = asyncio.Lock()  # two tasks send: one sends events, the other comments
        self._moved = time.monotonic()
        self._is_sending = self._has_ended = False
        self._is_read = self.headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in self.headers

    @property
    def authorization(self) -> bytes | None:
        """The `Authorization` header, or Azure's `api-key` or Anthropic's `x-api-key` in its place."""
        for name in KEY_HEADERS:
            if (value := self.headers.get(name)) is not None:
                return value if name == b"authorization" else b"Bearer " + value
        return None

    def wanted(self, name: bytes) -> str:
        """The value of a parameter in the query, "" without it."""
        values = [value for key, _, value in (pair.partition(b"=") for pair in self.query.split(b"&")) if key == name]
        return values[-1].decode("latin-1") if values else ""

    @property
    def is_json(self) -> bool:
        return self.headers.get(b"content-type", b"").split(b";")[0].strip().lower() == b"application/json"

    async def body(self, most: int) -> bytes:
        """The body; its headers have to declare JSON.

        Raises: ApiError for a body that is too large, too slow or of another type, or if there is no room for it;
        ClientLeft.
        """
        if self.content is not None:
            if self.held:
                self.held.take(len(self.content))
            return self.content
        encoding = self.headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding not in (b"identity", b"gzip"):
            raise ApiError(415, "the body's compression is not supported: send the body uncompressed, or as gzip")
        raw = await self._content(b"application/json", most)
        return await self._unzipped(raw, most) if encoding == b"gzip" else raw

    async def _unzipped(self, raw: bytes, most: int) -> bytes:
        """The body unpacked from gzip, at most as much as the path takes. Other requests get turns meanwhile."""
        unzip, pieces, size, end = zlib.decompressobj(wbits=31), list[bytes](), 0, 0
        try:
            while not unzip.eof and end < len(raw):
                # Empty blocks unpack to nothing, so the packed bytes are limited too.
                rest, end, piece = raw[end : end + ZIPPED_AT_ONCE], end + ZIPPED_AT_ONCE, bytes(UNZIPPED_AT_ONCE)
                while rest or len(piece) == UNZIPPED_AT_ONCE:
                    piece = unzip.decompress(rest, UNZIPPED_AT_ONCE)
                    rest, size = unzip.unconsumed_tail, size + len(piece)
                    if size > most:
                        raise self._too_large(most)
                    if self.held:
                        self.held.take(len(piece))
                    pieces.append(piece)
                    await self.pauses.pause()
        except zlib.error:
            raise ApiError(400, "the body is not gzip, although its `Content-Encoding` says gzip") from None
        if not unzip.eof or unzip.unused_data or end < len(raw):
            raise ApiError(400, "the body must be exactly one complete gzip file")
        return b"".join(pieces)

    async def form(self, most: int = FORM_BYTES) -> dict[str, str]:
        """The fields of a page's form, each name's last value.

        Raises: ApiError for a body that is too large, too slow, of another type or not a form; ClientLeft.
        """
        raw = await self._content(b"application/x-www-form-urlencoded", most)
        try:
            return fields_of(raw)
        except ValueError:
            raise ApiError(400, "the body is not a form") from None

    async def _content(self, kind: bytes, most: int) -> bytes:
        if self.headers.get(b"content-type", b"").split(b";")[0].strip().lower() != kind:
            name = "JSON" if kind.endswith(b"json") else "a form"
            raise ApiError(415, f"the body must be {name}: send `Content-Type: {kind.decode()}`")
        length = self.headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > MOST_DIGITS or int(length) > most:
            await self._pass_over()
            raise self._too_large(most)
        # A declared length is reserved at once, so that a client with many open bodies is refused before they are read.
        if self.held and int(length):
            self.held.take(int(length))
        try:
            return await self._read(most)
        except asyncio.TimeoutError:
            message = f"the body did not come within {self.limits.body_seconds} s, or slower than {BODY_RATE} bytes a"
            raise ApiError(408, f"{message} second after {GRACE_SECONDS:g} s") from None

    async def _read(self, most: int) -> bytes:
        began, parts, size, more = time.monotonic(), [], 0, True
        while more:
            allowed = min(GRACE_SECONDS + size / BODY_RATE, self.limits.body_seconds)
            left = began + allowed - time.monotonic()
            message = await asyncio.wait_for(self._receive(), max(left, 0.001))
            if message["type"] == "http.disconnect":
                raise ClientLeft
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                await self._pass_over()
                raise self._too_large(most)
            if self.held and b"content-length" not in self.headers:
                self.held.take(len(part))
            parts.append(part)
            more = message.get("more_body", False)
        self._is_read = True
        return b"".join(parts)

    async def _pass_over(self) -> None:
        """Receives the rest of a body that is too large, within bounds, and drops it.

        A connection that is closed with unread bytes is reset, and many clients then see no answer (2026-11-25). Few
        bodies are drained at a time: 192 at once delayed all streams for 1.6 s (16 cores, 2026-11-25).
        """
        if Exchange.passed_over >= PASSED_OVER_AT_ONCE:
            return
        Exchange.passed_over += 1
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._receive_rest(), PASSED_OVER_SECONDS)
        finally:
            Exchange.passed_over -= 1

    async def _receive_rest(self) -> None:
        size = 0
        while not self._is_read and size <= self.limits.body_bytes:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            size += len(message.get("body", b""))
            self._is_read = not message.get("more_body", False)

    def _too_large(self, most: int) -> ApiError:
        return ApiError(413, f"the body has more than {most} bytes, the limit of this path")

    async def left(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def json(self, value: object, status: int = 200, headers: Headers = ()) -> None:
        """Sends the whole answer."""
        content = compact(value).encode()
        await self.whole(content, b"application/json", status, headers)

    async def json_of_many(self, before: str, items: Iterable[object], after: str) -> None:
        await self.json_of_lists("", [(before, items)], after)

    async def json_of_lists(self, before: str, lists: Sequence[tuple[str, Iterable[object]]], after: str) -> None:
        """Sends several lists in one answer, each after its own beginning; otherwise like `json_of_many`."""
        pieces, pending, began = list[bytes](), before, time.monotonic()
        for number, (name, items) in enumerate(lists):
            pending += f"{',' if number else ''}{name}["
            parts = list[str]()
            for item in items:
                parts.append(compact(item))
                if time.monotonic() - began > PIECE_SECONDS:
                    pieces.append(f"{pending}{','.join(parts)}".encode())
                    pending, parts = "", [""]  # the next piece then begins with a comma
                    await self.pauses.pause()
                    began = time.monotonic()
            pending += f"{','.join(parts)}]"
        pieces.append(f"{pending}{after}".encode())
        await self.whole_of(pieces, b"application/json")

    async def whole(self, content: bytes, kind: bytes, status: int = 200, headers: Headers = ()) -> None:
        await self.whole_of([content], kind, status, headers)

    async def whole_of(self, pieces: Sequence[bytes], kind: bytes, status: int = 200, headers: Headers = ()) -> None:
        """Sends an answer of any type, piece by piece; for a person, a page instead of it."""
        if self.view:
            kind, pieces, headers = HTML, [self.view(b"".join(pieces), status)], [*headers, *PAGE_HEADERS]
        length = (b"content-length", str(sum(map(len, pieces))).encode())
        async with self._turn:
            await self._begin(status, [(b"content-type", kind), length, *headers])
            for piece in pieces[:-1] if self.method != "HEAD" else ():
                await self._put(piece, more=True)
            await self._put(pieces[-1] if self.method != "HEAD" else b"", more=False)

    async def event(self, value: object) -> None:
        await self.event_of(compact(value))

    async def event_of(self, content: str) -> None:
        await self._stream(f"data: {content}\n\n".encode())

    async def events_of(self, contents: Sequence[str]) -> None:
        """Sends several events in one write: each write costs a client a wake-up, and delays the first token."""
        await self._stream("".join([f"data: {content}\n\n" for content in contents]).encode())

    async def named_event(self, name: str, value: object, more: bool = True) -> None:
        """Sends an event with a name; without `more` it is the stream's last."""
        content = f"{compact(value)}\n" if self.is_lines else f"event: {name}\ndata: {compact(value)}\n\n"
        await self._stream(content.encode(), more)

    async def done(self) -> None:
        await self._stream(LAST_EVENT, more=False)

    async def fail(self, error: ApiError, body: object) -> None:
        """Sends the error to the client: as the answer, or as the last event of a stream, without its end mark."""
        if not self.has_begun:
            await self.json(body, error.status, error.headers())
        elif not self._has_ended:
            if self.last_words:
                await self.named_event(*self.last_words(error), more=False)
                return
            data = json.dumps(body, ensure_ascii=False).encode()
            await self._stream(b"data: " + data + b"\n\n", more=False)

    async def comment(self) -> None:
        if self.streams and not self._has_ended and not self._is_sending:
            await self._stream(EMPTY_LINE if self.is_lines else COMMENT)

    def silent_seconds(self, now: float) -> float:
        return 0.0 if self._is_sending else now - self._moved

    def stuck_seconds(self, now: float) -> float:
        return now - self._moved if self._is_sending else 0.0

    async def _stream(self, data: bytes, more: bool = True) -> None:
        async with self._turn:
            if self._has_ended:
                return
            if not self.has_begun:
                kind = (b"content-type", LINES if self.is_lines else EVENTS)
                buffering = (b"x-accel-buffering", b"no")
                await self._begin(200, [kind, buffering])
            await self._put(data, more)

    async def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.has_begun, self.record.status = True, status
        always = [(b"x-request-id", self.identity.encode()), (b"cache-control", b"no-store")]
        sniffing = [(b"x-content-type-options", b"nosniff")]
        # An unwanted body is not read. The connection is closed, because the next request could not be told from its
        # rest.
        closing = [] if self._is_read else [(b"connection", b"close")]
        limits = self.lease.rate_headers if self.lease else []
        passed = [(IGNORED, ", ".join(self.ignored).encode("ascii", "replace"))] if self.ignored else []
        model = [(MODEL, self.record.model.encode("ascii", "replace"))] if self.record.model else []
        every = [*headers, *always, *sniffing, *closing, *limits, *passed, *model, *self.cors]
        start = {"type": "http.response.start", "status": status, "headers": every}
        await self._hand_over(start)

    async def _put(self, data: bytes, more: bool) -> None:
        self._has_ended = not more
        await self._hand_over({"type": "http.response.body", "body": data, "more_body": more})

    async def _hand_over(self, message: Message) -> None:
        self._moved, self._is_sending = time.monotonic(), True
        try:
            await self._send(message)
        finally:
            self._moved, self._is_sending = time.monotonic(), False


def _is_twice(headers: list[tuple[bytes, bytes]]) -> bool:
    names = [name for name, _ in headers]
    return any(names.count(name) > 1 for name in ONCE)


class ClientLeft(Exception):
    """The client closed the connection before its answer; or it stopped reading, and `word` is "stuck"."""

    def __init__(self, word: str = "left") -> None:
        super().__init__(word)
        self.word = word
