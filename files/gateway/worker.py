"""Work on clients' bytes in a separate process, whose memory and time the kernel limits.

Python, like the libraries that parse and tokenise, runs one thread at a time: while a large input is processed, no
stream of the process continues, whatever thread does the work. So large inputs have processes beside the gateway's:
each has little memory, a CPU time for each message, no file to write and nothing to open. `lanes` replaces processes
that the kernel ended. Its users: `renderer` for templates, `bodies` for JSON, `prompt_worker` for prompts.

Between the two, over a socket: four bytes of length, then the message. The first message has the preparation, each
further one a task. An answer begins with a byte: `DONE`, or `REFUSED` and the reason as text.
"""

from __future__ import annotations

import asyncio
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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.confinement import confine

START_SECONDS = 60.0
WALL_SECONDS = 120.0
"""Seconds for an answer: a process that hangs is replaced. Its CPU time ends long before."""
MOST_ANSWER_BYTES = 2**28
REASON = 500
"""Characters of a reason that are sent to a client."""
PART_BYTES = 2**18
"""Bytes of an answer that are received without a pause for other tasks."""
LENGTH = struct.Struct("!I")
DONE, REFUSED = b"\x00", b"\x01"
NICE = 10
"""Niceness of the processes: the gateway's event loop comes first if processors are scarce."""

UNCONFINED = (
    "clients' input is processed only in a process without rights, and this host cannot remove a process's rights"
    " (wanted: libseccomp2 and a kernel with CONFIG_SECCOMP_FILTER; try: apt-get install libseccomp2)"
)
LATE_IMPORTS = (
    *("html", "jinja2.constants", "jinja2.debug", "pprint", "textwrap", "unicodedata"),
    *("encodings.ascii", "encodings.latin_1", "encodings.unicode_escape"),
)
"""Modules that Jinja, or Python for Jinja, imports only when a template needs them."""

Work = Callable[[bytes], bytes]


class Refused(ValueError):
    """The message was refused, or took more than the bounds of its process."""


@dataclass(frozen=True)
class Program:
    """A module that runs in processes beside the gateway's, and the arguments of its preparation.

    `most_bytes` limits the memory, `most_more_bytes` the growth beyond the loaded state, `seconds` a message's CPU
    time.
    """

    module: str
    prepare: Mapping[str, Any]
    seconds: float
    too_much: str
    """The refusal of a message that took all time or memory."""
    most_bytes: int = 0
    most_more_bytes: int = 0


class Worker:
    """The process, as seen from the gateway. It ends with this object."""

    def __init__(self, program: Program) -> None:
        """Returns once the process is prepared; `prepared` is the process's answer.

        Raises: Refused if the process cannot be prepared.
        """
        self._channel, theirs = socket.socketpair()
        words = [sys.executable, "-m", program.module]
        environment = {
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "TOKENIZERS_PARALLELISM": "false",
            "MALLOC_ARENA_MAX": "1",
        }
        quiet = subprocess.DEVNULL  # its output could contain words of messages
        with theirs:
            self._process = subprocess.Popen(words, stdin=theirs.fileno(), stdout=quiet, stderr=quiet, env=environment)
        self._end = weakref.finalize(self, end, self._channel, self._process)
        self._channel.settimeout(START_SECONDS)
        bounds: dict[str, Any] = {
            "bytes": program.most_bytes,
            "more_bytes": program.most_more_bytes,
            "seconds": program.seconds,
        }
        bounds |= {"too_much": program.too_much}
        try:
            send(self._channel, json.dumps({"bounds": bounds, "prepare": dict(program.prepare)}).encode())
            answer = received(self._channel)
        except OSError:
            answer = None
        if answer is None:
            raise Refused("the process exceeded its bounds before its first message")
        self.prepared = bytes(accepted(memoryview(answer)))
        self._channel.setblocking(False)

    async def answer(self, message: bytes) -> memoryview | None:
        try:
            return await asyncio.wait_for(self._answer(message), WALL_SECONDS)
        except (OSError, asyncio.TimeoutError):
            return None

    async def _answer(self, message: bytes) -> memoryview | None:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._channel, LENGTH.pack(len(message)))
        await loop.sock_sendall(self._channel, message)
        head = await self._bytes(LENGTH.size)
        length = LENGTH.unpack(head)[0] if head else 0
        return (await self._bytes(length) if length <= MOST_ANSWER_BYTES else None) or None

    def ended_by(self) -> int:
        """Minus the signal that ended the process, if one did; the process has then ended."""
        self._end()
        return int(self._process.returncode)

    async def _bytes(self, count: int) -> memoryview | None:
        """The next `count` bytes in the buffer that received them: copying a large answer would block the loop."""
        loop, got, size = asyncio.get_running_loop(), memoryview(bytearray(count)), 0
        while size < count:
            if not (more := await loop.sock_recv_into(self._channel, got[size : size + PART_BYTES])):
                return None
            size += more
        return got


