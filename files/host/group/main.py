"""This host's part of a group: hosts that serve one model together start, stop and restart their parts together.

    host group SERVER -- COMMAND…      the program of llm@SERVER.service; COMMAND runs this host's ranks

Followers connect to the leader's group port and identify themselves. COMMAND starts on every host once all members are
connected with the same `identity`, and ends on every host when a member is lost: its connection ends, or is silent for
SILENCE seconds. Then this program ends too, and systemd starts it again; a wait for others is not a failure of this
host, so its count of starts is reset. Both sides send lines of JSON; an empty object is a keep-alive.

    follower   {"number", "identity", "put_back": {"identity", "run"}}      first; {"leaving": true} before it stops
    leader     the same; {"start": true} once all are connected

A member whose swap has restored its old release reports the restored identity. Another member that waits with the new
release of the same run then ends at once, and its own swap restores the old release. Requests end before a member
stops: the leader stops first, whichever member is asked to stop. A follower's port on loopback leads to the leader, so
that a probe on this host reaches the group.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from typing import Any

from host import places, systemd
from host.group.lines import SILENCE_SECONDS, Connection, Line, relay
from host.systemd import say

BEAT_SECONDS = 1
RETRY_SECONDS = 2
MARGIN_SECONDS = 20
LOOPBACK = "127.0.0.1"
LOST, STOPPED = 1, 143


class Ended(Exception):
    """Ends this host's part; the text is the reason. `is_own`: this host, not another member, is the cause."""

    def __init__(self, reason: str, status: int = LOST, is_own: bool = False) -> None:
        super().__init__(reason)
        self.status, self.is_own = status, is_own


