"""A connection from a host without a network to its bundle: a port of its loopback, forwarded to this machine through
SSH.

A server of the bundle listens on a socket of this machine that only its user can open. Beside pyinfra's connection, an
ssh with the connector's own settings forwards the host's port to this socket. Both end with the run: each waits on a
pipe that the run holds, so that a killed run leaves no process behind. A broken connection is made again.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile

import gevent
from gevent.lock import BoundedSemaphore
from gevent.subprocess import DEVNULL, PIPE, Popen
from gevent.threadpool import ThreadPool
from pyinfra import logger
from pyinfra.api import Host

from deploy.bundle.contents import Contents
from deploy.bundle.lacking import Bundled, kernel_problem, lacking
from deploy.io.bundle_verify import confirm_whole, opened
from deploy.io.local_paths import local_path
from deploy.planning.bundled import PLACE, PORT
from deploy.refusals import PREFLIGHT, Refusal, refuse_all
from deploy.slices.host import Slice
from roles._pyinfra import boots
from roles._shipping.rsync import ssh_words
from roles._shipping.texts import HERE

# ssh waits for the connections that it forwards. The ssh of a killed run held the port for 39 s, until a program of the
# host closed its connection; with setpriv, which ends ssh with its run, for 0.3 s (rehearsal machine, 2026-11-28).
READY_SECONDS, PAUSE_SECONDS, TRIES = 60, 3, 14
HOLDING = "echo ready; cat >/dev/null"
"""Command on the host that reports the open port, and runs as long as the pipe is open."""

_contents: dict[str, Contents] = {}
_servers: dict[str, tuple[Popen, str]] = {}
_lines: dict[str, Line] = {}
_turn = BoundedSemaphore()


def contents_of(mine: Bundled) -> Contents:
    with _turn:
        if mine.bundle not in _contents:
            directory = local_path(mine.bundle)
            contents = opened(directory, mine.engine_trust)
            confirm_whole(directory, contents, remember=True, mapping=ThreadPool(2).map)
            _contents[mine.bundle] = contents
        return _contents[mine.bundle]


def opened_for(host: Host, mine: Bundled, packages: tuple[str, ...]) -> None:
    """Connects the host to its bundle. Raises: a Refusal for parts that the bundle lacks, before the first change."""
    refuse_all(lacking(mine, packages, contents_of(mine)))
    if host.name not in _lines:
        _lines[host.name] = Line(host, mine)
        _lines[host.name].open()
    if again not in boots.AFTER:
        boots.AFTER.append(again)


def again(host: Host) -> bool:
    """True if a rebooted host is connected to its bundle again, or uses no bundle."""
    line = _lines.get(host.name)
    if line and (problem := line.renewed()):
        for text in str(problem).splitlines():
            host.log_styled(text, fg="red", log_func=logger.error)
        return False
    return True


def kernel_refusal(mine: Slice, kernel: str) -> Refusal | None:
    return kernel_problem(mine, kernel, contents_of(mine)) if mine.bundle else None


class Line:
    """An SSH connection that forwards a host's port to the bundle's server."""

    def __init__(self, host: Host, mine: Bundled) -> None:
        self.host, self.mine = host, mine
        self.process: Popen | None = None
        self.turn = BoundedSemaphore()

    def open(self) -> None:
        """Opens the port; a greenlet keeps it open. Raises: a Refusal with the error of ssh."""
        if self.host.connector_cls.__name__ == "LocalConnector":
            _server(self.mine.bundle, f"tcp:{PORT}")
            return
        if problem := self.renewed():
            raise problem
        gevent.spawn(self._kept)

    def renewed(self) -> Refusal | None:
        """None once a new connection has opened the port; else the reason. The old connection is closed."""
        if self.process is None and self.host.connector_cls.__name__ == "LocalConnector":
            return None
        with self.turn:
            before, problem_text = self.process, ""
            if before:
                before.kill()
            for _ in range(TRIES):
                problem_text = self._started()
                if not problem_text:
                    return None
                gevent.sleep(PAUSE_SECONDS)
        return Refusal(
            f"{self.host.name}: this host cannot reach its bundle",
            facts={"seen": problem_text, "wanted": f"port {PORT} of its loopback, forwarded by ssh"},
            attempt="AllowTcpForwarding remote (or yes) in /etc/ssh/sshd_config on the host, and nothing else on"
            f" that port (ss -ltnp | grep :{PORT})",
            state=PREFLIGHT,
            kind="bundle-unreachable",
        )

    def _started(self) -> str:
        """The reason why the port did not open; empty once it is open."""
        _, socket = _server(self.mine.bundle, "")
        words, target = ssh_words(self.host)
        own = [
            *("-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "ExitOnForwardFailure=yes"),
            *("-o", "LogLevel=ERROR"),
        ]
        ending = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        argv = [*ending, *words, *own, "-R", f"{PLACE}:{socket}", target, HOLDING]
        self.process = Popen(argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True)
        line = ""
        with gevent.Timeout(READY_SECONDS, False):
            line = self.process.stdout.readline()
        if line.strip() == "ready":
            return ""
        self.process.kill()
        return self.process.stderr.read().strip()[-300:] or f"no answer within {READY_SECONDS} s"

    def _kept(self) -> None:
        while True:
            process = self.process
            assert process is not None
            process.wait()
            if process is self.process and not self.turn.locked():
                self.host.log("the connection to the bundle broke; it is made again", log_func=logger.warning)
                self.renewed()
            gevent.sleep(PAUSE_SECONDS)


def _server(bundle: str, place: str) -> tuple[Popen, str]:
    with _turn:
        if bundle not in _servers:
            socket = f"{tempfile.mkdtemp(prefix='enginehouse-bundle-')}/socket"
            words = [str(local_path(bundle)), place or f"unix:{socket}"]
            argv = [sys.executable, "-m", "deploy.io.bundle_serve", *words]
            environment = os.environ | {"PYTHONPATH": str(HERE)}
            process = Popen(argv, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True, env=environment)
            if process.stdout.readline().strip() != "ready":
                raise _not_served(bundle, process.wait(), words)
            _servers[bundle] = (process, socket)
        return _servers[bundle]


def _not_served(bundle: str, exit_status: int, words: list[str]) -> Refusal:
    return Refusal(
        f"the bundle {bundle} cannot be served",
        facts={"seen": f"its server ended with {exit_status}", "wanted": words[1]},
        attempt=shlex.join([sys.executable, "-m", "deploy.io.bundle_serve", *words]),
        state=PREFLIGHT,
        kind="bundle-not-served",
    )
