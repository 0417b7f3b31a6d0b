"""The real HAProxy over loopback with the configuration of the role, before stand-ins of hosts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc

from deploy.inventory.gateway_keys import GatewayKey
from deploy.slices.traffic import BalancerSlice, GatewayMemberSlice, GatewayRouteSlice, MemberSlice, RouteSlice
from roles._shipping.texts import HERE
from roles.balancer.config import config, everything
from roles.balancer.defaults import Places
from roles.balancer.keys import maps
from tests.ports import free_ports
from tests.roles.balancer.standins import SERVICE, Host

sys.path.insert(0, str(HERE / "files"))
from host import balancer, places

PATIENCE_SECONDS = 300
HAPROXY = os.environ.get("ENGINEHOUSE_HAPROXY", "haproxy")


class Bench:
    """A balancer with the pool `chat`: its configuration, process and clients. The kernel chooses ports."""

    def __init__(
        self,
        folder: Path,
        hosts: list[Host],
        hold_seconds: int = 0,
        held_in_flight: int = 3,
        certificate: str = "",
        keys: tuple[GatewayKey, ...] | None = None,
        clients: str = "",
        bounds: tuple[int, int] = (0, 0),
    ) -> None:
        self.folder, self.hosts, self.certificate, self.keys = folder, hosts, certificate, keys
        self.clients, self.bounds = clients, bounds
        self.hold_seconds, self.held_in_flight = hold_seconds, held_in_flight
        self.http_port, self.grpc_port, self.metrics_port, self.gateway_port = free_ports(4)
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "balancer").mkdir()
        (folder / "balancer" / "hold.lua").write_text((HERE / "files/balancer/hold.lua").read_text())
        places.SETTINGS = places.RUNTIME = folder
        setattr(balancer, "HAPROXY", HAPROXY)  # noqa: B010
        setattr(balancer, "active_states", lambda _: ["active"])  # noqa: B010
        setattr(balancer, "systemctl", self.systemctl)  # noqa: B010

    def write(self) -> None:
        """Writes the configuration file for the current hosts."""
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
            held_in_flight=self.held_in_flight,
            members=members,
            gateway=self.gateway(),
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
            keys="" if self.keys is None else "file",
            address_connections=self.bounds[0],
            address_requests=self.bounds[1],
        )
        where = str(self.folder / "balancer")
        places = Places(settings=where, run=where, user="")
        for map_ in maps(mine, self.keys or (), places):
            Path(map_.path).write_text(map_.content)
        text = config(mine, everything(mine), self.certificate, self.clients, places)
        balancer.file().write_text(text)

    def gateway(self) -> GatewayRouteSlice | None:
        """The port for gateways of hosts with one; only with a certificate."""
        members = tuple(
            GatewayMemberSlice(
                name=f"{host.name}.8080",
                question="main",
                address="127.0.0.1",
                port=host.gateway.port,
                agent_address="127.0.0.1",
                agent_port=host.agent_port,
            )
            for host in self.hosts
            if host.gateway
        )
        return GatewayRouteSlice(port=self.gateway_port, answer_seconds=780, members=members) if members else None

    def start(self) -> None:
        """Starts HAProxy, which does not know the state of its hosts yet."""
        (self.folder / "balancer" / "state").write_text("1\n")
        master = f"{self.folder}/balancer/master.sock,mode,600"
        self.process = subprocess.Popen([HAPROXY, "-W", "-S", master, "-f", balancer.file()], stderr=subprocess.DEVNULL)

    def systemctl(self, verb: str, _unit: str) -> int:
        """Stands in for systemctl: a reload sends the process the unit's signal."""
        assert self.process
        if verb == "reload":
            list(balancer.remember())
            self.process.send_signal(signal.SIGUSR2)
        return 0

    def states(self) -> dict[str, str]:
        """The state of each line, in HAProxy's own words."""
        rows = [row.split(",") for row in balancer.answer_to("show stat").splitlines()]
        at = rows[0].index("status")
        lines = [row for row in rows[1:] if len(row) > at and row[1] not in ("FRONTEND", "BACKEND", "hold")]
        return {f"{row[0]}/{row[1]}": row[at].partition(" ")[0] for row in lines}

    def waiting(self, port: str = "chat") -> int:
        """Number of unanswered requests at a port of HAProxy; gRPC's is `chat_h2`."""
        return sum(f"fe={port} " in row for row in balancer.answer_to("show sess").splitlines())

    def queued(self, backend: str) -> int:
        """Requests that wait in HAProxy's own queue."""
        return self._count(backend, "qcur")

    def in_flight(self, backend: str) -> int:
        """HAProxy's number of open requests; a request counts until shortly after its client has the answer."""
        return self._count(backend, "scur")

    def _count(self, backend: str, column: str) -> int:
        rows = [row.split(",") for row in balancer.answer_to("show stat").splitlines()]
        at = rows[0].index(column)
        return next(int(row[at]) for row in rows if row[:2] == [backend, "BACKEND"])

    def sent_to(self, *hosts: Host) -> Callable[[], bool]:
        """A condition that holds once exactly these hosts get new requests."""
        wanted = {f"{host.name}.main" for host in hosts}

        def holds() -> bool:
            up = [
                line.split("/")[1] for line, state in self.states().items() if state == "UP" and "_gateway/" not in line
            ]
            return sorted(up) == sorted([*wanted, *wanted])

        return holds

    async def ask(self, path: str = "/v2/models/llm/infer", tls: ssl.SSLContext | None = None) -> str:
        """The name of the host that answered over a new connection, or the status that HAProxy answered."""
        name = "localhost" if tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.http_port, ssl=tls, server_hostname=name)
        try:
            return (await exchange(reader, writer, path))[0]
        finally:
            writer.close()

    @contextlib.asynccontextmanager
    async def channel(self, credentials: Any = None) -> AsyncIterator[Any]:
        """A gRPC client's connection, open for the whole block."""
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
    """The answer in the form of `Bench.ask`; and True if the connection ends with it."""
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
    version_text = subprocess.run([HAPROXY, "-v"], capture_output=True, text=True, check=True).stdout
    return ".".join(version_text.split()[2].split(".")[:2])


def unary(channel: Any) -> Any:
    """A call of ModelInfer; awaited, it returns the name of the host that answered."""
    return channel.unary_unary(f"{SERVICE}ModelInfer")(b"x", wait_for_ready=True)


async def until(holds: Callable[[], bool]) -> None:
    """Returns as soon as `holds` is true. Raises: TimeoutError."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with contextlib.suppress(OSError):
                if holds():
                    return
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def bench(
    count: int = 2,
    words: str = "ready",
    prepare: Callable[[list[Host]], Awaitable[None]] | None = None,
    **how: Any,
) -> AsyncIterator[Bench]:
    """A running balancer, and hosts h1, h2 … whose agents answer `words`; `prepare` adds to the hosts."""
    hosts = [await Host(f"h{number}").start() for number in range(1, count + 1)]
    if prepare:
        await prepare(hosts)
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
