"""A stand-in for the line between a bundle and its host: counts the bytes of each part and breaks at a drawn byte.

It takes the place of the socket of the bundle's server, which a run makes below TMPDIR, and forwards all data, so the
run and the host are unchanged. At a break, exactly the drawn number of bytes of a part was forwarded.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO

CHUNK = 1 << 16
LENGTH = re.compile(rb"(?im)^content-length: *(\d+)")
FIRST = re.compile(rb"(?im)^content-range: *bytes (\d+)-")


@dataclass
class Sent:
    """The body of an answer: its path, its first byte in the part, its length, and the bytes that were passed on."""

    path: str
    start: int
    length: int
    passed: int = 0

    @property
    def size(self) -> int:
        """Returns the bytes of the whole part."""
        return self.start + self.length


@dataclass(frozen=True)
class Moment:
    """The line breaks after this share of a part whose path matches and which has at least so many bytes."""

    name: str
    path: str
    share: float
    least: int = 0

    def byte_of(self, sent: Sent) -> int | None:
        """Returns the bytes of this answer to pass on before the break; None if it does not break here."""
        place = int(self.share * sent.size) - sent.start
        matches = re.search(self.path, sent.path) and sent.size >= self.least
        return place if matches and 0 <= place <= sent.length else None


@dataclass
class Wire:
    """The line of all runs; `moments` are the remaining breaks, `sent` is every answer of every run."""

    folder: Path
    """TMPDIR of the runs: a short path, because a socket's path has at most 107 bytes."""
    moments: list[Moment]
    strike: Callable[[Moment], None]
    sent: list[Sent] = field(default_factory=list)
    _lines: list[socket.socket] = field(default_factory=list)
    _taken: set[Path] = field(default_factory=set)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Takes the place of every server that a run starts during the block."""
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._ended.set()
            watcher.join()
            for line in self._lines:
                _end(line)  # wakes the thread that reads from it
                line.close()

    def _watch(self) -> None:
        while not self._ended.wait(0.01):
            for place in self.folder.glob("enginehouse-bundle-*/socket"):
                if place not in self._taken:
                    self._taken.add(place)
                    self._take(place)

    def _take(self, place: Path) -> None:
        origin = self.folder / f"origin-{len(self._taken)}"
        place.rename(origin)
        line = socket.socket(socket.AF_UNIX)
        line.bind(str(place))
        line.listen(64)
        self._lines.append(line)
        threading.Thread(target=self._serve, args=(line, origin), daemon=True).start()

    def _serve(self, line: socket.socket, origin: Path) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = line.accept()
                threading.Thread(target=self._connection, args=(client, origin), daemon=True).start()

    def _connection(self, client: socket.socket, origin: Path) -> None:
        requests = SimpleQueue[tuple[str, str]]()
        with client, socket.socket(socket.AF_UNIX) as server:
            try:
                with contextlib.suppress(OSError):  # the server of a run that has ended does not listen
                    server.connect(str(origin))
                    threading.Thread(target=_requests, args=(client, server, requests), daemon=True).start()
                    with server.makefile("rb") as answers:
                        while self._pass_on(answers, client, requests):
                            pass
            finally:
                _end(client)
                _end(server)

    def _pass_on(self, answers: BinaryIO, client: socket.socket, requests: SimpleQueue[tuple[str, str]]) -> bool:
        """Passes an answer on; returns False at the end of the connection, and after a break."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = answers.readline()
            if not line:
                return False
            head += line
        method, path = requests.get(timeout=60)
        length, first = LENGTH.search(head), FIRST.search(head)
        sent = Sent(path, int(first[1]) if first else 0, int(length[1]) if length else 0)
        if method == "HEAD":
            client.sendall(head)
            return True
        with self._turn:
            self.sent.append(sent)
            near = next((moment for moment in self.moments if moment.byte_of(sent) is not None), None)
        last = near.byte_of(sent) if near else None
        if last != 0:
            client.sendall(head)
        while sent.passed < (sent.length if last is None else last):
            chunk = answers.read(min(CHUNK, (sent.length if last is None else last) - sent.passed))
            if not chunk:
                return False
            client.sendall(chunk)
            sent.passed += len(chunk)
        if near is None:
            return True
        with self._turn:
            is_first = near in self.moments
            self.moments = [moment for moment in self.moments if moment != near]
        if is_first:  # several connections may reach this moment at once
            self.strike(near)
        return False


def _requests(client: socket.socket, server: socket.socket, requests: SimpleQueue[tuple[str, str]]) -> None:
    """Passes requests on, which have no bodies, and queues method and path of each."""
    with contextlib.suppress(OSError), client.makefile("rb") as lines:
        request = b""
        while line := lines.readline():
            request += line
            if line == b"\r\n":
                method, path, *_ = request.decode("latin-1").split()
                requests.put((method, path))
                server.sendall(request)
                request = b""
    _end(server)


def _end(connection: socket.socket) -> None:
    """Ends a connection for every process that has it open."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def until(is_so: Callable[[], bool], seconds: float) -> bool:
    """Returns True as soon as the condition holds, asked every millisecond; False after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(0.001)
    return False
