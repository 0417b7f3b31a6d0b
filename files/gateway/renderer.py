"""Renders a chat template in a process of its own, which the kernel bounds in memory and in time.

A template comes with the weights and is a stranger's program. Jinja's sandbox keeps it from Python's attributes, but
not from work: a filter can pad a text to gigabytes, and a loop that writes nothing can run for ever. So each template
has a process without rights (see `confinement`). Its memory ends at `MOST_BYTES`, its CPU time at `MOST_SECONDS` a
message. A process that the kernel ended is replaced. Long and short messages have a process each: nobody waits for
a long one.

A template that `harmless` has no doubt about is rendered here, where messages are few: the way to the process and back
takes longer than the work. The process itself says that, before it executes anything of the template.

Between the two, over a socket: four bytes of length, then JSON. First the template, then variables and texts in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.confinement import confine
from gateway.templates import Template, TemplateError, TooManyTurns

MOST_BYTES = 2**30
MOST_SECONDS = 2.0
START_SECONDS = 60.0
SHORT_BYTES = 16_384
HERE_CHARACTERS = 8192
HERE_TURNS = 512
HERE_SECONDS = 0.02
"""A template that took longer here has its process from then on."""
SAID = 500
"""Characters of a template's own complaint that a client hears."""
MOST_ANSWER_BYTES = 2**28
LENGTH = struct.Struct("!I")
TOO_MUCH = "the template makes too much of these messages"
UNCONFINED = (
    "chat templates are rendered without rights alone, and this host cannot take them away from a process"
    " (wanted: libseccomp2 and a kernel with CONFIG_SECCOMP_FILTER; try: apt-get install libseccomp2)"
)
LATE_IMPORTS = (
    *("html", "jinja2.constants", "jinja2.debug", "pprint", "textwrap", "unicodedata"),
    *("encodings.ascii", "encodings.latin_1", "encodings.unicode_escape"),
)
"""Modules that Jinja, or Python for Jinja, imports when a template first needs them."""


class Renderer:
    """A chat template. `names` are the variables that it reads and does not set."""

    def __init__(self, source: str, constants: Mapping[str, str], seconds: float = MOST_SECONDS) -> None:
        """Returns once the process is ready. `constants`: bos_token and its like; `seconds` of CPU time a message.

        Raises: ValueError where the source is no template, or its compilation goes over the bounds.
        """
        self.source = source
        self._start = {"source": source, "constants": dict(constants), "seconds": seconds}
        first = Worker(self._start)
        self.names = first.names
        self._here = Template(source, constants, HERE_TURNS) if first.is_harmless else None
        self._short, self._long = Lane(self._start, first), Lane(self._start)

    async def render(self, variables: Mapping[str, Any]) -> str:
        """The text for these variables, which are values of JSON.

        Raises: TemplateError.
        """
        text = json.dumps(variables, ensure_ascii=False)
        if self._here is not None and len(text) <= HERE_CHARACTERS:
            with contextlib.suppress(TooManyTurns):
                return self._rendered_here(self._here, variables)
        asked = text.encode()
        lane = self._short if len(asked) <= SHORT_BYTES else self._long
        # A client that leaves does not leave half an answer in the socket.
        told = await asyncio.shield(asyncio.ensure_future(lane.told(asked)))
        if "error" in told:
            raise TemplateError(told["error"])
        return str(told["text"])

    def _rendered_here(self, template: Template, variables: Mapping[str, Any]) -> str:
        began = time.thread_time()
        try:
            return template.render(variables)
        except TooManyTurns:
            raise
        except TemplateError as error:
            raise TemplateError(str(error)[:SAID] or TOO_MUCH) from None
        finally:
            if time.thread_time() - began > HERE_SECONDS:
                self._here = None


class Lane:
    """A process for messages one after the other."""

    def __init__(self, start: Mapping[str, Any], worker: Worker | None = None) -> None:
        self._start, self._worker = start, worker
        self._turn = asyncio.Lock()

    async def told(self, asked: bytes) -> dict[str, Any]:
        """The process's answer; where it died of something else than this message, that of another."""
        async with self._turn:
            for _ in range(2):
                worker = self._taken()
                if worker is None:
                    worker = await asyncio.to_thread(Worker, self._start)
                told = await worker.told(asked)
                if told is not None:
                    self._worker = worker
                    return told
                if worker.ended_by() == -signal.SIGPROF:
                    break
        return {"error": TOO_MUCH}

    def _taken(self) -> Worker | None:
        worker, self._worker = self._worker, None  # back once it has answered: one that was cancelled is not
        return worker


