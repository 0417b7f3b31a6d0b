"""A broken or compromised engine: requests end in time and in bounds, and its text reaches no client or log."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.gateway.asking import CHAT, Answer, RunningGateway, chat, in_loop, opened, running_gateway

SECRET = b"words of the engine"
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], "asyncio.Future[None] | None"]


def event(value: object) -> bytes:
    """Returns a chunk with an event of a stream."""
    data = b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def text(index: object = 0, content: object = "a", finish: object = None, **more: object) -> dict[str, object]:
    """Returns an event of one choice."""
    return {"choices": [{"index": index, "text": content, "finish_reason": finish, **more}]}


def body(value: object) -> bytes:
    """Returns a complete answer."""
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return OK + f"content-length: {len(content)}\r\n\r\n".encode() + content


END = event(b"[DONE]") + b"0\r\n\r\n"
USAGE = event({"choices": [], "usage": {"completion_tokens": 1}})
BAD_STREAMS = {
    "no HTTP": SECRET * 4 + b"\r\n\r\n",
    "another status line": b"HTTP/9.9 200 " + SECRET + b"\r\n\r\n",
    "a header without a name": OK + SECRET + b"\r\n\r\n",
    "two lengths": OK + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab",
    "chunks and a length": OK + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\nabc",
    "another encoding": OK + b"transfer-encoding: gzip, chunked\r\n\r\n",
    "no length": OK + b"\r\n" + event(text(finish="stop")),
    "a chunk of no size": CHUNKED + b"xyz\r\n",
    "a chunk of a huge size": CHUNKED + b"fffffffff\r\n",
    "a negative chunk": CHUNKED + b"-1\r\n",
    "a chunk longer than said": CHUNKED + b"1\r\nabc\r\n",
    "no JSON": CHUNKED + event(SECRET) + END,
    "nested JSON": CHUNKED + event(b"[" * 100_000) + END,
    "no object": CHUNKED + event([1]) + END,
    "no choices": CHUNKED + event({"x": 1}) + END,
    "too many choices": CHUNKED + event({"choices": [{}] * 9}) + END,
    "a choice of no form": CHUNKED + event({"choices": [3]}) + END,
    "a sequence of nobody": CHUNKED + event(text(7)) + END,
    "a sequence that is no number": CHUNKED + event(text("0")) + END,
    "a text that is none": CHUNKED + event(text(content={"a": 1})) + END,
    "an unknown finish": CHUNKED + event(text(finish="secret")) + USAGE + END,
    "more after the finish": CHUNKED + event(text(finish="stop")) + event(text()) + USAGE + END,
    "ids that are none": CHUNKED + event(text(token_ids=["a"])) + END,
    "no usage": CHUNKED + event(text(finish="stop")) + END,
    "a usage of no numbers": CHUNKED + event(text(finish="stop")) + event({"choices": [], "usage": {"a": 1}}) + END,
    "a negative usage": CHUNKED
    + event(text(finish="stop"))
    + event({"choices": [], "usage": {"completion_tokens": -5}})
    + END,
    "no finish": CHUNKED + event(text()) + USAGE + END,
    "no end mark": CHUNKED + event(text(finish="stop")) + USAGE + b"0\r\n\r\n",
    "cut in a chunk": CHUNKED + event(text())[:-9],
    "cut between chunks": CHUNKED + event(text()),
    "cut in its head": OK + b"content-",
    "an error of no form": CHUNKED + event({"error": "words of the engine"}) + END,
    "an error's code that is none": CHUNKED + event({"error": {"code": "x", "message": "words of the engine"}}) + END,
    "trailers": CHUNKED
    + event(text(finish="stop"))
    + USAGE
    + event(b"[DONE]")
    + b"0\r\n"
    + b"a: b\r\n" * 9000
    + b"\r\n",
}
BAD_BODIES = {
    "no JSON": body(SECRET),
    "no choices": body({"usage": {"completion_tokens": 1}}),
    "no usage": body(text(finish="stop")),
    "a cut": body({**text(finish="stop"), "usage": {"completion_tokens": 1}})[:-4],
    "half a character's text alone": body({"choices": [{"index": 0, "text": 5}], "usage": {}}),
    "an error of the engine": b"HTTP/1.1 400 Bad\r\ncontent-length: 19\r\n\r\n" + SECRET,
    "an empty error": b"HTTP/1.1 500 \r\ncontent-length: 0\r\n\r\n",
    "a redirect": b"HTTP/1.1 302 Found\r\nlocation: http://elsewhere\r\ncontent-length: 0\r\n\r\n",
    "notices without an end": b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
}


@contextlib.asynccontextmanager
async def before(
    folder: Path, play: bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]
) -> AsyncIterator[RunningGateway]:
    """Yields a gateway before a server that answers every request with these bytes or this behaviour."""
    tasks: set[asyncio.Task[object]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task:
            tasks.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET"):
                writer.write(OK + b"content-length: 0\r\nconnection: close\r\n\r\n")
            elif isinstance(play, bytes):
                writer.write(play)
            else:
                await play(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            if task:
                tasks.discard(task)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with running_gateway(folder, has_keys=False) as front:
        settings_read = json.loads(front.settings_file.read_text())
    port = server.sockets[0].getsockname()[1]
    settings_read["servers"] = {"host-0/engine": {"http": f"127.0.0.1:{port}", "runtime": "vllm"}}
    settings_read["models"] = {"llama": settings_read["models"]["llama"] | {"servers": ["host-0/engine"]}}
    settings_read["aliases"], settings_read["limits"] = {}, {"request_seconds": 2}
    try:
        async with opened(folder, settings_read) as app:
            yield RunningGateway(app, app.gateway, [], front.settings_file, front.keys_file)
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def judge(answer: Answer, capsys: pytest.CaptureFixture[str]) -> None:
    """Asserts that the client gets an error, and that the engine's text appears nowhere."""
    error = (answer.json() if answer.status != 200 else answer.events[-1])["error"]
    assert error["code"] in ("upstream_error", "unavailable", "timeout", None)
    written = capsys.readouterr()
    heard = answer.body.decode() + written.out + written.err
    assert SECRET.decode() not in heard and "internal_error" not in heard


