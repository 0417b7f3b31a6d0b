"""Asks if a server takes requests: its host's traffic service, or the server itself over gRPC."""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

LOOK_SECONDS = 2.0
LONGEST_STATUS = 4096


async def says_ready(url: str, seconds: float = LOOK_SECONDS, context: ssl.SSLContext | None = None) -> bool | None:
    """True for 200, False for 503, None without an answer, when the last known state applies."""
    try:
        return await asyncio.wait_for(_readiness(url, context), seconds)
    except (OSError, ValueError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError):
        return None


async def _readiness(url: str, context: ssl.SSLContext | None) -> bool | None:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=LONGEST_STATUS, ssl=context)
    try:
        writer.write(f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
        status = (await reader.readuntil(b"\r\n")).split(b" ")[1:2]
    finally:
        writer.close()
    return {b"200": True, b"503": False}.get(status[0] if status else b"")
