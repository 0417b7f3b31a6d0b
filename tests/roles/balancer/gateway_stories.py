"""Balanced requests for gateways: `python -m tests.roles.balancer.gateway_stories STORY` prints JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from tests.roles.balancer.bench import PATIENCE_SECONDS, Bench, balancer, bench, until
from tests.roles.balancer.gateways import connection, give_gateways, response_to, sent_to_gateways, trusting
from tests.roles.balancer.standins import SERVICE
from tests.unit.certificates import write_certificate

ASK = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def certificate(folder: Path, name: str = "edge") -> Path:
    """A certificate in the place where HAProxy finds its key beside it."""
    pem = write_certificate(folder, name)
    pem.with_suffix(".key").rename(f"{pem}.key")
    return pem


@contextlib.asynccontextmanager
async def front(count: int = 2, **how: Any) -> AsyncIterator[tuple[Bench, Path]]:
    """A balancer before gateways, and its certificate."""
    with tempfile.TemporaryDirectory() as folder:
        pem = certificate(Path(folder))
        async with bench(count, certificate=str(pem), prepare=give_gateways, **how) as edge:
            await sent_to_gateways(edge, *edge.hosts)
            yield edge, pem


async def lone_response(edge: Bench, pem: Path, request: str) -> str:
    """Name of the gateway that answers while no other request is open: an overloaded gateway would lose the session."""
    await until(lambda: edge.in_flight("chat_gateway") == 0)
    return (await response_to(edge, pem, request))[1]


async def balanced(edge: Bench, pem: Path) -> dict[str, Any]:
    """The first host drains; then the second host's gateway stops."""
    first, second = edge.hosts
    before = Counter([(await response_to(edge, pem, ASK))[1] for _ in range(20)])
    sessions = [ASK.replace("\r\n\r\n", f"\r\nX-Session-Affinity: {number}\r\n\r\n", 1) for number in range(10)]
    homes = [{await lone_response(edge, pem, session) for _ in range(5)} for session in sessions]
    first.word = "drain"
    await sent_to_gateways(edge, second)
    drained = Counter([(await response_to(edge, pem, ASK))[1] for _ in range(20)])
    first.word = "ready"
    await sent_to_gateways(edge, first, second)
    second.gateway.stops = True
    await sent_to_gateways(edge, first)
    stopped = Counter([(await response_to(edge, pem, ASK))[1] for _ in range(20)])
    return {
        "before": sorted(before),
        "homes of a session": max(map(len, homes)),
        "drained": sorted(drained),
        "stopped": sorted(stopped),
    }


async def strict(edge: Bench, pem: Path) -> dict[str, Any]:
    """Requests that two programs could interpret differently, unknown pages, and headers of clients."""
    post = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
    requests = {
        "length and encoding": f"{post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "encoding and length": f"{post}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        "two lengths": f"{post}Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        "strange encoding": f"{post}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "64 KiB of headers": f"GET / HTTP/1.1\r\nHost: x\r\nX: {'a' * 65536}\r\n\r\n",
        "metrics": "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        "metrics written otherwise": "GET /%6detrics?a=b HTTP/1.1\r\nHost: x\r\n\r\n",
        "health": "GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
    }
    answers = {name: await response_to(edge, pem, text) for name, text in requests.items()}
    seen = len(edge.hosts[0].gateway.heads)
    named = ("Traceparent: 00-1", "X-Request-Id: mine", "Forwarded: for=1.2.3.4", "X-Forwarded-For: 1.2.3.4")
    spoken = "\r\n".join(["GET / HTTP/1.1", "Host: x", *named, "X-Forwarded-Proto: http", "Authorization: Bearer k"])
    await response_to(edge, pem, f"{spoken}\r\n\r\n")
    head = edge.hosts[0].gateway.heads[-1]
    return {
        "statuses": {name: status for name, (status, _) in answers.items()},
        "in their dialect": sorted(name for name, (_, body) in answers.items() if _is_openais(body)),
        "sent on": seen,
        "headers sent on": sorted(line.split(":")[0] for line in head.splitlines()[1:] if line),
    }


def _is_openais(body: str) -> bool:
    try:
        return set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
    except (ValueError, TypeError, KeyError):
        return False


