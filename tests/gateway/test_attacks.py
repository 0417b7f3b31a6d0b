"""Attacks on the gateway's process over a socket; none of them harms another client.

Elsewhere: forged control tokens test_prompts.py, hostile templates test_renderer.py, huge schemas test_schema_size.py,
too deep JSON test_limits.py, other clients' ids test_front.py, revoked keys test_keys.py, and tenants that starve each
other test_budgets.py and test_fleet.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
from pathlib import Path

import pytest

import gateway.keys
from gateway.errors import ApiError
from gateway.keys import Keys
from tests.gateway.asking import CHAT, KEY, OTHER_KEY, becomes, chat, in_loop, key_line, running_gateway
from tests.gateway.test_server import Process, process, read_to_end, request
from tests.gateway.triton import Script

pytest.importorskip("uvicorn", reason="uvicorn is missing: make .venv/.ready-test")

EVIL = "evil.example"
SECOND = f"GET /v1/models HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
"""The request that an attacker hides in the body of another request."""
HEAD = (
    f"POST /v1/chat/completions HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json"
)


def hidden(*framing: str, body: bytes = SECOND) -> bytes:
    """Returns a request whose length the headers `framing` state, with another request hidden in or after its body."""
    return "\r\n".join([HEAD, *framing, "", ""]).encode() + body


SMUGGLED = {
    "CL.TE": hidden(f"Content-Length: {5 + len(SECOND)}", "Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SECOND),
    "TE.CL": hidden("Transfer-Encoding: chunked", "Content-Length: 4", body=b"5c\r\n" + SECOND + b"\r\n0\r\n\r\n"),
    "TE.TE": hidden("Transfer-Encoding: chunked", "Transfer-Encoding: identity", body=b"0\r\n\r\n" + SECOND),
    "an encoding that is none": hidden("Transfer-Encoding: xchunked", body=b"0\r\n\r\n" + SECOND),
    "an encoding after another": hidden("Transfer-Encoding: identity, chunked", body=b"0\r\n\r\n" + SECOND),
    "an encoding behind a tab": hidden("Transfer-Encoding:\tchunked\x0b", body=b"0\r\n\r\n" + SECOND),
    "an encoding before its colon": hidden("Transfer-Encoding : chunked", "Content-Length: 5", body=b"0\r\n\r\n"),
    "two lengths": hidden("Content-Length: 0", f"Content-Length: {len(SECOND)}"),
    "two lengths in one": hidden(f"Content-Length: 0, {len(SECOND)}"),
    "a signed length": hidden("Content-Length: +0"),
    "a negative length": hidden("Content-Length: -1"),
    "a length in another base": hidden("Content-Length: 0x0"),
    "a length of another alphabet": hidden("Content-Length: ٠"),
    "a folded header": hidden("X: a", " Transfer-Encoding: chunked", "Content-Length: 0", "Content-Length: 5"),
    "a folded length": hidden("Content-Length:", " 0"),
    "a length behind a null": hidden("X: a\x00", "Content-Length: 0"),
    "a bare line feed in a header": hidden("X: a\nContent-Length: 0", f"Content-Length: {len(SECOND)}"),
    "a bare carriage return": hidden("X: a\rContent-Length: 0", f"Content-Length: {len(SECOND)}"),
    "a chunk of negative size": hidden("Transfer-Encoding: chunked", body=b"-1\r\n" + SECOND),
    "a chunk's size in another base": hidden("Transfer-Encoding: chunked", body=b"0x5\r\n" + SECOND),
    "a chunk that is longer than it says": hidden(
        "Transfer-Encoding: chunked", body=b"2\r\nabcde\r\n0\r\n\r\n" + SECOND
    ),
}


@in_loop
async def test_no_request_is_smuggled_inside_another(tmp_path: Path) -> None:
    """Every attempt gets a single answer, and that answer is a client error."""
    async with process(tmp_path) as running:
        answers = await asyncio.gather(*(running.sent(raw) for raw in SMUGGLED.values()))
        for name, answer in zip(SMUGGLED, answers, strict=True):
            assert answer.startswith(b"HTTP/1.1 4"), (name, answer)
            assert answer.count(b"HTTP/1.1") == 1, (name, answer)
        assert running.triton.requests == []


@pytest.mark.parametrize("trailers", [b"x: a\r\n" * 100_000, b"x: " + b"a" * 600_000, b"5;" + b"a" * 600_000])
@in_loop
async def test_trailers_end_at_the_size_of_headers(trailers: bytes, tmp_path: Path) -> None:
    """A connection with 200 MiB of them held 4 GiB of the process (2026-11-27)."""
    content = json.dumps(chat()).encode()
    end = b"" if trailers[:2] == b"5;" else b"0\r\n"
    begun = hidden(
        "Connection: close", "Transfer-Encoding: chunked", body=b"%x\r\n%s\r\n%s" % (len(content), content, end)
    )
    async with process(tmp_path) as running:
        refused = await running.sent(begun + trailers)
        accepted = await running.sent(begun + (b"0\r\n" if not end else b"") + b"X-Sum: 5\r\n\r\n")
        models = [received.model for received in running.triton.requests]
    assert refused[:12] in (b"", b"HTTP/1.1 400"), "it is not waited for"
    assert accepted.startswith(b"HTTP/1.1 200")
    assert len(models) == 1


@in_loop
async def test_pipelined_requests_are_separated_and_a_refused_request_ends_the_connection(tmp_path: Path) -> None:
    """Bytes after a refused body are never read as a request."""
    good = SECOND.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with process(tmp_path) as running:
        assert (await running.sent(SECOND + good)).count(b"HTTP/1.1 200") == 2
        answer = await running.sent(hidden(f"Content-Length: {2**24 + 1}", body=SECOND))
        assert (answer[:12], answer.count(b"HTTP/1.1")) == (b"HTTP/1.1 413", 1)


@in_loop
async def test_a_client_that_sends_a_whole_oversized_body_reads_the_refusal(tmp_path: Path) -> None:
    """The gateway discards the body; it answers the next request of the connection."""
    good = SECOND.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    large = b" " * (15 * 2**20)
    async with process(tmp_path) as running:
        answer = await running.sent(hidden(f"Content-Length: {len(large)}", body=large) + good)
        assert (answer[:12], answer.count(b"HTTP/1.1 200")) == (b"HTTP/1.1 413", 1)


POISONED = [
    request().replace(b"Host: here", b"Host: " + EVIL.encode()),
    request(None, f"X-Forwarded-Host: {EVIL}", f"Forwarded: host={EVIL}", f"X-Original-URL: http://{EVIL}/metrics"),
    request().replace(b"POST /v1", f"POST http://{EVIL}/v1".encode()),
    request().replace(b"/v1/chat/completions", f"/v1/models/{EVIL}".encode()),
    b"GET / HTTP/1.1\r\nHost: " + EVIL.encode() + b"\r\nConnection: close\r\n\r\n",
]


@in_loop
async def test_a_forged_host_header_reaches_neither_answers_nor_servers(tmp_path: Path) -> None:
    async with process(tmp_path) as running:
        answers = await asyncio.gather(*(running.sent(attempt) for attempt in POISONED))
        assert all(EVIL.encode() not in answer for answer in answers)
        assert all(EVIL not in str(request) for request in running.triton.requests)


async def idle(running: Process, count: int) -> list[asyncio.StreamWriter]:
    """Opens this many connections that send nothing."""
    made: list[asyncio.StreamWriter] = []
    for _ in range(0, count, 100):
        made += [writer for _, writer in await asyncio.gather(*(running.connected() for _ in range(100)))]
    return made


@pytest.mark.parametrize(("most", "count"), [(50, 400), pytest.param(4096, 10_000, marks=pytest.mark.rehearsal)])
@in_loop
async def test_idle_connections_do_not_keep_new_clients_out(tmp_path: Path, most: int, count: int) -> None:
    """The process keeps at most its limit of connections, and answers a client that sends a request."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < count + 1000:
        pytest.skip(f"{count} connections need as many open files; this process may have {files}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    async with process(tmp_path, connections=most) as running:
        before = open_files(running)
        writers = await idle(running, count)
        assert (await running.sent(request())).startswith(b"HTTP/1.1 200")
        assert open_files(running) <= before + most + 20
        assert peak_mib(running) < 300
        for writer in writers:
            writer.transport.abort()


@in_loop
async def test_a_connection_with_a_running_request_is_not_closed_for_new_connections(tmp_path: Path) -> None:
    async with process(tmp_path, connections=20) as running:
        reader, writer = await running.connected()
        writer.write(HEAD.encode() + b"\r\nContent-Length: 200\r\nConnection: close\r\n\r\n")
        await idle(running, 100)
        body = json.dumps(chat()).encode()
        writer.write(body + b" " * (200 - len(body)))
        assert (await read_to_end(reader)).startswith(b"HTTP/1.1 200")


def open_files(running: Process) -> int:
    return len(os.listdir(f"/proc/{running.process.pid}/fd"))


def peak_mib(running: Process) -> int:
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


@in_loop
async def test_headers_sent_byte_by_byte_have_to_arrive_within_the_timeout(tmp_path: Path) -> None:
    async with process(tmp_path, header_seconds=1) as running:
        reader, writer = await running.connected()

        async def drip() -> None:
            with contextlib.suppress(ConnectionError):
                for byte in HEAD.encode() + b"\r\nX: " + b"x" * 10_000:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(0.05)

        dripping = asyncio.ensure_future(drip())
        assert await read_to_end(reader) == b""
        dripping.cancel()


GIB = 2**30


@in_loop
async def test_a_body_of_a_gibibyte_is_refused_before_it_is_received(tmp_path: Path) -> None:
    async with process(tmp_path) as running:
        assert await taken(running, chunked=True) < GIB // 8
        assert await taken(running, chunked=False) < GIB // 8
        assert peak_mib(running) < 300
        assert (await running.sent(request())).startswith(b"HTTP/1.1 200")


async def taken(running: Process, chunked: bool) -> int:
    """Returns the bytes of a body sent before the connection ended; a client may miss the 413 meanwhile."""
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {GIB}"
    part = b"100000\r\n" + b" " * 2**20 + b"\r\n" if chunked else b" " * 2**20
    reader, writer = await running.connected()
    sent = 0

    async def send() -> None:
        nonlocal sent
        with contextlib.suppress(ConnectionError):
            writer.write(hidden(framing, body=b""))
            while sent < GIB:
                writer.write(part)
                await writer.drain()
                sent += 2**20

    sending = asyncio.ensure_future(send())
    answer = await read_to_end(reader)
    sending.cancel()
    assert not answer or answer.startswith(b"HTTP/1.1 413")
    return sent


@in_loop
async def test_no_log_line_has_a_key_wherever_a_client_puts_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    misplaced = chat(user=KEY, model=KEY, messages=[{"role": KEY, "content": KEY, KEY: KEY}])
    attempts = [
        request().replace(b"/v1/chat/completions", f"/v1/{KEY}?api_key={KEY}".encode()),
        request(misplaced, f"X-Request-Id: {KEY}", f"traceparent: {KEY}", f"User-Agent: {KEY}", f"Cookie: {KEY}"),
        request({**chat(), KEY: KEY}),
        request(None).replace(b"Bearer", b"Basic"),
        request(None, f"{KEY}: {KEY}\x00"),
        request().replace(b"\r\n\r\n", b"\r\n\r\n" + KEY.encode()),
        KEY.encode() + b" / HTTP/1.1\r\n\r\n",
    ]
    async with process(tmp_path) as running:
        answers = [await running.sent(raw) for raw in attempts]
    printed = capfd.readouterr()
    unknown_field = answers.pop(2)  # the unknown field is ignored: the answer names it, and no log does
    assert not unknown_field.startswith(b"HTTP/1.1 4")
    assert all(answer.startswith(b"HTTP/1.1 4") for answer in answers)
    assert KEY not in printed.out + printed.err
    assert '"status":400' in printed.out


@in_loop
async def test_a_key_revoked_in_mid_stream_ends_the_stream(tmp_path: Path) -> None:
    """The process notices the changed key file without a signal."""
    async with process(tmp_path) as running:
        running.triton.script = Script(halts_after=1)
        reader, writer = await running.connected()
        writer.write(request(chat(stream=True)))
        await reader.readuntil(b"Hel")
        (tmp_path / "keys.json").write_text(json.dumps({"keys": [key_line(OTHER_KEY, "umbrella")]}))
        rest = await read_to_end(reader)
        await becomes(lambda: running.triton.running == 0)
        assert (await running.sent(request())).startswith(b"HTTP/1.1 401")
    assert b'"code": "invalid_api_key"' in rest and b"[DONE]" not in rest


@in_loop
async def test_a_length_of_very_many_digits_is_too_large(tmp_path: Path) -> None:
    """Python reads no number of 5,000 zeros; an error of the gateway's own would raise its alert."""
    async with running_gateway(tmp_path) as front:
        answer = await front.ask(CHAT, chat(), headers={"content-length": "0" * 5000 + "2"})
    assert answer.status == 413


def test_keys_are_compared_only_by_their_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a comparison reveals nothing: no client can choose a text whose digest begins like a key's."""
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [key_line(KEY, "acme")]}))
    keys, heard = Keys(str(file)), []
    keys.refresh()
    right = gateway.keys.digest_of(KEY.encode())
    monkeypatch.setattr(gateway.keys, "digest_of", lambda text: heard.append(text) or right)
    assert keys.holder(b"Bearer anything").tenant == "acme"
    monkeypatch.setattr(gateway.keys, "digest_of", lambda text: heard.append(text) or right[:-1] + "x")
    with pytest.raises(ApiError):
        keys.holder(f"Bearer {KEY}".encode())
    assert heard == [b"anything", KEY.encode()]
