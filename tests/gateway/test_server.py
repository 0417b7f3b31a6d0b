"""The gateway's process, uvicorn with the application, tested over sockets.

Over 300 lines, because every test needs the same process and sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.gateway.asking import KEY, becomes, chat, in_loop, key_line, settings
from tests.gateway.triton import Script, Triton, serving
from tests.gateway.weights import written
from tests.ports import free_ports

pytest.importorskip("uvicorn", reason="uvicorn is missing: make .venv/.ready-test")

FILES = Path(__file__).parents[2] / "files"


@dataclass
class Process:
    """A gateway's process before a small Triton."""

    process: asyncio.subprocess.Process
    triton: Triton
    port: int
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Returns a connection to the process, closed with it at the latest."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer

    async def sent(self, raw: bytes) -> bytes:
        """Returns the answer to these bytes, read until the process closes the connection."""
        reader, writer = await self.connected()
        writer.write(raw)
        return await read_to_end(reader)


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """Returns all bytes until the connection is closed or reset."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(65536):
            received += part
    return received


@contextlib.asynccontextmanager
async def process(
    folder: Path, prices: object = None, limits: Mapping[str, int] | None = None, **listen: int
) -> AsyncIterator[Process]:
    """Runs a listening process, and stops it at the end."""
    keys = folder / "keys.json"
    keys.write_text(json.dumps({"keys": [key_line(KEY, "acme", **(limits or {}))]}))
    async with serving(Triton()) as triton:
        (port,) = free_ports(1)
        listening = {"ports": [port], "notice_seconds": 0, **listen}
        more = {"prices": prices} if prices else {}
        gateway_settings = settings([triton.address], written(folder / "weights"), keys, listen=listening, **more)
        (folder / "settings.json").write_text(json.dumps(gateway_settings))
        words = [sys.executable, "-m", "gateway", "serve", str(folder / "settings.json")]
        with (folder / "log").open("wb") as log:
            environment = {**os.environ, "PYTHONPATH": str(FILES)}
            started = await asyncio.create_subprocess_exec(*words, env=environment, stderr=log)
        running = Process(started, triton, port)
        try:
            while not running.writers:
                assert started.returncode is None
                await asyncio.sleep(0.05)
                with contextlib.suppress(OSError):
                    await running.connected()
            yield running
        finally:
            for writer in running.writers:
                writer.close()
            if started.returncode is None:
                started.terminate()
            await started.wait()


def request(body: object = None, *headers: str, path: str = "/v1/chat/completions") -> bytes:
    """Returns a request as bytes; the server closes the connection after it."""
    content = json.dumps(chat() if body is None else body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: gateway", f"Authorization: Bearer {KEY}", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(content)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + content


@in_loop
async def test_a_chat_is_answered_over_a_socket(tmp_path: Path) -> None:
    async with process(tmp_path) as running:
        whole = await running.sent(request())
        streamed = await running.sent(request(chat(stream=True)))
    assert whole.startswith(b"HTTP/1.1 200") and "Hello wörld".encode() in whole
    assert b"transfer-encoding: chunked" in streamed.lower() and b"data: [DONE]" in streamed
    assert b"uvicorn" not in whole + streamed


@in_loop
async def test_an_answers_head_waits_only_for_its_first_bytes() -> None:
    from gateway.server import Joining  # imported here, since the module needs uvicorn

    transport = Writes()
    joining = Joining(transport)  # a stand-in with the methods of a transport that Joining calls
    for data in (b"HTTP/1.1 200 OK\r\n\r\n", b"first", b"second", b"HTTP/1.1 204 No Content\r\n\r\n"):
        joining.write(data)
    assert transport.writes == [b"HTTP/1.1 200 OK\r\n\r\nfirst", b"second"]
    await asyncio.sleep(0)
    assert transport.writes[2:] == [b"HTTP/1.1 204 No Content\r\n\r\n"]
    joining.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    joining.close()
    assert transport.writes[3:] == [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"closed"]


class Writes:
    """A transport that records its writes."""

    def __init__(self, has_left: bool = False) -> None:
        self.writes: list[bytes] = []
        self.has_left = has_left

    def is_closing(self) -> bool:
        return self.has_left

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def close(self) -> None:
        self.writes.append(b"closed")


@in_loop
async def test_an_answer_to_a_client_that_left_is_no_error() -> None:
    """uvloop raises on a closed transport, so that any client could cause an alert by disconnecting."""
    from gateway.server import Joining  # imported here, since the module needs uvicorn

    transport = Writes(has_left=True)
    joining = Joining(transport)  # a stand-in with the methods of a transport that Joining calls
    joining.write(b"HTTP/1.1 200 OK\r\n\r\n")
    joining.write(b"data")
    assert transport.writes == []


@in_loop
async def test_the_answer_to_head_comes_on_a_kept_connection(tmp_path: Path) -> None:
    async with process(tmp_path) as running:
        reader, writer = await running.connected()
        for _ in range(2):
            writer.write(b"HEAD /metrics HTTP/1.1\r\nHost: gateway\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")


@in_loop
async def test_the_first_token_comes_with_the_head_in_one_piece(tmp_path: Path) -> None:
    async with process(tmp_path) as running:
        reader, writer = await running.connected()
        writer.write(request(chat(stream=True)))
        head, _, body = (await reader.read(2**16)).partition(b"\r\n\r\n")
    size, _, rest = body.partition(b"\r\n")
    role, text = re.findall(rb'"delta":({[^}]*})', rest[: int(size, 16)])
    assert head.startswith(b"HTTP/1.1 200")
    assert role == b'{"role":"assistant","content":""}' and json.loads(text)["content"]


@in_loop
async def test_a_connection_without_headers_is_closed_in_time(tmp_path: Path) -> None:
    """The limit applies before the first request, within a request, and within a later request of the same
    connection."""
    async with process(tmp_path, header_seconds=1) as running:
        silent, _silent = await running.connected()
        begun, writer = await running.connected()
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: d")
        second, again = await running.connected()
        again.write(request().replace(b"Connection: close\r\n", b""))
        await second.readuntil(b'"cached_tokens":0}}}')
        again.write(b"POST / HTTP/1.1\r\n")
        ends = await asyncio.gather(*(read_to_end(connection) for connection in (silent, begun, second)))
    assert ends == [b"", b"", b""]


AMBIGUOUS = [
    request(None, f"X-Long: {'x' * 20_000}"),
    request(None, "Transfer-Encoding: chunked"),
    request(None, "Content-Length: 3"),
    request().replace(b"Host: gateway\r\n", b"Host: gateway\r\nHost: other\r\n"),
    request().replace(b"Host: gateway\r\n", b""),
    request().replace(b"Host: gateway", b"Host : gateway"),
    request(None, "Transfer-Encoding: chunked, gzip"),
    request().replace(b"POST ", b"PO ST "),
    request(None, "X: a\r\n folded: b\x00"),
    request(None, f"Authorization: Bearer {KEY}"),
    b"POST /v1/models HTTP/1.1\r\nHost: gateway\r\nX: " + b"a" * 100_000,
]


@in_loop
async def test_a_request_that_could_be_read_as_two_is_refused(tmp_path: Path) -> None:
    async with process(tmp_path) as running:
        for raw in AMBIGUOUS:
            assert (await running.sent(raw)).startswith(b"HTTP/1.1 4"), raw
        assert running.triton.requests == []


@pytest.mark.parametrize("offer", ["h2c", "websocket", "TLS/1.3"])
@in_loop
async def test_a_request_that_offers_another_protocol_is_read_whole(offer: str, tmp_path: Path) -> None:
    """Java's client offers h2c without TLS. Its body was dropped, or read as the next request (2026-11-28)."""
    headers = (b"Connection: Upgrade, HTTP2-Settings", f"Upgrade: {offer}".encode(), b"HTTP2-Settings: AAEAAEAA")
    offering = request().replace(b"Connection: close", b"\r\n".join(headers))
    head, _, content = offering.partition(b"\r\n\r\n")
    chunked = re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", head)
    chunks = b"5\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (content[:5], len(content) - 5, content[5:])
    without = b"\r\n".join([b"GET /v1/models HTTP/1.1", *head.split(b"\r\n")[1:]])
    without = re.sub(rb"Content-Length: \d+\r\n", b"", without) + b"\r\n\r\n"
    async with process(tmp_path) as running:
        together = await running.sent(offering + offering + chunked + b"\r\n\r\n" + chunks + without + request())
        assert (together.count(b"HTTP/1.1 200"), len(running.triton.requests)) == (5, 4)
        many = await running.sent(without * 2_000 + request())
        assert many.count(b"HTTP/1.1 200") == 2_001
        hidden = request()
        head = re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(hidden), head)
        reader, writer = await running.connected()
        writer.write(head + b"\r\n\r\n")
        await asyncio.sleep(0.2)  # the body comes in another segment, in which it could be taken for a request
        writer.write(hidden + request())
        answers = await read_to_end(reader)
        assert answers.count(b"HTTP/1.1 200") == 1 and answers.startswith(b"HTTP/1.1 400 ")


