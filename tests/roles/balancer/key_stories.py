"""Requests at KServe's ports that require keys: `python -m tests.roles.balancer.key_stories` prints JSON."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from dataclasses import replace
from typing import Any

import grpc

from deploy.inventory.gateway_keys import GatewayKey
from tests.roles.balancer.bench import Bench, balancer, bench, until
from tests.roles.balancer.standins import SERVICE

BOTH = ("llm", "reranker")
"""The models of the pool."""


def key(text: str, models: tuple[str, ...] = ("*",), **limits: int) -> GatewayKey:
    """The line of a key."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return GatewayKey(sha256=digest, prefix=text[:9], tenant="t", models=models, created=0, **limits)


KEYS = (
    key("everything"),
    key("both-models", BOTH),
    key("one-model", ("llm",)),
    key("tokens", tokens_per_minute=1000),
    key("over", expires=1),
    key("later", expires=4102444800),
    key("three-a-minute", requests_per_minute=3),
    key("one-at-once", concurrent=1),
    key("later-limited"),
)
MANY = tuple(key(f"key-{number}") for number in range(500))
"""Number of keys that do not fit into one command to HAProxy."""


async def http(edge: Bench, text: str | None, path: str = "/v2/models/llm/infer") -> tuple[int, str]:
    """Status and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", edge.http_port)
    header = f"Authorization: Bearer {text}\r\n" if text else ""
    writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\n{header}Content-Length: 4\r\n\r\nbody".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next(int(row.split(":")[1]) for row in head.splitlines() if row.startswith("content-length"))
    body = (await reader.readexactly(length)).decode()
    writer.close()
    return int(head.split()[1]), body


async def over_grpc(channel: Any, text: str | None) -> str:
    """The answer, or the code of the error and the first words of its details."""
    metadata = (("authorization", f"Bearer {text}"),) if text else ()
    try:
        answer: bytes = await channel.unary_unary(f"{SERVICE}ModelInfer")(b"x", metadata=metadata)
        return answer.decode()
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {' '.join(str(error.details()).split()[:3])}"


def stream(channel: Any, text: str) -> Any:
    """ModelStreamInfer under a key."""
    return channel.stream_stream(f"{SERVICE}ModelStreamInfer")(metadata=(("authorization", f"Bearer {text}"),))


async def heard(call: Any) -> str:
    """The next answer of a stream, or its error and the last words of the details."""
    try:
        await call.write(b"x")
        return str((await call.read()).decode())
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return f"{(await call.code()).name}: {' '.join(str(await call.details()).split()[-7:])}"


async def running() -> dict[str, Any]:
    """Keys lose their rights, one after the other, while their requests are open."""
    async with bench(1, keys=KEYS) as edge, edge.channel() as channel:
        refused = {name: await heard(stream(channel, name)) for name in ("three-a-minute", "one-at-once", "later")}
        names = ("everything", "both-models", "later-limited")
        streams = {name: stream(channel, name) for name in names}
        begun = {name: await heard(call) for name, call in streams.items()}
        waiting = asyncio.create_task(http(edge, "everything", "/never"))
        kept = asyncio.create_task(http(edge, "both-models", "/never"))
        await until(lambda: edge.hosts[0].counts["http"] == 2)
        limited = replace(KEYS[-1], concurrent=1)
        edge.keys = (*KEYS[1:-1], limited)
        edge.write()
        done = await asyncio.to_thread(lambda: [*balancer.keys(), *balancer.differs()])
        after = {name: await heard(call) for name, call in streams.items()}
        again = await heard(stream(channel, "everything"))
        # HAProxy 2.6 answers 502, 3.0 closes the connection.
        (cut,) = await asyncio.gather(waiting, return_exceptions=True)
        is_cut, goes_on = isinstance(cut, asyncio.IncompleteReadError) or cut[0] == 502, not kept.done()
        kept.cancel()
        return {
            "refused": [words.partition(":")[0] for words in refused.values()],
            "words": sorted({words.partition(":")[2] for words in refused.values() if words.startswith("PERM")}),
            "begun": begun,
            "done": done,
            "after": {name: words.partition(":")[0] for name, words in after.items()},
            "again": again.partition(":")[0],
            "cut": is_cut,
            "goes on": goes_on,
            "streams at Triton": edge.hosts[0].counts["stream"],
        }


async def reloaded() -> dict[str, Any]:
    """A key is revoked while its stream and another key's are open in the process from before a reload."""
    async with bench(1, keys=KEYS) as edge, edge.channel() as channel:
        streams = {name: stream(channel, name) for name in ("everything", "both-models")}
        begun = [await heard(call) for call in streams.values()]
        edge.bounds = (4096, 0)
        edge.write()
        done = await asyncio.to_thread(lambda: list(balancer.follow()))
        still = [await heard(call) for call in streams.values()]
        edge.keys = KEYS[1:]
        edge.write()
        done += await asyncio.to_thread(lambda: [*balancer.keys(), *balancer.differs()])
        after = [(await heard(call)).partition(":")[0] for call in streams.values()]
        return {"begun": begun, "done": done, "still": still, "after": after}


async def checked() -> dict[str, Any]:
    """Statuses and error texts of every key on both protocols, before and after keys were revoked and added."""
    async with bench(1, keys=KEYS) as edge, edge.channel() as channel:
        (host,) = edge.hosts
        names = (None, "nobody's", "everything", "both-models", "one-model", "tokens", "over", "later")
        statuses = {
            str(name): [(await http(edge, name))[0], (await over_grpc(channel, name)).partition(":")[0]]
            for name in names
        }
        body = json.loads((await http(edge, "nobody's"))[1])
        words = await over_grpc(channel, "nobody's")
        sent = host.requests
        minute = [(await http(edge, "three-a-minute"))[0] for _ in range(4)]
        minute_of_grpc = await over_grpc(channel, "three-a-minute")
        waiting = asyncio.create_task(http(edge, "one-at-once", "/never"))
        while host.requests == sent + 3:
            await asyncio.sleep(0.01)
        at_once = [(await http(edge, "one-at-once"))[0], await over_grpc(channel, "one-at-once")]
        waiting.cancel()
        before = balancer.answer_to("show info")
        edge.keys = (*KEYS[1:], *MANY)
        edge.write()
        differs = list(await asyncio.to_thread(lambda: list(balancer.differs())))
        done = await asyncio.to_thread(lambda: [*balancer.keys(), *balancer.keys(), *balancer.differs()])
        revoked = [(await http(edge, "everything"))[0], (await over_grpc(channel, "everything")).partition(":")[0]]
        new = [(await http(edge, "key-499"))[0], await over_grpc(channel, "key-0")]
        return {
            "found": statuses,
            "in KServe's shape": sorted(body),
            "over gRPC": words,
            "a minute": [*minute, minute_of_grpc],
            "at once": at_once,
            "keys told to Triton": host.told_keys,
            "differs": differs,
            "done": done,
            "revoked": revoked,
            "new": new,
            "other process": _pid(before) != _pid(balancer.answer_to("show info")),
        }


def _pid(info: str) -> str:
    return next(row for row in info.splitlines() if row.startswith("Pid:"))


if __name__ == "__main__":
    os.environ.pop("NOTIFY_SOCKET", None)
    print(json.dumps(asyncio.run(checked()) | {"running": asyncio.run(running()), "reloaded": asyncio.run(reloaded())}))
