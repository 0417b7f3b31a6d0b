"""Fake hosts held by real shells: the shared part of the tests of a run's lock."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import gevent
from gevent.subprocess import PIPE, Popen

from roles._pyinfra import hold, lock

THEIRS = json.dumps({"run": "20261122-101502-3f9c", "who": "ada@desk", "since": "2026-11-22T10:15:02Z", "plan": "77aa"})


class Hosts:
    """A folder as the /run of each host, and the shells that hold them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shells = folder, list[Any]()
        self.ours = folder / "settings"

    def file(self, name: str) -> Path:
        """The lock of one host."""
        return self.folder / name

    def here(self, command: str, name: str) -> str:
        """A host's command, changed to run in the folder."""
        command = command.replace(hold.FILE, str(self.file(name))).replace(hold.OURS, str(self.ours))
        return command.replace("flock -w 5", "flock -w 0.2")

    def begun(self, command: str, name: str) -> tuple[Any, Any, Any]:
        """The streams of a command started on a host."""
        shell = Popen(
            self.here(command, name), shell=True, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        self.shells.append(shell)
        return shell.stdin, shell.stdout, shell.stderr

    def held(self, name: str, holder: str = THEIRS, script: str = hold.HOLDING, again: str = "") -> tuple[Any, str]:
        """The shell of another run on a host, and its answer."""
        words = ["bash", "-c", self.here(script, name), str(self.file(name)), holder, again]
        shell = Popen(words, stdin=PIPE, stdout=PIPE, start_new_session=True)
        self.shells.append(shell)
        return shell, shell.stdout.readline().decode().strip()

    def die(self) -> None:
        """Kills every shell with its children."""
        for shell in self.shells:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()

    def end(self) -> None:
        """Ends every shell and closes its streams."""
        self.die()
        for stream in (stream for shell in self.shells for stream in (shell.stdin, shell.stdout, shell.stderr)):
            with contextlib.suppress(AttributeError, OSError):
                _close(stream)

    def holder(self, name: str) -> lock.Holder | None:
        """The run that holds a host, by the fact that a run asks first."""
        fact: Any = lock.HolderNow()
        ran = subprocess.run(["sh", "-c", self.here(fact.command(), name)], capture_output=True, text=True, check=True)
        return fact.process(ran.stdout.splitlines()) if ran.stdout else fact.default()


def _close(stream: Any) -> None:
    """Closes the stream after its reader has had two seconds to reach the end."""
    for _ in range(200):
        try:
            return stream.close()
        except RuntimeError:
            gevent.sleep(0.01)
    stream.close()