def accepted(answer: memoryview) -> memoryview:
    """The content of a separate process's answer.

    Raises: Refused.
    """
    if answer[:1] != DONE:
        raise Refused(bytes(answer[1:]).decode("utf-8", "replace"))
    return answer[1:]


def end(channel: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """Ends the process."""
    channel.close()
    process.kill()  # keeps the exit status of a process that has already ended
    process.wait()


def send(channel: socket.socket, message: bytes) -> None:
    channel.sendall(LENGTH.pack(len(message)) + message)


def received(channel: socket.socket) -> bytes | None:
    """The next message; None if the other side has closed."""
    got = bytearray()
    wanted = LENGTH.size
    while len(got) < wanted:
        if not (part := channel.recv(min(wanted - len(got), 2**20))):
            return None
        got += part
        if wanted == LENGTH.size and len(got) == wanted:
            wanted += LENGTH.unpack(got)[0]
    return bytes(got[LENGTH.size :])


def bounded(most_bytes: int) -> None:
    """Limits this process in memory, without core dumps, and to computing and answering on its socket (`confine`).

    Raises: OSError if the kernel or its library cannot remove the other rights.
    """
    for name in LATE_IMPORTS:
        importlib.import_module(name)
    os.environ.setdefault("TZ", ":/etc/localtime")  # without a name, libc reads the file again for every date
    time.tzset()
    bounds = {resource.RLIMIT_AS: most_bytes, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    for limit, most in bounds.items():
        resource.setrlimit(limit, (most, most))
    try:
        confine()
    except OSError as error:
        raise OSError(f"{UNCONFINED}: {error}") from None


def serve(load: Callable[[Mapping[str, Any]], Callable[[], tuple[Work, bytes]]]) -> None:
    """Answers messages until the gateway closes the connection: the main loop of a `Program`'s module.

    `load` reads files and imports before the process is confined. Its result is called after that, and returns the
    work and the answer that says that the process is prepared.
    """
    os.chdir("/")
    os.nice(NICE)
    channel = socket.socket(fileno=0)
    # Ignored here: the signal is for the gateway, which ends this process last.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    start = received(channel)
    if start is None:
        return
    program = json.loads(start)
    bounds, work = program["bounds"], None
    seconds = float(bounds["seconds"])
    try:
        prepare = load(program["prepare"])
        bounded(bounds["bytes"] or memory_bytes() + bounds["more_bytes"])
    except (OSError, ValueError) as error:  # a process with rights does not work on foreign input
        send(channel, refusal(error))
        return
    message: bytes | None = b""
    while message is not None:
        # The signal has no handler, so it ends the process anywhere, loops in C included.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            if work is None:
                work, answer = prepare()
            else:
                answer = work(message)
            answer = DONE + answer
        except ValueError as error:
            answer = refusal(error)
        except (MemoryError, RecursionError):
            answer = REFUSED + bounds["too_much"].encode()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        message = b""  # frees the message while waiting for the next one
        send(channel, answer)
        answer = b""
        message = received(channel)


def refusal(error: Exception) -> bytes:
    return REFUSED + str(error)[:REASON].encode("utf-8", "replace")


def memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
