"""Requests through a balancer; `python -m tests.roles.balancer.stories STORY` prints the outcome as JSON.

It is a separate process, because pyinfra's command line patches sockets and threads at its import, with which gRPC does
not work. More than 300 lines, because one process runs every story.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import grpc

from tests.roles.balancer.bench import PATIENCE_SECONDS, Bench, balancer, bench, exchange, unary, until
from tests.roles.balancer.standins import SERVICE, Host
from tests.unit.certificates import write_certificate


async def silent() -> dict[str, Any]:
    """Agents that are silent at first, and then answer."""
    async with bench(words="") as edge, edge.channel() as channel:
        first = edge.hosts[0]
        await until(lambda: all(host.counts["agent"] >= 6 for host in edge.hosts))
        before = [await edge.ask() for _ in range(20)]
        code = ""
        try:
            await channel.unary_unary(f"{SERVICE}ModelInfer")(b"x")
        except grpc.aio.AioRpcError as error:
            code = error.code().name
        questions = [sorted(host.counts) for host in edge.hosts]
        first.word = "ready"
        await until(edge.sent_to(first))
        after = {await edge.ask() for _ in range(20)}
        return {"before": sorted(set(before)), "grpc": code, "asked": questions, "after": sorted(after)}


async def drained() -> dict[str, Any]:
    """A host drains while unary requests use one connection and each host has an open stream."""
    async with bench() as edge, edge.channel() as channel:
        first = edge.hosts[0]
        streams = [channel.stream_stream(f"{SERVICE}ModelStreamInfer")() for _ in range(4)]
        for stream in streams:
            await stream.write(b"x")
        at = [(await stream.read()).decode() for stream in streams]
        answers = Counter([(await unary(channel)).decode() for _ in range(40)])
        first.word = "drain"
        await until(lambda: edge.states()["chat_http/h1.main"] == edge.states()["chat_grpc/h1.main"] == "DRAIN")
        before = first.requests
        later = Counter([(await unary(channel)).decode() for _ in range(40)])
        later.update([await edge.ask() for _ in range(40)])
        for stream in streams:
            await stream.write(b"y")
        still = [(await stream.read()).decode() for stream in streams]
        busy = balancer.sessions("chat_grpc/h1.main")
        for stream in streams:
            await stream.done_writing()
            await stream.read()
        await until(lambda: balancer.sessions("chat_grpc/h1.main") == 0)
        await until(lambda: first.open == 0)
        return {
            "hosts before": sorted(answers),
            "answers after": dict(later),
            "new at the drained": first.requests - before,
            "streams stay": at == still,
            "streams at the drained": at.count("h1"),
            "counted": busy,
        }


async def held() -> dict[str, Any]:
    """The only host is away for one to two seconds, during HTTP and gRPC requests."""
    async with bench(1, hold_seconds=PATIENCE_SECONDS) as edge, edge.channel() as channel:
        (host,) = edge.hosts
        answers: list[asyncio.Task[Any]] = []
        is_over = asyncio.Event()

        async def load() -> None:
            while not is_over.is_set():
                answers.append(asyncio.create_task(edge.ask()))
                answers.append(asyncio.create_task(_awaited(unary(channel))))
                await asyncio.sleep(0.02)

        loading = asyncio.create_task(load())
        host.word = "drain"
        await until(lambda: set(edge.states().values()) == {"DRAIN"})
        await until(lambda: balancer.sessions("chat_http/h1.main") + balancer.sessions("chat_grpc/h1.main") == 0)
        await host.stop()
        waiting = len(answers)
        await until(lambda: len(answers) - waiting >= 150)
        away = len(answers) - waiting
        await host.start()
        host.word = "ready"
        await until(edge.sent_to(host))
        is_over.set()
        await loading
        got = Counter(str(answer) for answer in await asyncio.gather(*answers, return_exceptions=True))
        return {"sent": len(answers), "while away": away, "answers": dict(got)}


async def paced() -> dict[str, Any]:
    """Twice the allowed number of requests in flight has waited when the only host becomes ready, on each port."""
    async with bench(1, words="drain", hold_seconds=PATIENCE_SECONDS) as edge, edge.channel() as channel:
        (host,) = edge.hosts
        await until(lambda: set(edge.states().values()) == {"DRAIN"})
        answers = list[asyncio.Task[str]]()
        for number in range(6):
            answers.append(asyncio.create_task(edge.ask(f"/gated/{number}")))
            await until(lambda: edge.waiting() == len(answers))
        streams = [channel.stream_stream(f"{SERVICE}ModelStreamInfer")() for _ in range(6)]
        for stream in streams:
            await stream.write(b"x")
        await until(lambda: edge.waiting("chat_h2") == 6)
        host.word = "ready"
        await until(lambda: len(host.gated) == host.counts["stream"] == 3)
        newcomers = {await edge.ask(), (await unary(channel)).decode()}
        queued = [edge.queued(f"chat_{kind}.held") for kind in ("http", "grpc")]
        at_once = [len(host.gated), host.counts["stream"]]
        for _ in range(3):
            before = len(host.gated)
            host.gate.release()
            await until(lambda before=before: len(host.gated) == before + 1)
        for _ in range(3):
            host.gate.release()
        for stream in streams:
            await stream.done_writing()
        answered_by = Counter(
            [*await asyncio.gather(*answers), *[(await stream.read()).decode() for stream in streams]]
        )
        order = [*sorted(host.gated[:3]), *host.gated[3:]]
        return {
            "newcomers": sorted(newcomers),
            "queued": queued,
            "at once": at_once,
            "order": order,
            "answers": dict(answered_by),
        }


async def forsaken() -> dict[str, Any]:
    """No host becomes ready while forty requests wait: one request is in flight, the others are in the queue."""
    async with bench(1, words="drain", hold_seconds=1, held_in_flight=1) as edge:
        await until(lambda: set(edge.states().values()) == {"DRAIN"})
        async with asyncio.timeout(PATIENCE_SECONDS):
            return dict(Counter(await asyncio.gather(*(edge.ask() for _ in range(40)))))


async def _awaited(call: Any) -> str:
    try:
        return str((await call).decode())
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {error.details()}"


async def encrypted() -> dict[str, Any]:
    """A balancer with a certificate: HTTP/1 over TLS, and gRPC over TLS."""
    with tempfile.TemporaryDirectory() as folder:
        file = write_certificate(Path(folder))
        file.with_suffix(".key").rename(f"{file}.key")
        async with bench(1, certificate=str(file)) as edge:
            trusting = ssl.create_default_context(cafile=str(file))
            trusting.set_alpn_protocols(["h2", "http/1.1"])
            credentials = grpc.ssl_channel_credentials(file.read_bytes())
            async with edge.channel(credentials) as channel:
                return {"http": await edge.ask(tls=trusting), "grpc": (await unary(channel)).decode()}


async def moving() -> dict[str, Any]:
    """A host joins and another leaves under load, by the configuration file and without a reload."""
    async with bench(2) as edge, edge.channel() as channel:
        answers: list[asyncio.Task[Any]] = []
        is_over = asyncio.Event()

        async def load() -> None:
            while not is_over.is_set():
                answers.append(asyncio.create_task(edge.ask()))
                answers.append(asyncio.create_task(_awaited(unary(channel))))
                await asyncio.sleep(0.01)

        loading = asyncio.create_task(load())
        first, second = edge.hosts
        third = await Host("h3").start()
        third.word = ""
        edge.hosts = [first, second, third]
        edge.write()
        joined = await asyncio.to_thread(lambda: [*balancer.differs(), *balancer.follow(), *balancer.differs()])
        await until(lambda: third.counts["agent"] >= 6)
        early = third.requests + third.counts["check"]
        third.word = "ready"
        await until(edge.sent_to(first, second, third))
        edge.hosts = [second, third]
        edge.write()
        left = await asyncio.to_thread(lambda: [*balancer.follow(), *balancer.differs()])
        await until(edge.sent_to(second, third))
        third.word = "drain"
        await until(edge.sent_to(second))
        is_over.set()
        await loading
        got = Counter(str(answer) for answer in await asyncio.gather(*answers, return_exceptions=True))
        return {"joined": joined, "left": left, "answered by": sorted(got), "before it spoke": early}


async def reloaded() -> dict[str, Any]:
    """A reload while one host is drained and silent, and another ready: both keep their state."""
    async with bench() as edge:
        first, second = edge.hosts
        first.word = "drain"
        await until(edge.sent_to(second))
        before = first.requests
        edge.hold_seconds = 5
        edge.write()
        first.word = ""  # it sends nothing to its successor
        done = await asyncio.to_thread(lambda: [*balancer.follow(), *balancer.differs()])
        answers = Counter([await edge.ask() for _ in range(50)])
        return {"done": done, "answers": dict(answers), "sent to the drained": first.requests - before}


async def spared() -> dict[str, Any]:
    """Clients on kept connections, across three reloads."""
    async with bench() as edge, edge.channel() as channel:
        got: Counter[str] = Counter()
        is_over = asyncio.Event()

        async def client() -> None:
            kept = None
            while not is_over.is_set():
                kept = kept or await asyncio.open_connection("127.0.0.1", edge.http_port)
                answer, is_last = await exchange(*kept, "/v2/models/llm/infer")
                got[answer] += 1
                if is_last:
                    kept[1].close()
                    kept = None
                got[(await unary(channel)).decode()] += 1

        clients = [asyncio.create_task(client()) for _ in range(5)]
        for hold_seconds in (1, 2, 3):
            edge.hold_seconds = hold_seconds
            edge.write()
            before = got.total()
            await asyncio.to_thread(lambda: list(balancer.follow()))
            await until(lambda before=before: got.total() >= before + 100)
        is_over.set()
        await asyncio.gather(*clients)
        return {"answers": sorted(got)}


async def crowded() -> dict[str, Any]:
    """A client address uses its whole allowance, a second address fills the ports, and a third address connects
    meanwhile."""
    async with bench(1, bounds=(8, 6)) as edge, edge.channel() as channel:
        answers, over_grpc = [await _or_closed(edge, "127.0.0.1") for _ in range(7)], await _awaited(unary(channel))
        where = {"port": edge.http_port, "local_addr": ("127.0.0.2", 0)}
        _open = [await asyncio.open_connection("127.0.0.1", **where) for _ in range(8)]
        await until(lambda: "conn_cur=8 " in balancer.answer_to("show table chat"))
        ninth, third = await _or_closed(edge, "127.0.0.2"), await _or_closed(edge, "127.0.0.3")
        return {"requests": answers, "over gRPC": over_grpc, "a ninth connection": ninth, "of another": third}


async def _or_closed(edge: Bench, address: str) -> str:
    """The answer to a client of this address, or a note that its connection was closed."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.http_port, local_addr=(address, 0))
        return (await exchange(reader, writer, "/v2/models/llm/infer"))[0]
    except (ConnectionError, IndexError):
        return "closed"