class Member:
    """This host in its group, from its first message to the end of its part."""

    def __init__(self, server: str, command: list[str]) -> None:
        place = places.server(server)
        facts = json.loads((place / "current" / "server.json").read_text())
        self.unit, self.container, self.command = f"llm@{server}.service", f"llm-{server}", command
        self.llm_port, self.stop_seconds = int(facts["llm_port"]), int(facts["group"]["stop_seconds"])
        group = facts["group"]
        self.identity, self.number, self.port = str(group["identity"]), int(group["number"]), int(group["port"])
        self.members = [(str(member["host"]), str(member["address"])) for member in group["members"]]
        self.run, self.put_back = run_of(place / "wanted.json"), put_back_of(place / "put-back.json")
        self.addresses = [address for _name, address in self.members]
        self.joined: dict[int, Connection] = {}
        self.changed = asyncio.Event()
        self.end: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self.child: asyncio.subprocess.Process | None = None
        self.is_leaving = self.is_stopped = False
        self.tasks: set[asyncio.Task[None]] = set()

    @property
    def leads(self) -> bool:
        return self.number == 0

    def hello(self) -> Line:
        return {"number": self.number, "identity": self.identity, "put_back": self.put_back}

    def finish(self, ended: Ended) -> None:
        """Ends this host's part; only the first reason is reported."""
        if not self.end.done():
            self.end.set_result(ended)

    def judge(self, hello: Line, name: str) -> bool:
        """True if the other member has the same release; ends this part if that member has undone its swap to this
        release."""
        if hello.get("identity") == self.identity:
            return True
        gone = hello.get("put_back")
        if self.run and isinstance(gone, dict) and (gone.get("identity"), gone.get("run")) == (self.identity, self.run):
            self.finish(Ended(f"{name} does not serve this release and has put its own back"))
        say(f"waiting for {name}, which has another release")
        return False

    async def serve(self) -> Ended:
        """Runs this host's part until it ends."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            self.spawn(self.lead() if self.leads else self.follow())
            self.spawn(self.beat())
            ended = await self.end
            await self.kill()
            return ended
        finally:
            for connection in self.joined.values():
                connection.close()
            for task in self.tasks:
                task.cancel()

    def stop(self) -> None:
        """Stops this host's unit; this reason takes precedence over any other."""
        self.is_stopped = True
        self.spawn(self.depart())

    def spawn(self, work: Any) -> None:
        """Runs the coroutine in parallel; an exception in it ends this host's part."""
        task = asyncio.get_running_loop().create_task(self.guarded(work))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def guarded(self, work: Any) -> None:
        try:
            await work
        except Ended as ended:
            self.finish(ended)
        except OSError as problem:
            self.finish(Ended(str(problem), is_own=True))

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            for connection in list(self.joined.values()):
                connection.send({})

    async def lead(self) -> None:
        """Waits until all followers are connected, and starts them with itself."""
        own = self.members[0][1]
        await asyncio.start_server(self.welcome, own, self.port)
        await asyncio.start_server(relay((LOOPBACK, self.llm_port), LOOPBACK, self.addresses), own, self.port + 1)
        while len(self.joined) < len(self.members) - 1:
            missing = [name for place, (name, _) in enumerate(self.members) if place and place not in self.joined]
            say(f"waiting for {', '.join(missing)}")
            self.changed.clear()
            await self.changed.wait()
        for connection in self.joined.values():
            connection.send({"start": True})
        await self.start()

    async def welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a follower, from its first line to its last."""
        connection, number = Connection(reader, writer), 0
        try:
            address = str(writer.get_extra_info("peername")[0])
            if address not in self.addresses[1:]:
                return
            hello = await connection.read()
            number = hello.get("number", 0)
            if type(number) is not int or not 0 < number < len(self.members) or self.members[number][1] != address:
                return
            connection.send(self.hello())
            if self.judge(hello, self.members[number][0]) and not self.child:
                await self.hear(connection, number)
        except (OSError, TypeError, asyncio.CancelledError):
            return  # cancelled: this program ends
        finally:
            connection.close()

    async def hear(self, connection: Connection, number: int) -> None:
        """Listens to a follower that has joined; once the ranks run, the whole group ends with this follower."""
        if before := self.joined.get(number):
            before.close()
        self.joined[number] = connection
        self.changed.set()
        try:
            while True:
                if (await connection.read()).get("leaving"):
                    self.spawn(self.depart(self.members[number][0]))
        except OSError as problem:
            if self.joined.get(number) is connection:
                del self.joined[number]
                self.changed.set()
                if self.child:
                    self.finish(Ended(f"lost {self.members[number][0]}: {problem}"))

    async def follow(self) -> None:
        """Connects to the leader, and starts at its command."""
        name, address = self.members[0]
        say(f"waiting for {name}")
        while not self.is_leaving:
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                opened = asyncio.open_connection(address, self.port, local_addr=(self.members[self.number][1], 0))
                connection = Connection(*await asyncio.wait_for(opened, SILENCE_SECONDS))
                try:
                    await self.join(connection, name)
                except OSError as problem:
                    if self.child and not self.is_leaving:
                        raise Ended(f"lost {name}: {problem}") from None
                finally:
                    self.joined.pop(0, None)
                    connection.close()
            await asyncio.sleep(RETRY_SECONDS)

    async def join(self, connection: Connection, name: str) -> None:
        """Returns if the leader has another release. Raises OSError once the leader is gone."""
        connection.send(self.hello())
        if not self.judge(await connection.read(), name):
            return
        self.joined[0] = connection
        while True:
            if (await connection.read()).get("start") and not self.child:
                leads_to = relay((self.members[0][1], self.port + 1), self.members[self.number][1], [LOOPBACK])
                await asyncio.start_server(leads_to, LOOPBACK, self.llm_port)
                await self.start()

    async def start(self) -> None:
        """Starts this host's ranks; when they end, this host's part ends."""
        say(f"all {len(self.members)} hosts are connected: starting", also_print=True)
        self.child = await asyncio.create_subprocess_exec(*self.command)
        self.spawn(self.await_child())

    async def await_child(self) -> None:
        assert self.child
        status = await self.child.wait()
        if not self.is_leaving:
            raise Ended(f"this host's ranks ended with status {status}", is_own=True)

    async def depart(self, asked_by: str = "") -> None:
        """Ends without losing a request: the leader's program finishes its requests, and followers wait for that."""
        if self.is_leaving:
            return
        self.is_leaving = True
        if self.child and self.leads:
            say(f"stopping{f', as {asked_by} does' if asked_by else ''}", also_print=True)
            await docker("stop", self.container)
        elif self.child and 0 in self.joined:
            self.joined[0].send({"leaving": True})
            await self.gone(0, self.stop_seconds + MARGIN_SECONDS)
        reason = f"{asked_by} stops" if asked_by else "stopped"
        self.finish(Ended(reason, STOPPED if self.is_stopped else LOST, is_own=bool(self.child) and not asked_by))

    async def gone(self, number: int, seconds: float) -> None:
        """Waits until a member's connection has ended, for at most this time."""
        until = asyncio.get_running_loop().time() + seconds
        while number in self.joined and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.2)

    async def kill(self) -> None:
        """Kills this host's ranks, because a rank that waits for a lost one would never end by itself."""
        if self.child and self.child.returncode is None:
            await docker("kill", self.container)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.child.wait(), MARGIN_SECONDS)


async def docker(*words: str) -> None:
    """Calls docker for the container; the end of the container is seen by its own process."""
    process = await asyncio.create_subprocess_exec(
        "docker", *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    await process.wait()


def run_of(wanted: Any) -> str:
    """The run that requested the current or latest swap; empty if unknown."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return str(json.loads(wanted.read_text()).get("run", ""))
    return ""


def put_back_of(record: Any) -> Line:
    """The group's identity that this host has restored after a swap, and the run; empty if this host restored none."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(record.read_text())
        facts = json.loads((places.release(known["release"]) / "server.json").read_text())
        return {"identity": str(facts["group"]["identity"]), "run": str(known["run"])}
    return {}


async def run(server: str, command: list[str]) -> int:
    member = Member(server, command)
    ended = await member.serve()
    say(str(ended), also_print=True)
    if not ended.is_own:
        systemd.systemctl("reset-failed", member.unit)
    return ended.status


def main(arguments: list[str]) -> int:
    """The exit status of this host's part: 143 after a stop request, 1 if a member or its own ranks ended."""
    server, mark, *command = arguments
    if mark != "--" or not command:
        print("host group SERVER -- COMMAND…")
        return 64
    return asyncio.run(run(server, command))
