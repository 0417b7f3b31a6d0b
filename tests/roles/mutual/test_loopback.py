"""The role's configuration in a real HAProxy, between a gateway's channel and a Triton: who is admitted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from deploy.io.authority import Use
from gateway.errors import UpstreamError
from gateway.mutual import identity
from gateway.ready import says_ready
from gateway.tensors import strings
from gateway.triton import KEEPALIVE
from gateway.triton import Triton as Channel
from roles.mutual.config import Places, config
from tests.gateway.asking import becomes, in_loop
from tests.gateway.triton import Script, Triton, serving
from tests.ports import free_ports
from tests.roles.balancer.bench import HAPROXY
from tests.roles.mutual.hosts import front_and_back, pem_of

ADDRESS = "127.0.0.1"


class Back:
    """The host `back`: a Triton, a traffic service, and HAProxy before both."""

    def __init__(self, folder: Path, triton: Triton) -> None:
        self.folder, self.triton = folder, triton
        (self.port, self.ready_port) = free_ports(2)
        self.authority = folder / "authority"
        self.status = 200
        self.process: asyncio.subprocess.Process | None = None
        self.traffic: asyncio.Server | None = None

    def write(self, shows: str = ADDRESS) -> None:
        """Writes certificate and configuration as the role does."""
        (self.folder / "host.pem").write_text(pem_of(self.authority, "server", "back", shows))
        mine = front_and_back()[1]
        assert mine.mutual and mine.traffic
        (server,) = mine.servers
        grpc_port = int(self.triton.address.rpartition(":")[2])
        here = replace(
            mine,
            servers=(replace(server, grpc_port=grpc_port),),
            traffic=replace(mine.traffic, address=ADDRESS, ready_port=self.ready_port),
        )
        places = Places(str(self.folder / "host.pem"), str(self.authority / "authority.pem"), user="")
        text = config(here, replace(mine.mutual, address=ADDRESS, port=self.port), places)
        (self.folder / "haproxy.cfg").write_text(text)

    def channel(self, name: str = "front", use: Use = "client", authority: str = "authority") -> Channel:
        """A channel with a certificate like a gateway's, in this name."""
        who = identity(self.certificate(name, use, authority), self.authority / "authority.pem")
        return Channel(f"{ADDRESS}:{self.port}", who, "main")

    def certificate(self, name: str = "front", use: Use = "client", authority: str = "authority") -> Path:
        """A file with key and certificate in this name."""
        file = self.folder / f"{name}-{use}-{authority}.pem"
        file.write_text(pem_of(self.folder / authority, use, name, ADDRESS))
        return file


