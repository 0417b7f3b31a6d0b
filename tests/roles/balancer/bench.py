"""The real HAProxy over loopback, before stand-ins of hosts: `python -m tests.roles.balancer.bench STORY` prints JSON.

A process of its own: pyinfra's command line patches sockets and threads where it is imported, which gRPC cannot bear.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc

from deploy.slice_traffic import BalancerSlice, MemberSlice, RouteSlice
from roles.balancer.config import config, everything
from roles.balancer.paths import Places
from roles.texts import HERE
from tests.roles.balancer.standins import SERVICE, Host
from tests.unit.certificates import write_certificate

sys.path.insert(0, str(HERE / "files"))
from host import balancer, places

PATIENCE_SECONDS = 20
HAPROXY = os.environ.get("ENGINEHOUSE_HAPROXY", "haproxy")


class Bench:
    """A balancer with pool `chat`; its configuration, process and clients. Ports are the kernel's choice."""

    def __init__(self, folder: Path, hosts: list[Host], hold_seconds: int = 0, certificate: str = "") -> None:
        self.folder, self.hosts, self.hold_seconds, self.certificate = folder, hosts, hold_seconds, certificate
        self.http_port, self.grpc_port, self.metrics_port = free_ports(3)
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "balancer").mkdir()
        (folder / "balancer" / "hold.lua").write_text((HERE / "files/balancer/hold.lua").read_text())
        places.SETTINGS = places.RUNTIME = folder
        setattr(balancer, "HAPROXY", HAPROXY)  # noqa: B010
        setattr(balancer, "active_states", lambda _: ["active"])  # noqa: B010
        setattr(balancer, "systemctl", self.systemctl)  # noqa: B010

    def write(self) -> None:
        """The configuration file has the hosts of now."""
        members = tuple(
            MemberSlice(
                name=f"{host.name}.main",
                server="main",
                address="127.0.0.1",
                http_port=host.http_port,
                grpc_port=host.grpc_port,
                agent_address="127.0.0.1",
                agent_port=host.agent_port,
                models=("llm", "reranker"),
            )
            for host in self.hosts
        )
        route = RouteSlice(
            pool="chat",
            http_port=self.http_port,
            grpc_port=self.grpc_port,
            hold_seconds=self.hold_seconds,
            members=members,
        )
        mine = BalancerSlice(
            host="edge",
            os="debian-12",
            haproxy=version(),
            address="127.0.0.1",
            metrics_port=self.metrics_port,
            certificate="",
            certificate_key=None,
            routes=(route,),
        )
        where = str(self.folder / "balancer")
        text = config(mine, everything(mine), self.certificate, Places(settings=where, run=where, user=""))
        balancer.file().write_text(text)

    def start(self) -> None:
        """HAProxy runs, and knows nothing of its hosts yet."""
        (self.folder / "balancer" / "state").write_text("1\n")
        self.process = subprocess.Popen([HAPROXY, "-W", "-f", balancer.file()], stderr=subprocess.DEVNULL)

    def systemctl(self, verb: str, _unit: str) -> int:
        """What the unit does at a reload."""
        assert self.process
        if verb == "reload":
            list(balancer.remember())
            self.process.send_signal(signal.SIGUSR2)
        return 0

    def states(self) -> dict[str, str]:
        """The state of each line, as the exporter and a person see it."""
        rows = [row.split(",") for row in balancer.asked("show stat").splitlines()]
        at = rows[0].index("status")
        lines = [row for row in rows[1:] if len(row) > at and row[1] not in ("FRONTEND", "BACKEND")]
        return {f"{row[0]}/{row[1]}": row[at].partition(" ")[0] for row in lines}

    def sent_to(self, *hosts: Host) -> Callable[[], bool]:
        """True once exactly these get new requests."""
        wanted = {f"{host.name}.main" for host in hosts}

        def holds() -> bool:
            up = [line.split("/")[1] for line, state in self.states().items() if state == "UP"]
            return sorted(up) == sorted([*wanted, *wanted])

        return holds

    async def ask(self, path: str = "/v2/models/llm/infer", tls: ssl.SSLContext | None = None) -> str:
        """The host that answered, or the status that HAProxy answered; a connection of its own."""
        name = "localhost" if tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.http_port, ssl=tls, server_hostname=name)
        try:
            return (await exchange(reader, writer, path))[0]
        finally:
            writer.close()

    @contextlib.asynccontextmanager
    async def channel(self, credentials: Any = None) -> AsyncIterator[Any]:
        """One long connection of a gRPC client."""
        place = f"127.0.0.1:{self.grpc_port}"
        options = [("grpc.ssl_target_name_override", "localhost")]
        opened = (
            grpc.aio.secure_channel(place, credentials, options=options)
            if credentials
            else grpc.aio.insecure_channel(place)
        )
        async with opened:
            yield opened


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> tuple[str, bool]:
    """What answered, as `Bench.ask` says it; and True if the connection ends with it."""
    writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody".encode())
    await writer.drain()
    status = (await reader.readline()).split()[1].decode()
    headers = {}
    while line := (await reader.readline()).decode().strip().lower():
        name, _, value = line.partition(":")
        headers[name] = value.strip()
    text = (await reader.readexactly(int(headers.get("content-length", 0)))).decode()
    return text if status == "200" else status, headers.get("connection") == "close"