async def left(edge: Bench, pem: Path) -> dict[str, Any]:
    """A client that disconnects while it waits for a whole answer."""
    gateway = edge.hosts[0].gateway
    async with connection(edge, pem) as (_, writer):
        writer.write(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: "/never" in gateway.heads[-1])
        before = gateway.left
    await until(lambda: gateway.left == 1)
    return {"before it left": before, "after": gateway.left}


async def renewed(edge: Bench, pem: Path) -> dict[str, Any]:
    """A new certificate while an answer streams: the stream continues, and new clients get the new certificate."""
    gateway = edge.hosts[0].gateway
    async with connection(edge, pem) as (reader, writer):
        writer.write(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        gateway.go.release()
        await reader.readuntil(b"data: h1\n\n")
        new = certificate(edge.folder, "new")
        edge.certificate = str(new)
        edge.write()
        done = await asyncio.to_thread(lambda: [*balancer.follow(), *balancer.differs()])
        await sent_to_gateways(edge, *edge.hosts)
        answer = await response_to(edge, new, ASK)
        gateway.go.release()
        await reader.readuntil(b"data: h1\n\n")
    return {"done": done, "with the new certificate": answer[1], "events after the reload": 1}


async def held(edge: Bench, pem: Path) -> dict[str, Any]:
    """The only host is away: a request waits, or without a wait gets an error in its dialect."""
    (host,), pem = edge.hosts, Path(edge.certificate)
    host.word = "drain"
    await sent_to_gateways(edge)
    waiting = asyncio.create_task(response_to(edge, pem, ASK))
    await until(lambda: sum("fe=chat.gateway " in row for row in balancer.answer_to("show sess").splitlines()) == 1)
    host.word = "ready"
    answer = await waiting
    edge.hold_seconds = 0
    edge.write()
    await asyncio.to_thread(lambda: list(balancer.follow()))
    host.word = "drain"
    await sent_to_gateways(edge)
    status, body = await response_to(edge, pem, ASK)
    health, _ = await response_to(edge, pem, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    return {"answer": answer[1], "status": status, "in its dialect": _is_openais(body), "health": health}


async def shown() -> dict[str, Any]:
    """Client certificates at each port: none, a foreign one, and a signed one."""
    with tempfile.TemporaryDirectory() as made:
        edge_pem, signed, strange = (certificate(Path(made), name) for name in ("edge", "client", "stranger"))
        answers: dict[str, Any] = {}
        async with bench(1, certificate=str(edge_pem), clients=str(signed), prepare=give_gateways) as edge:
            await sent_to_gateways(edge, *edge.hosts)
            for who, mine in (("nobody", None), ("stranger", strange), ("client", signed)):
                pair = [file.read_bytes() for file in (Path(f"{mine}.key"), mine)] if mine else []
                answers[who] = [
                    await _or_error(edge.ask(tls=_speaking(edge_pem, mine))),
                    await _asked_over_grpc(edge, grpc.ssl_channel_credentials(edge_pem.read_bytes(), *pair)),
                    *await _or_error(response_to(edge, edge_pem, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", mine)),
                ]
            answers["health"] = (await response_to(edge, edge_pem, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"))[0]
        return {"shown": answers}


def _speaking(edge: Path, mine: Path | None) -> ssl.SSLContext:
    context = trusting(edge)
    if mine:
        context.load_cert_chain(mine, f"{mine}.key")
    return context


async def _or_error(answer: Any) -> Any:
    try:
        return await answer
    except (OSError, asyncio.IncompleteReadError, IndexError):
        return ["refused"]


async def _asked_over_grpc(edge: Bench, credentials: Any) -> str:
    async with edge.channel(credentials) as channel:
        try:
            return (await channel.unary_unary(f"{SERVICE}ModelInfer")(b"x", timeout=PATIENCE_SECONDS)).decode()
        except grpc.RpcError as error:
            return error.code().name


async def pair() -> dict[str, Any]:
    """The stories of two hosts."""
    async with front(2) as (edge, pem):
        return {"balanced": await balanced(edge, pem)}


async def alone() -> dict[str, Any]:
    """The stories of a single host, and of requests that wait for it."""
    async with front(1, hold_seconds=20) as (edge, pem):
        return {story.__name__: await story(edge, pem) for story in (strict, left, renewed, held)}


STORIES = {story.__name__: story for story in (pair, alone, shown)}

if __name__ == "__main__":
    os.environ.pop("NOTIFY_SOCKET", None)
    print(json.dumps(asyncio.run(STORIES[sys.argv[1]]())))
