"""The service: keeps the state of the servers, and answers on two ports."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from host.systemd import say
from host.traffic.state import Hold, State, Unit, hold_of, state_of, stops_of

ACTIVE_SECONDS, OTHER_SECONDS = 5.0, 1.0
"""Seconds between two checks of systemd: while every server is active, and while one is not."""
HOLD_SECONDS = 1.0
ASKED_SECONDS = 5.0
"""Seconds for a client to send its question; a silent client is disconnected."""
LOOKED_SECONDS = 10.0
LONGEST_QUESTION = 8192
FREEBIND = {socket.AF_INET: (socket.IPPROTO_IP, 15), socket.AF_INET6: (socket.IPPROTO_IPV6, 78)}
"""Linux's IP_FREEBIND and IPV6_FREEBIND, without names in Python: the address may appear after the program's start at a
boot."""


@dataclass
class Service:
    """The servers of this host by name, with their state."""

    models: dict[str, list[str]]
    units: dict[str, Unit] = field(default_factory=dict)
    holds: dict[str, Hold | None] = field(default_factory=dict)
    with_llm: frozenset[str] = frozenset()
    """Servers with an LLM beside Triton in another unit; such a server is ready when both units are."""
    is_deaf: bool = False
    """True if systemd did not answer the last query."""
    status_line: str = ""
    """The unit's status line."""

    def state(self, server: str) -> State:
        """The current state of a server."""
        names = [server, *([llm_of(server)] if server in self.with_llm else [])]
        stops, hold, now = stops_of(server), self.holds.get(server), time.time()
        states = [state_of(self.units.get(name), stops, hold, now) for name in names]
        return min(states, key=lambda state: (state.ready, -state.since if state.ready else state.since))

    def agent(self, question: str) -> str:
        """The answer to HAProxy's agent-check: `ready` if a named server (`main`, `a,b`) is; else `drain`."""
        names = question.split(",")
        is_known = all(name in self.models for name in names)
        return "ready" if is_known and any(self.state(name).ready for name in names) else "drain"

    def http(self, path: str) -> tuple[HTTPStatus, dict[str, Any]]:
        """The answer to `GET PATH`: of one server, or of the host, which is no better than its worst server."""
        states = {name: self.state(name) for name in self.models}
        server = path.removeprefix("/ready/")
        if path == "/ready":
            worst = min(states.values(), key=lambda state: (state.ready, -state.since if state.ready else state.since))
            servers = {name: state.to_json(self.models[name]) for name, state in states.items()}
            body = worst.to_json([model for models in self.models.values() for model in models]) | {"servers": servers}
            return status(worst), body
        if path.startswith("/ready/") and server in states:
            return status(states[server]), states[server].to_json(self.models[server])
        return HTTPStatus.NOT_FOUND, {"error": f"no such page; the pages are {', '.join(['/ready', *self.pages()])}"}

    def pages(self) -> Iterator[str]:
        return (f"/ready/{name}" for name in self.models)

    async def look(self) -> None:
        """Rereads the state of all servers. `units` are systemd's; without an answer they stay unchanged."""
        properties = "Id,ActiveState,InvocationID,StateChangeTimestampMonotonic"
        units = [f"triton@{name}.service" for name in self.models]
        units += [f"llm@{name}.service" for name in sorted(self.with_llm)]
        show = ["systemctl", "show", "-p", properties, *units]
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*show, stdout=asyncio.subprocess.PIPE, stderr=quiet)
        try:
            output, _ = await asyncio.wait_for(process.communicate(), LOOKED_SECONDS)
        except asyncio.TimeoutError:
            output = b""
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        units_now = parsed(output.decode())
        if not units_now and not self.is_deaf:
            print("<4>systemd does not answer; the servers' reported states stay unchanged", flush=True)
        self.is_deaf = not units_now
        self.units |= units_now

    async def keep_looking(self) -> None:
        while True:
            names = [*self.models, *map(llm_of, self.with_llm)]
            is_settled = all(name in self.units and self.units[name].active for name in names)
            await asyncio.sleep(ACTIVE_SECONDS if is_settled else OTHER_SECONDS)
            await self.look()
            self.say_states()

    def say_states(self, is_ready: bool = False) -> None:
        """Writes the servers' states to the unit's status line; `is_ready`: also reports to systemd that the service
        answers."""
        line = ", ".join(f"{name}: {self.state(name).word}" for name in self.models)
        if is_ready or line != self.status_line:
            say(line, is_ready=is_ready)
            self.status_line = line

    async def keep_reading(self) -> None:
        """Keeps reading the operator's drains, in a thread, because a hanging disk must delay no answer."""
        while True:
            self.holds |= await asyncio.to_thread(lambda: {name: hold_of(name) for name in self.models})
            await asyncio.sleep(HOLD_SECONDS)

    async def answer_agent(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with conversation(writer):
            question = await asyncio.wait_for(reader.readline(), ASKED_SECONDS)
            writer.write(f"{self.agent(question.decode(errors='replace').strip())}\n".encode())

    async def answer_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with conversation(writer):
            request = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), ASKED_SECONDS)
            method, path = [*request.decode(errors="replace").splitlines()[0].split(), "", ""][:2]
            http_status, body = self.http(path.partition("?")[0])
            if method not in ("GET", "HEAD"):
                http_status, body = HTTPStatus.METHOD_NOT_ALLOWED, {"error": "GET or HEAD"}
            content = f"{json.dumps(body)}\n".encode()
            head = f"HTTP/1.1 {http_status.value} {http_status.phrase}\r\nContent-Type: application/json\r\n"
            head += f"Content-Length: {len(content)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + (content if method != "HEAD" else b""))