@contextlib.asynccontextmanager
async def back_up(folder: Path, shows: str = ADDRESS) -> AsyncIterator[Back]:
    """A running `back`: each of its programs listens."""

    async def ready(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {back.status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()

    async with serving(Triton()) as triton:
        back = Back(folder, triton)
        back.write(shows)
        back.traffic = await asyncio.start_server(ready, ADDRESS, back.ready_port)
        back.process = await asyncio.create_subprocess_exec(
            *(HAPROXY, "-W", "-f", str(folder / "haproxy.cfg")), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            await becomes(lambda: listens(back.port))
            yield back
        finally:
            back.process.terminate()
            await back.process.wait()
            back.traffic.close()


def listens(port: int) -> bool:
    """True if a program listens there."""
    with socket.socket() as probe:
        return probe.connect_ex((ADDRESS, port)) == 0


async def embeds(channel: Channel) -> bool:
    """True if the channel's Triton returns a vector."""
    answer = await channel.infer("nomic", [strings("texts", ["a"], (1, 1))], {}, 5)
    return "embeddings" in answer


async def refused(call: Callable[[], Awaitable[object]]) -> str:
    """The code of the error."""
    with pytest.raises(UpstreamError) as failure:
        await call()
    return failure.value.code


@in_loop
async def test_a_gateway_of_the_fleet_gets_answers_and_streams(tmp_path: Path) -> None:
    async with back_up(tmp_path) as back:
        channel = back.channel()
        assert await embeds(channel) and await channel.is_ready(5)
        events = [event async for event in channel.stream("llm", [strings("text_input", ["hi"], (1,))], 5)]
        assert len(events) == 3
        assert "enginehouse-server" not in back.triton.requests[-1].metadata
        await channel.close(0)


@in_loop
async def test_only_a_gateway_of_the_fleet_is_let_in(tmp_path: Path) -> None:
    """Without a certificate, with another authority, another use, or another host's name, a client is refused."""
    async with back_up(tmp_path) as back:
        bare, stranger = Channel(f"{ADDRESS}:{back.port}"), back.channel(authority="stranger")
        server, elsewhere = back.channel(use="server"), back.channel(name="elsewhere")
        channels = (bare, stranger, server, elsewhere)
        codes = [await refused(partial(channel.infer, "nomic", [], {}, 5)) for channel in channels]
        assert codes == ["UNAVAILABLE", "UNAVAILABLE", "UNAVAILABLE", "PERMISSION_DENIED"]
        assert back.triton.requests == []


@in_loop
async def test_a_gateway_believes_no_host_that_shows_another_host_s_certificate(tmp_path: Path) -> None:
    async with back_up(tmp_path, shows="127.0.0.9") as back:
        who = identity(back.certificate(), back.authority / "authority.pem")
        channel = back.channel()
        assert await refused(lambda: channel.infer("nomic", [], {}, 5)) == "UNAVAILABLE"
        assert await says_ready(f"https://{ADDRESS}:{back.port}/ready/main", context=who.context) is None
        await channel.close(0)


@in_loop
async def test_a_stream_outlives_a_renewed_certificate(tmp_path: Path) -> None:
    async with back_up(tmp_path) as back:
        back.triton.script = Script(halts_after=1)
        channel = back.channel()
        stream = channel.stream("llm", [strings("text_input", ["hi"], (1,))], 30)
        events = [await anext(stream)]
        before = shown(back)
        back.write()
        assert back.process
        os.kill(back.process.pid, signal.SIGUSR2)
        await becomes(lambda: shown(back) != before)
        back.triton.goes_on.set()
        events += [event async for event in stream]
        assert len(events) == 3
        await channel.close(0)


def shown(back: Back) -> str:
    """The certificate that HAProxy shows now."""
    command = ["openssl", "s_client", "-connect", f"{ADDRESS}:{back.port}", "-cert", str(back.certificate())]
    output = subprocess.run(command, input="", capture_output=True, text=True, check=False, timeout=300).stdout
    return output[output.find("-----BEGIN CERT") : output.find("-----END CERT")]


@in_loop
async def test_a_host_without_power_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HAProxy is paused: it closes no connection, and does not answer."""
    short = [(name, min(milliseconds, 200)) for name, milliseconds in KEEPALIVE]
    monkeypatch.setattr("gateway.triton.KEEPALIVE", short)
    async with back_up(tmp_path) as back:
        back.triton.script = Script(halts_after=1)
        channel = back.channel()
        stream = channel.stream("llm", [strings("text_input", ["hi"], (1,))], 30)
        await anext(stream)
        assert back.process
        workers = [back.process.pid, *children(back.process.pid)]
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert await refused(partial(anext, stream)) == "UNAVAILABLE"
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGCONT)
        await channel.close(0)


def children(pid: int) -> list[int]:
    """Child processes of the process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@in_loop
async def test_the_host_says_through_the_same_port_whether_it_may_be_asked(tmp_path: Path) -> None:
    async with back_up(tmp_path) as back:
        context = identity(back.certificate(), back.authority / "authority.pem").context
        url = f"https://{ADDRESS}:{back.port}/ready/main"
        answers = []
        for back.status in (200, 503):
            answers.append(await says_ready(url, context=context))
        answers.append(await says_ready(url.replace("main", "other"), context=context))
        assert back.traffic
        back.traffic.close()
        answers.append(await says_ready(url, context=context))
        assert answers == [True, False, None, None], "what nobody says now is as it was"


@in_loop
async def test_a_client_that_leaves_is_noticed_behind_it(tmp_path: Path) -> None:
    async with back_up(tmp_path) as back:
        back.triton.script = Script(halts_after=1)
        channel = back.channel()
        stream = channel.stream("llm", [strings("text_input", ["hi"], (1,))], 30)
        await anext(stream)
        await stream.aclose()
        await becomes(lambda: back.triton.cancelled == 1 and back.triton.running == 0)
        await channel.close(0)
