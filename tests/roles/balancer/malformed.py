"""Requests that break HTTP's rules, or that two programs could read differently, each with its expected result.

`answered`: the gateway answers 200, once for each request. `refused`: a status of the 400s or 500s, a reset stream or a
closed connection. `either`: both results are right. `requests` is the most requests that the gateway may see; for
`answered` the exact number. More than 300 lines, because it is one table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tests.gateway.asking import OTHER_KEY
from tests.roles.balancer.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Fields,
    block,
    frame,
    headers,
    hello,
)

ANSWERED, REFUSED, EITHER = "answered", "refused", "either"
KEY = f"Bearer {OTHER_KEY}"
MODELS = f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: {KEY}\r\n\r\n"
POST = f"POST /v1/rerank HTTP/1.1\r\nHost: x\r\nAuthorization: {KEY}\r\nContent-Type: application/json\r\n"
BODY = '{"model":"bge","query":"a","documents":["a"]}'
TWO = "0\r\n\r\n" + MODELS
FLOOD = 5000


@dataclass(frozen=True)
class Case:
    """Bytes that a client sends, over HTTP/2 if `h2`, and the expected result."""

    name: str
    sent: bytes
    wanted: str
    requests: int = 0
    h2: bool = False


def get(*, path: bytes = b"/v1/models", method: bytes = b"GET", more: Fields = ()) -> list[tuple[bytes, bytes]]:
    """The fields of a request."""
    pseudo = [(b":method", method), (b":scheme", b"https"), (b":authority", b"x"), (b":path", path)]
    return [*pseudo, (b"authorization", KEY.encode()), *more]


def post(*more: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """The fields of a request with a body."""
    return get(path=b"/v1/rerank", method=b"POST", more=[(b"content-type", b"application/json"), *more])


def length(size: int) -> tuple[bytes, bytes]:
    """The field with a body's length."""
    return (b"content-length", str(size).encode())