@pytest.mark.parametrize("name", BAD_STREAMS)
@in_loop
async def test_a_malformed_stream_ends_in_an_error(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with before(tmp_path, BAD_STREAMS[name]) as front:
        answer = await front.chat(stream=True)
    judge(answer, capsys)


@pytest.mark.parametrize("name", BAD_BODIES)
@in_loop
async def test_a_malformed_answer_ends_in_an_error(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with before(tmp_path, BAD_BODIES[name]) as front:
        answer = await front.chat()
    judge(answer, capsys)


async def endless_line(writer: asyncio.StreamWriter) -> None:
    """Sends an event that never ends."""
    writer.write(CHUNKED)
    while True:
        writer.write(b"10000\r\ndata: " + b"a" * (65536 - 6) + b"\r\n")
        await writer.drain()


async def endless_head(writer: asyncio.StreamWriter) -> None:
    """Sends headers without an end."""
    writer.write(OK)
    while True:
        writer.write(b"a: " + b"b" * 1000 + b"\r\n")
        await writer.drain()


async def endless_size(writer: asyncio.StreamWriter) -> None:
    """Sends the length of a chunk, without an end."""
    writer.write(CHUNKED)
    while True:
        writer.write(b"0" * 65536)
        await writer.drain()


async def silence(writer: asyncio.StreamWriter) -> None:
    """Sends no byte of an answer."""
    await asyncio.sleep(60)


async def silence_after_one(writer: asyncio.StreamWriter) -> None:
    """Sends an event and then no more bytes."""
    writer.write(CHUNKED + event(text()))
    await asyncio.sleep(60)


async def comments(writer: asyncio.StreamWriter) -> None:
    """Sends comments instead of events, forever."""
    writer.write(CHUNKED)
    while True:
        writer.write(b"4\r\n: x\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("play", [endless_line, endless_head, endless_size, silence, silence_after_one, comments])
@in_loop
async def test_an_engine_answer_without_an_end_is_abandoned_in_time(
    play: Callable[[asyncio.StreamWriter], Awaitable[None]],
    stream: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with before(tmp_path, play) as front:
        answer = await asyncio.wait_for(front.ask(CHAT, chat(stream=stream)), 30)
    judge(answer, capsys)


@in_loop
async def test_a_lone_surrogate_becomes_a_readable_character(tmp_path: Path) -> None:
    spoken = body({**text(content="a\ud83d", finish="stop"), "usage": {"completion_tokens": 1}})
    async with before(tmp_path, spoken) as front:
        answer = await front.chat()
    assert answer.json()["choices"][0]["message"]["content"] == "a?"