def version() -> str:
    """The branch of this machine's HAProxy."""
    said = subprocess.run([HAPROXY, "-v"], capture_output=True, text=True, check=True).stdout
    return ".".join(said.split()[2].split(".")[:2])


def unary(channel: Any) -> Any:
    """ModelInfer; awaited, the name of the host that answered."""
    return channel.unary_unary(f"{SERVICE}ModelInfer")(b"x", wait_for_ready=True)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


async def until(holds: Callable[[], bool]) -> None:
    """Nothing is returned once it holds. Raises: TimeoutError."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with contextlib.suppress(OSError):
                if holds():
                    return
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def bench(count: int = 2, words: str = "ready", **how: Any) -> AsyncIterator[Bench]:
    """A balancer that runs, and hosts h1, h2 … whose agents say `words`."""
    hosts = [await Host(f"h{number}").start() for number in range(1, count + 1)]
    for host in hosts:
        host.word = words
    with tempfile.TemporaryDirectory() as folder:
        made = Bench(Path(folder), hosts, **how)
        made.write()
        made.start()
        assert made.process
        try:
            await until(lambda: bool(made.states()))
            if words == "ready":
                await until(made.sent_to(*hosts))
            yield made
        finally:
            made.process.terminate()
            made.process.wait()
            for host in {*hosts, *made.hosts}:
                await host.stop()


async def silent() -> dict[str, Any]:
    """Agents that say nothing, then speak."""
    async with bench(words="") as edge, edge.channel() as channel:
        first = edge.hosts[0]
        await until(lambda: all(host.asked["agent"] >= 6 for host in edge.hosts))
        before = [await edge.ask() for _ in range(20)]
        code = ""
        try:
            await channel.unary_unary(f"{SERVICE}ModelInfer")(b"x")
        except grpc.aio.AioRpcError as error:
            code = error.code().name
        asked = [sorted(host.asked) for host in edge.hosts]
        first.word = "ready"
        await until(edge.sent_to(first))
        after = {await edge.ask() for _ in range(20)}
        return {"before": sorted(set(before)), "grpc": code, "asked": asked, "after": sorted(after)}


async def drained() -> dict[str, Any]:
    """One host drains, under unary requests on one connection and beside a stream on each host."""
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
    """The only host is away for one to two seconds, under HTTP and gRPC requests."""
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


async def _awaited(call: Any) -> str:
    return (await call).decode()


async def encrypted() -> dict[str, Any]:
    """A certificate: HTTP/1 over TLS, and gRPC over TLS."""
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
    """A host joins and another leaves while requests go on, by the file and without a reload."""
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
        await until(lambda: third.asked["agent"] >= 6)
        early = third.requests + third.asked["check"]
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
    """A reload while one host is drained and silent, another ready: both stay what they were."""
    async with bench() as edge:
        first, second = edge.hosts
        first.word = "drain"
        await until(edge.sent_to(second))
        before = first.requests
        edge.hold_seconds = 5
        edge.write()
        first.word = ""  # it says nothing to the process that comes
        done = await asyncio.to_thread(lambda: [*balancer.follow(), *balancer.differs()])
        answers = Counter([await edge.ask() for _ in range(50)])
        return {"done": done, "answers": dict(answers), "sent to the drained": first.requests - before}


async def spared() -> dict[str, Any]:
    """Clients on connections that they keep, across three reloads."""
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
            await until(lambda before=before: got.total() >= before + 100)  # type: ignore[misc]
        is_over.set()
        await asyncio.gather(*clients)
        return {"answers": sorted(got)}


async def abandoned() -> dict[str, Any]:
    """Clients that leave: while an answer is awaited, and while their request is held."""
    async with bench(1, hold_seconds=PATIENCE_SECONDS) as edge:
        (host,) = edge.hosts
        waiting = asyncio.create_task(edge.ask("/never"))
        await until(lambda: host.asked["http"] == 1)
        waiting.cancel()
        await until(lambda: host.left == 1)
        host.word = "drain"
        await until(lambda: set(edge.states().values()) == {"DRAIN"})
        leaving = asyncio.create_task(edge.ask())
        staying = asyncio.create_task(edge.ask())
        await until(lambda: int(_info("CurrConns")) >= 2)
        leaving.cancel()
        host.word = "ready"
        answer = await staying
        return {"answer": answer, "noticed": host.left > 0}


def _info(name: str) -> str:
    lines = (line.split(": ", 1) for line in balancer.asked("show info").splitlines() if ": " in line)
    return dict(lines)[name]


STORIES = {story.__name__: story for story in (silent, drained, held, encrypted, moving, reloaded, spared, abandoned)}

if __name__ == "__main__":
    os.environ.pop("NOTIFY_SOCKET", None)
    print(json.dumps(asyncio.run(STORIES[sys.argv[1]]())))