@in_loop
async def test_a_request_of_http_1_0_may_name_no_host(tmp_path: Path) -> None:
    """Health checks of balancers name none."""
    old = request().replace(b" HTTP/1.1", b" HTTP/1.0").replace(b"Host: gateway\r\n", b"")
    async with process(tmp_path) as running:
        assert (await running.sent(old)).startswith(b"HTTP/1.1 200")
        assert (await running.sent(b"GET /health HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert (await running.sent(old.replace(b"\r\n", b"\r\nHost: a\r\nHost: a\r\n", 1)))[:12] == b"HTTP/1.1 400"


@in_loop
async def test_a_stream_to_http_1_0_has_no_chunks_and_ends_with_the_connection(tmp_path: Path) -> None:
    """RFC 9112, 6.1: a server must not send chunks to a client of HTTP/1.0, which would read their sizes as data."""
    async with process(tmp_path) as running:
        chunked = await running.sent(request(chat(stream=True)))
        old = request(chat(stream=True)).replace(b" HTTP/1.1", b" HTTP/1.0").replace(b"Connection: close\r\n", b"")
        head, _, body = (await running.sent(old)).partition(b"\r\n\r\n")
        both = request(chat(stream=True)).replace(b"Connection: close\r\n", b"") + old
        first, _, second = (await running.sent(both)).rpartition(b"HTTP/1.1 200")
    assert b"transfer-encoding" not in head and b"connection: close" in head
    events = body.split(b"\n\n")
    assert all(event.startswith(b"data: ") for event in events[:-1]) and events[-2:] == [b"data: [DONE]", b""]
    assert len(events) == chunked.count(b"data: ") + 1
    assert first.endswith(b"0\r\n\r\n") and second.endswith(b"data: [DONE]\n\n")


@in_loop
async def test_an_unread_body_ends_the_connection(tmp_path: Path) -> None:
    raw = request(None).partition(b"\r\n\r\n")[0].replace(b"Connection: close\r\n", b"")
    head = b"\r\n".join(line for line in raw.split(b"\r\n") if not line.startswith((b"Content-Length", b"Connection")))
    async with process(tmp_path) as running:
        answer = await running.sent(head + b"\r\nContent-Length: 1073741824\r\n\r\n" + b" " * 1000)
    assert answer.startswith(b"HTTP/1.1 413")


@in_loop
async def test_a_client_that_hangs_up_stops_the_model(tmp_path: Path) -> None:
    async with process(tmp_path) as running:
        running.triton.script = Script(halts_after=1)
        for count, body in enumerate((chat(stream=True), chat()), start=1):
            _, writer = await running.connected()
            writer.write(request(body))
            await becomes(lambda count=count: len(running.triton.requests) == count)
            writer.close()
            await becomes(lambda: running.triton.running == 0)
    assert running.triton.cancelled == 2


@in_loop
async def test_a_process_that_stops_lets_streams_finish_within_a_bound(tmp_path: Path) -> None:
    async with process(tmp_path, drain_seconds=1) as running:
        running.triton.script = Script(halts_after=1)
        reader, writer = await running.connected()
        writer.write(request(chat(stream=True)))
        begun = await reader.readuntil(b"Hel")
        running.process.send_signal(signal.SIGTERM)
        rest = await read_to_end(reader)
        assert await running.process.wait() in (0, -signal.SIGTERM)
    assert b'"code": "cut"' in rest
    (identity,) = re.findall(rb'"id":"chatcmpl-([0-9a-f]+)"', rest + begun)[:1]
    assert f'{{"cut": ["{identity.decode()}"]}}' in (tmp_path / "log").read_text()


@in_loop
async def test_a_stopping_process_reports_it_and_still_answers(tmp_path: Path) -> None:
    async with process(tmp_path, notice_seconds=30) as running:
        running.process.send_signal(signal.SIGTERM)
        health = b""
        while b'"stopping":true' not in health:
            health = await running.sent(b"GET /health HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n")
        assert health.startswith(b"HTTP/1.1 503")
        assert (await running.sent(request())).startswith(b"HTTP/1.1 200")
        running.process.kill()


@in_loop
async def test_unknown_arguments_and_settings_end_the_process(tmp_path: Path) -> None:
    async def status(*words: str) -> int:
        environment = {**os.environ, "PYTHONPATH": str(FILES)}
        begun = await asyncio.create_subprocess_exec(sys.executable, "-m", "gateway", *words, env=environment)
        return await begun.wait()

    (tmp_path / "settings.json").write_text('{"colour": 1}')
    assert await status("serve") == 64
    assert await status("serve", str(tmp_path / "settings.json")) == 78