def http1() -> Iterator[tuple[str, str, str, int]]:
    """The cases over HTTP/1.1: name, bytes, expected result, and number of requests."""
    yield "a plain request", MODELS, ANSWERED, 1
    yield "two requests at once", MODELS * 2, ANSWERED, 2
    yield (
        "a request that waits for 100",
        f"{POST}Expect: 100-continue\r\nContent-Length: {len(BODY)}\r\n\r\n{BODY}",
        ANSWERED,
        1,
    )
    inside = f"Content-Length: {len(MODELS)}\r\n\r\n{MODELS}"
    yield "a request in the body of a GET", MODELS.removesuffix("\r\n") + inside, ANSWERED, 1
    yield "a request in a body for a page", MODELS.removesuffix("\r\n").replace("GET", "POST") + inside, REFUSED, 1
    yield "a request in a body for no path", POST.replace("/v1/rerank", "/none") + inside, REFUSED, 1
    yield "a request in a body for health", POST.replace("/v1/rerank", "/health") + inside, EITHER, 0
    yield "a body without a length", f"{POST}\r\n{MODELS}", EITHER, 2
    encoded = {
        "chunked": "Transfer-Encoding: chunked\r\n",
        "chunked with a length": f"Transfer-Encoding: chunked\r\nContent-Length: {len(TWO)}\r\n",
        "a length, then chunked": f"Content-Length: {len(TWO)}\r\nTransfer-Encoding: chunked\r\n",
        "a space before the colon": f"Transfer-Encoding : chunked\r\nContent-Length: {len(TWO)}\r\n",
        "a tab before chunked": f"Transfer-Encoding:\tchunked\r\nContent-Length: {len(TWO)}\r\n",
        "a vertical tab before chunked": f"Transfer-Encoding:\x0bchunked\r\nContent-Length: {len(TWO)}\r\n",
        "another encoding": f"Transfer-Encoding: xchunked\r\nContent-Length: {len(TWO)}\r\n",
        "chunked, identity": f"Transfer-Encoding: chunked, identity\r\nContent-Length: {len(TWO)}\r\n",
        "chunked twice": f"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\nContent-Length: {len(TWO)}\r\n",
        "quoted": f'Transfer-Encoding: "chunked"\r\nContent-Length: {len(TWO)}\r\n',
        "folded": f"Transfer-Encoding:\r\n chunked\r\nContent-Length: {len(TWO)}\r\n",
        "behind a line feed": f"X: a\nTransfer-Encoding: chunked\r\nContent-Length: {len(TWO)}\r\n",
        "behind a carriage return": f"X: a\rTransfer-Encoding: chunked\r\nContent-Length: {len(TWO)}\r\n",
        "in another letter": f"Tran\u017ffer-Encoding: chunked\r\nContent-Length: {len(TWO)}\r\n",
        "with an underscore": f"Transfer_Encoding: chunked\r\nContent-Length: {len(TWO)}\r\n",
        "named by Connection": "Connection: Content-Length\r\nTransfer-Encoding: chunked\r\n"
        f"Content-Length: {len(TWO)}\r\n",
    }
    for name, text in encoded.items():
        # "chunked" alone is a valid header that the gateway may refuse; the text behind its end is a request of its
        # own.
        wanted, requests = (EITHER, 1) if name == "chunked" else (REFUSED, 1)
        yield f"encoding: {name}", f"{POST}{text}\r\n{TWO}", wanted, requests
    for name, text in {
        "extensions": f"2d;a=b\r\n{BODY}\r\n0\r\n\r\n",
        "an extension with a line feed": f"2d;a\nb\r\n{BODY}\r\n0\r\n\r\n",
        "a size beyond 64 bits": f"1000000000000002d\r\n{BODY}\r\n0\r\n\r\n",
        "a negative size": f"-1\r\n{BODY}\r\n0\r\n\r\n",
        "a size with 0x": f"0x2d\r\n{BODY}\r\n0\r\n\r\n",
        "trailers": f"2d\r\n{BODY}\r\n0\r\nContent-Length: 5\r\n\r\n",
    }.items():
        yield f"chunks: {name}", f"{POST}Transfer-Encoding: chunked\r\n\r\n{text}", REFUSED, 0
    size = len(BODY)
    for name, value in {
        "two": f"{size}\r\nContent-Length: {size + 1}",
        "a list": f"{size}, {size + 1}",
        "a plus": f"+{size}",
        "a minus": f"-{size}",
        "hexadecimal": hex(size),
        "a space within": "4 5",
        "empty": "",
        "beyond 64 bits": "18446744073709551661",
        "folded": f"\r\n {size}\r\n 0",
    }.items():
        yield f"length: {name}", f"{POST}Content-Length: {value}\r\n\r\n{BODY}", REFUSED, 0
    many = 17 * 2**20
    yield "length: more than the gateway takes", f"{POST}Content-Length: {many}\r\n\r\n{' ' * many}", REFUSED, 1
    yield "length: the same twice", f"{POST}Content-Length: {size}\r\nContent-Length: {size}\r\n\r\n{BODY}", EITHER, 1
    for name, value in {
        "two": "Host: x\r\nHost: y",
        "none": "X: x",
        "a path": "Host: x/y",
        "a space": "Host: x y",
        "a line feed": "Host: x\n y",
    }.items():
        # The gateway ignores the host, and HAProxy 2.6 does not check it.
        yield f"host: {name}", MODELS.replace("Host: x", value), REFUSED if name in ("two", "none") else EITHER, 1
    for name, value in {
        "folded": "X: a\r\n b",
        "a name with a space": "X Y: a",
        "no name": ": a",
        "no colon": "X",
        "a zero byte in the value": "X: a\0b",
        "a zero byte in the name": "X\0: a",
        "a carriage return in the value": "X: a\rb",
        "64 KiB": f"X: {'a' * 65536}",
        "a thousand": "\r\n".join(["X: a"] * 1000),
    }.items():
        wanted = EITHER if name in ("folded", "a zero byte in the value", "a carriage return in the value") else REFUSED
        yield f"header: {name}", MODELS.replace("Host: x", f"Host: x\r\n{value}"), wanted, 1 if wanted == EITHER else 0
    line = MODELS.split("\r\n")[0]
    for name, value in {
        "without a version": "GET /v1/models",
        "HTTP/9.9": "GET /v1/models HTTP/9.9",
        "two spaces": "GET  /v1/models HTTP/1.1",
        "a path with a space": "GET /v1/models x HTTP/1.1",
        "a method with a bracket": "GE[T /v1/models HTTP/1.1",
        "64 KiB": f"GET /{'a' * 65536} HTTP/1.1",
        "TRACE": "TRACE /v1/models HTTP/1.1",
        "CONNECT": "CONNECT x:80 HTTP/1.1",
        "OPTIONS *": "OPTIONS * HTTP/1.1",
    }.items():
        wanted = EITHER if name in ("HTTP/9.9", "two spaces") else REFUSED
        yield f"line: {name}", MODELS.replace(line, value), wanted, 1
    for path in (
        "/metrics",
        "/metrics#a",
        "/metrics?a",
        "//metrics",
        "/./metrics",
        "/metrics/",
        "/%6Detrics",
        "/metrics%00",
    ):
        yield f"path: {path}", MODELS.replace("/v1/models", path), REFUSED, 1
    for target in ("http://x/metrics", "http://x/metrics#a", "http:///metrics", "/v1/../metrics", "*"):
        yield f"target: {target}", MODELS.replace("/v1/models", target), REFUSED, 1
    yield "lines that end in a line feed alone", MODELS.replace("\r\n", "\n"), EITHER, 1
    yield (
        "an upgrade to h2c",
        MODELS.replace(
            "Host: x", "Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk"
        )
        + MODELS,
        EITHER,
        2,
    )
    yield (
        "an upgrade to a websocket",
        MODELS.replace(
            "Host: x",
            "Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        )
        + MODELS,
        EITHER,
        2,
    )


def http2() -> Iterator[tuple[str, bytes, str, int]]:
    """The cases over HTTP/2, with the same parts."""
    whole = get()
    yield "a plain request", hello() + headers(whole), ANSWERED, 1
    body = BODY.encode()
    yield (
        "a body",
        hello() + headers(post(length(len(body))), flags=END_HEADERS) + frame(DATA, body, END_STREAM, 1),
        ANSWERED,
        1,
    )
    yield (
        "a body without a length",
        hello() + headers(post(), flags=END_HEADERS) + frame(DATA, body, END_STREAM, 1),
        EITHER,
        1,
    )
    for name, fields in {
        "two methods": [(b":method", b"POST"), *whole],
        "two paths": [(b":path", b"/none"), *whole],
        "two schemes": [(b":scheme", b"http"), *whole],
        "two authorities": [(b":authority", b"y"), *whole],
        "no method": whole[1:],
        "no scheme": [field for field in whole if field[0] != b":scheme"],
        "no path": [field for field in whole if field[0] != b":path"],
        "an empty path": get(path=b""),
        "an unknown pseudo-header": [(b":a", b"b"), *whole],
        "a status": [(b":status", b"200"), *whole],
        "a pseudo-header behind a header": [*whole[1:], whole[0]],
        "a name in upper case": [*whole, (b"X", b"a")],
        "connection": [*whole, (b"connection", b"keep-alive")],
        "keep-alive": [*whole, (b"keep-alive", b"1")],
        "proxy-connection": [*whole, (b"proxy-connection", b"keep-alive")],
        "upgrade": [*whole, (b"upgrade", b"h2c")],
        "transfer-encoding": [*post((b"transfer-encoding", b"chunked"))],
        "te": [*whole, (b"te", b"gzip")],
        "a value with a line end": [*whole, (b"x", b"a\r\ntransfer-encoding: chunked")],
        "a value with a line feed": [*whole, (b"x", b"a\ntransfer-encoding: chunked")],
        "a value with a carriage return": [*whole, (b"x", b"a\rb")],
        "a value with a zero byte": [*whole, (b"x", b"a\0b")],
        "a name with a line end": [*whole, (b"x: a\r\ny", b"b")],
        "a name with a colon": [*whole, (b"x:y", b"b")],
        "a name with a space": [*whole, (b"x y", b"b")],
        "no name": [*whole, (b"", b"b")],
        "a path with a request": get(path=f"/v1/models HTTP/1.1\r\nHost: x\r\n\r\n{MODELS}".encode()),
        "a path with a space": get(path=b"/v1/models HTTP/1.1"),
        "a path without a slash": get(path=b"v1/models"),
        "a method with a request": get(method=b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\nGET"),
        "an authority with a line end": [whole[0], (b":authority", b"x\r\nX: y"), *whole[1:2], *whole[3:]],
        "an authority and another host": [*whole, (b"host", b"y\r\nX: z")],
        "CONNECT": [(b":method", b"CONNECT"), (b":authority", b"x:80")],
        "metrics": get(path=b"/metrics"),
        "metrics with a fragment": get(path=b"/metrics#a"),
        "metrics with a scheme": get(path=b"http://x/metrics"),
        "64 KiB": [*whole, *[(b"x", b"a" * 4000)] * 17],
    }.items():
        flags = END_HEADERS | (0 if name == "transfer-encoding" else END_STREAM)
        # A chunk's end and a second request: a server that obeyed the header would read two requests.
        tail = frame(DATA, TWO.encode(), END_STREAM, 1) if name == "transfer-encoding" else b""
        yield (
            f"fields: {name}",
            hello() + headers(fields, flags=flags) + tail,
            REFUSED,
            0 if name != "an empty path" else 1,
        )
    socket = [(b":method", b"CONNECT"), (b":protocol", b"websocket"), *whole[1:]]
    yield "fields: a websocket", hello() + headers(socket, flags=END_HEADERS), EITHER, 1
    for name, size, data in (
        ("more than its length", 4, body),
        ("less than its length", 400, body),
        ("none of it", 45, b""),
    ):
        opening = headers(post(length(size)), flags=END_HEADERS)
        yield f"body: {name}", hello() + opening + frame(DATA, data, END_STREAM, 1), REFUSED, 1
    for name, fields in {
        "two lengths": post(length(4), length(45)),
        "a list of lengths": post((b"content-length", b"4, 45")),
        "a plus": post((b"content-length", b"+45")),
        "a length with a line end": post((b"content-length", b"45\r\nx: y")),
    }.items():
        yield (
            f"body: {name}",
            hello() + headers(fields, flags=END_HEADERS) + frame(DATA, body, END_STREAM, 1),
            REFUSED,
            0,
        )
    opened = headers(post(), flags=END_HEADERS)
    yield "body: trailers with a pseudo-header", hello() + opened + headers([(b":path", b"/none")]), REFUSED, 1
    yield "body: trailers without an end", hello() + opened + headers([(b"x", b"y")], flags=END_HEADERS), REFUSED, 1
    yield (
        "body: far beyond the window",
        hello() + opened + frame(DATA, b" " * 16384, 0, 1) * 64 + frame(DATA, body, END_STREAM, 1),
        EITHER,
        1,
    )
    block_ = block(whole)
    streams = {
        "DATA on no stream": frame(DATA, b"a", 0, 0),
        "DATA on a stream that nobody opened": frame(DATA, b"a", END_STREAM, 1),
        "an even stream": headers(whole, stream=2),
        "HEADERS on no stream": headers(whole, stream=0),
        "CONTINUATION of nothing": frame(CONTINUATION, block_, END_HEADERS, 1),
        "another frame within headers": frame(HEADERS, block_, END_STREAM, 1) + frame(PING, bytes(8)),
        "headers of another stream within": frame(HEADERS, block_, END_STREAM, 1) + headers(whole, stream=3),
        "a frame that is too long": frame(HEADERS, bytes(16385), END_HEADERS, 1),
        "more padding than frame": frame(HEADERS, b"\xff" + block_[:20], END_HEADERS | PADDED | END_STREAM, 1),
        "a client's PUSH_PROMISE": frame(PUSH_PROMISE, bytes(4) + block_, END_HEADERS, 1),
        "RST_STREAM on a stream that nobody opened": frame(RST_STREAM, bytes(4), 0, 1),
        "RST_STREAM on no stream": frame(RST_STREAM, bytes(4), 0, 0),
        "PRIORITY of four bytes": frame(PRIORITY, bytes(4), 0, 1),
        "PING of seven bytes": frame(PING, bytes(7)),
        "PING on a stream": frame(PING, bytes(8), 0, 1),
        "SETTINGS of five bytes": frame(SETTINGS, bytes(5)),
        "SETTINGS on a stream": frame(SETTINGS, b"", 0, 1),
        "SETTINGS that say yes and more": frame(SETTINGS, bytes(6), ACK),
        "a window beyond 31 bits": frame(SETTINGS, struct.pack(">HI", 4, 2**31)),
        "frames beyond 24 bits": frame(SETTINGS, struct.pack(">HI", 5, 2**24)),
        "frames below 16 KiB": frame(SETTINGS, struct.pack(">HI", 5, 1)),
        "a window of nothing more": frame(WINDOW_UPDATE, bytes(4)),
        "a window that grows too large": frame(WINDOW_UPDATE, struct.pack(">I", 2**31 - 1)) * 2,
        "WINDOW_UPDATE of three bytes": frame(WINDOW_UPDATE, bytes(3)),
        "a block that names index 0": frame(HEADERS, b"\x80", END_HEADERS | END_STREAM, 1),
        "a block that names no index": frame(HEADERS, b"\xff\xff\xff\xff\x0f", END_HEADERS | END_STREAM, 1),
        "a block whose number has no end": frame(HEADERS, b"\xff" * 64, END_HEADERS | END_STREAM, 1),
        "a block with a huge table": frame(HEADERS, b"\x3f\xe1\xff\xff\xff\x07" + block_, END_HEADERS | END_STREAM, 1),
        "a text longer than its block": frame(HEADERS, block_ + b"\x00\x7f", END_HEADERS | END_STREAM, 1),
        "a Huffman text of ones": frame(HEADERS, block_ + b"\x00\x84\xff\xff\xff\xff\x00", END_HEADERS | END_STREAM, 1),
    }
    for name, sent in streams.items():
        yield f"frames: {name}", hello() + sent, REFUSED, 0
    # A request precedes the first frame, and may be answered before it. RFC 9113 deprecates priorities.
    yield "frames: RST_STREAM of three bytes", hello() + headers(whole) + frame(RST_STREAM, bytes(3), 0, 1), EITHER, 1
    itself = frame(PRIORITY, struct.pack(">IB", 1, 1), 0, 1)
    yield "frames: a stream that depends on itself", hello() + itself + headers(whole), EITHER, 1
    yield "frames: no preface", MODELS.encode(), EITHER, 1
    yield "frames: half a preface", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", REFUSED, 0
    yield (
        "frames: a stream older than the last",
        hello() + headers(whole, stream=5) + headers(whole, stream=3),
        EITHER,
        1,
    )
    first, last = frame(HEADERS, block_, END_STREAM, 1), headers(whole, stream=2 * FLOOD + 1)
    for name, sent in {
        # The frame of another kind ends the series.
        "continuations without an end": first + frame(CONTINUATION, b"", 0, 1) * FLOOD + frame(PING, bytes(8)),
        "large continuations without an end": first + frame(CONTINUATION, block([(b"x", b"a" * 4000)]) * 4, 0, 1) * 500,
        "empty data": opened + frame(DATA, b"", 0, 1) * FLOOD + frame(DATA, body, END_STREAM, 1),
        "settings": frame(SETTINGS, struct.pack(">HI", 4, 65535)) * FLOOD + last,
        "pings": frame(PING, bytes(8)) * FLOOD + last,
        "priorities": frame(PRIORITY, struct.pack(">IB", 0, 1), 0, 1) * FLOOD + last,
        "windows": frame(WINDOW_UPDATE, struct.pack(">I", 1)) * FLOOD + last,
    }.items():
        yield f"flood: {name}", hello() + sent, EITHER, 1
    reset = b"".join(
        headers(whole, stream) + frame(RST_STREAM, struct.pack(">I", 8), 0, stream) for stream in range(1, 2 * FLOOD, 2)
    )
    yield "flood: streams that are reset at once", hello() + reset + last, EITHER, FLOOD + 1
    unread = b"".join(headers(whole, stream) for stream in range(1, 1000, 2))
    yield "flood: answers for which there is no window", hello(s4=0) + unread, EITHER, 500


CASES = [
    *(Case(f"HTTP/1: {name}", sent.encode("utf-8"), wanted, requests) for name, sent, wanted, requests in http1()),
    *(Case(f"HTTP/2: {name}", sent, wanted, requests, h2=True) for name, sent, wanted, requests in http2()),
]