class Worker:
    """The process, from this side. It ends with this object."""

    def __init__(self, start: Mapping[str, Any]) -> None:
        """Raises: ValueError for what is no template."""
        self._channel, theirs = socket.socketpair()
        words = [sys.executable, "-m", "gateway.renderer"]
        environment = {"PYTHONPATH": str(Path(__file__).parents[1])}
        quiet = subprocess.DEVNULL  # what it might say has words of messages
        with theirs:
            self._process = subprocess.Popen(words, stdin=theirs.fileno(), stdout=quiet, stderr=quiet, env=environment)
        self._end = weakref.finalize(self, end, self._channel, self._process)
        self._channel.settimeout(START_SECONDS)
        try:
            send(self._channel, json.dumps(start).encode())
            told = received(self._channel)
        except OSError:
            told = None
        if told is None:
            raise ValueError("the chat template is not compiled within its bounds")
        if "error" in (found := json.loads(told)):
            raise ValueError(found["error"])
        self.names, self.is_harmless = frozenset(found["names"]), bool(found["is_harmless"])
        self._channel.setblocking(False)

    async def told(self, asked: bytes) -> dict[str, Any] | None:
        """Its answer; None where it died."""
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self._channel, LENGTH.pack(len(asked)) + asked)
            head = await self._bytes(LENGTH.size)
            length = LENGTH.unpack(head)[0] if head else 0
            answer = await self._bytes(length) if length <= MOST_ANSWER_BYTES else b""
        except OSError:
            return None
        return dict(json.loads(answer)) if answer else None

    def ended_by(self) -> int:
        """The process is gone; minus the signal that ended it, where one did."""
        self._end()
        return int(self._process.returncode)

    async def _bytes(self, count: int) -> bytes:
        loop, found = asyncio.get_running_loop(), bytearray()
        while len(found) < count:
            if not (part := await loop.sock_recv(self._channel, min(count - len(found), 2**20))):
                return b""
            found += part
        return bytes(found)


def end(channel: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """The process is gone."""
    channel.close()
    process.kill()  # one that is dead keeps what it died of
    process.wait()


def send(channel: socket.socket, message: bytes) -> None:
    """The message is on its way."""
    channel.sendall(LENGTH.pack(len(message)) + message)


def received(channel: socket.socket) -> bytes | None:
    """The next message; None where the other side is gone."""
    found = bytearray()
    wanted = LENGTH.size
    while len(found) < wanted:
        if not (part := channel.recv(min(wanted - len(found), 2**20))):
            return None
        found += part
        if wanted == LENGTH.size and len(found) == wanted:
            wanted += LENGTH.unpack(found)[0]
    return bytes(found[LENGTH.size :])


def bounded() -> None:
    """This process has little memory, leaves no core, and can only compute and answer on its socket: see `confine`.

    Raises: OSError where the kernel or its library cannot take the other rights away.
    """
    for name in LATE_IMPORTS:
        importlib.import_module(name)
    os.environ.setdefault("TZ", ":/etc/localtime")  # without a name libc reads the file again for every date
    time.tzset()
    bounds = {resource.RLIMIT_AS: MOST_BYTES, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    for limit, most in bounds.items():
        resource.setrlimit(limit, (most, most))
    confine()


def main() -> None:
    """Messages become texts until nobody asks any more."""
    channel = socket.socket(fileno=0)
    for each in (signal.SIGINT, signal.SIGTERM):  # meant for the gateway, which ends this process last
        signal.signal(each, signal.SIG_IGN)
    try:
        bounded()
    except OSError as error:  # a stranger's program is not even compiled by a process that has rights
        received(channel)
        return send(channel, json.dumps({"error": f"{UNCONFINED}: {error}"}).encode())
    template: Template | None = None
    seconds = MOST_SECONDS
    while (asked := received(channel)) is not None:
        variables = json.loads(asked)
        told: dict[str, Any]
        seconds = seconds if template else float(variables["seconds"])
        # Nobody handles the signal, so it ends the process wherever that is, C's loops too.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            if template is None:
                template = Template(variables["source"], variables["constants"])
                told = {"names": sorted(template.names), "is_harmless": template.is_harmless}
            else:
                told = {"text": template.render(variables)}
        except (ValueError, MemoryError) as error:
            told = {"error": str(error)[:SAID] or TOO_MUCH}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        send(channel, json.dumps(told, ensure_ascii=False).encode())


if __name__ == "__main__":
    os.chdir("/")
    main()
