"""HTTP/2 frames made by hand, also invalid ones that no library sends. Headers are literals, never compressed."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8
INDEXED = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
"""Statuses that have a place in HPACK's static table."""
Fields = Sequence[tuple[bytes, bytes]]


def frame(kind: int, payload: bytes = b"", flags: int = 0, stream: int = 0) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def hello(**settings: int) -> bytes:
    """The first bytes of a client; `settings` by their number, such as `s4`."""
    pairs = (struct.pack(">HI", int(name[1:]), value) for name, value in settings.items())
    return PREFACE + frame(SETTINGS, b"".join(pairs))


def integer(value: int, bits: int) -> bytes:
    """HPACK's form of a number that begins in the last `bits` of a byte."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    octets, value = [most], value - most
    while value >= 128:
        octets.append(value % 128 + 128)
        value //= 128
    return bytes([*octets, value])


def block(fields: Fields) -> bytes:
    """The fields as HPACK's literals."""
    texts = (b"\0" + b"".join(integer(len(text), 7) + text for text in pair) for pair in fields)
    return b"".join(texts)


def headers(fields: Fields, stream: int = 1, flags: int = END_HEADERS | END_STREAM) -> bytes:
    """A frame that opens a stream with these fields."""
    return frame(HEADERS, block(fields), flags, stream)


def frames_of(received: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and payload of each whole frame."""
    place = 0
    while place + 9 <= len(received):
        length = int.from_bytes(received[place : place + 3], "big")
        kind, flags, stream = struct.unpack(">BBI", received[place + 3 : place + 9])
        if place + 9 + length > len(received):
            return
        yield kind, flags, stream, received[place + 9 : place + 9 + length]
        place += 9 + length


def status_of(payload: bytes) -> int:
    """The status at the start of an HPACK header block: from the static table, or a literal of three digits."""
    while payload and payload[0] & 0xE0 == 0x20:  # the size of the dynamic table
        payload = payload[1:]
    if payload[0] & 0x80:
        return INDEXED[payload[0] & 0x7F]
    return int(payload[2:5])