def llm_of(server: str) -> str:
    return f"{server}/llm"


def parsed(output: str) -> dict[str, Unit]:
    """The units of a `systemctl show`, by server; of LLMs beside servers too."""
    booted = time.time() - time.monotonic()
    units = {}
    for block in output.split("\n\n"):
        properties = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if name := re.fullmatch(r"(triton|llm)@(.+)\.service", properties.get("Id", "")):
            changed = int(properties.get("StateChangeTimestampMonotonic", "0") or 0) / 1e6
            is_active = properties.get("ActiveState") == "active"
            units[llm_of(name[2]) if name[1] == "llm" else name[2]] = Unit(
                is_active, properties.get("InvocationID", ""), booted + changed
            )
    return units


def status(state: State) -> HTTPStatus:
    return HTTPStatus.OK if state.ready else HTTPStatus.SERVICE_UNAVAILABLE


@contextlib.asynccontextmanager
async def conversation(writer: asyncio.StreamWriter) -> Any:
    """A connection that is closed with its block; errors of the client are ignored."""
    with contextlib.suppress(OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError, ValueError):
        yield
        await asyncio.wait_for(writer.drain(), ASKED_SECONDS)
    writer.close()


async def serve(wanted: dict[str, Any], kind: type[Service] = Service) -> int:
    """Serves until stopped. Its unit is active once both ports answer."""
    with_llm = frozenset(name for name, server in wanted["servers"].items() if server.get("llm"))
    service = kind({name: list(server["models"]) for name, server in wanted["servers"].items()}, with_llm=with_llm)
    await service.look()
    service.holds |= {name: hold_of(name) for name in service.models}
    sockets = [listening(wanted["address"], wanted[f"{kind}_port"]) for kind in ("agent", "ready")]
    for answer, listener in zip((service.answer_agent, service.answer_http), sockets, strict=True):
        await asyncio.start_server(answer, sock=listener, limit=LONGEST_QUESTION)
    service.say_states(is_ready=True)
    await asyncio.gather(service.keep_looking(), service.keep_reading())
    return 1


def listening(address: str, port: int) -> socket.socket:
    """A socket that listens at the address, even if the host does not have the address yet."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(*FREEBIND[family], 1)
    listener.bind((address, port))
    listener.listen(128)
    return listener