async def abandoned() -> dict[str, Any]:
    """Clients that disconnect: during an answer, while their request is held, and while it is in the queue."""
    async with bench(1, hold_seconds=PATIENCE_SECONDS, held_in_flight=1) as edge:
        (host,) = edge.hosts
        waiting = asyncio.create_task(edge.ask("/never"))
        await until(lambda: host.counts["http"] == 1)
        waiting.cancel()
        await until(lambda: host.left == 1)
        host.word = "drain"
        await until(lambda: set(edge.states().values()) == {"DRAIN"})
        held = asyncio.create_task(edge.ask())
        await until(lambda: edge.waiting() == 1)
        queued, staying = asyncio.create_task(edge.ask()), asyncio.create_task(edge.ask())
        await until(lambda: edge.queued("chat_http.held") == 2)
        queued.cancel()
        await until(lambda: edge.waiting() == 2)
        held.cancel()
        await until(lambda: edge.waiting() == 1)
        sent = host.requests
        host.word = "ready"
        return {"answer": await staying, "sent when ready": host.requests - sent}


STORIES = {
    story.__name__: story
    for story in (silent, drained, held, paced, forsaken, encrypted, moving, reloaded, spared, crowded, abandoned)
}

if __name__ == "__main__":
    os.environ.pop("NOTIFY_SOCKET", None)
    print(json.dumps(asyncio.run(STORIES[sys.argv[1]]())))
