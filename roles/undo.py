"""The dead man's switch: what may shut us out is taken back by the host itself unless a new connection confirms it.

The host keeps the old files first and starts a timer (files/undo/undo.py); then the change is made; then this program
logs in anew and says that it got in. The connection that made the change proves nothing: rules for new connections
leave an open one alone. So the confirmation comes over a second one, with a TCP handshake and a login of its own.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import gevent
from paramiko import SSHException
from pyinfra.api import Host, State
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand, StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.operation import OperationMeta

from deploy.errors import Refusal
from roles.places import SETTINGS, program, unit
from roles.steps import Command, Reading, Refuse, step
from roles.texts import Seen, put, shipped

PROGRAM = program("undo.py")
UNIT = "enginehouse-undo.service"
KEPT = f"{SETTINGS}/undo"
RETRY_SECONDS = 2
GRACE_SECONDS = 150
"""How long after its time the host may take to put everything back, its commands included."""


def installed() -> OperationMeta:
    """The host has the switch, and what is left unconfirmed when it goes down is taken back at its next boot."""
    texts = [shipped("files/undo/undo.py", PROGRAM, "0755"), shipped(f"files/undo/{UNIT}", unit(UNIT))]

    def decide(seen: dict[str, str]) -> Iterator[Command]:
        missing = list(put(texts, seen))
        yield from missing
        if missing:
            yield f"systemctl enable {UNIT}"

    reading = Reading(Seen, {"paths": tuple(text.path for text in texts)})
    return step(reading, decide, name="Undo | Install what takes changes back")


def keep(name: str, paths: Sequence[str], after: Sequence[str] = ()) -> str:
    """The command that keeps what `paths` hold now; `after` are run once that has been put back."""
    words = [*(f"--after {shlex.quote(command)}" for command in after), *map(shlex.quote, paths)]
    return f"python3 -B {PROGRAM} save {name} {' '.join(words)}"


def watch(name: str, seconds: int) -> str:
    """The command after which the host takes everything back in `seconds`, unless it is confirmed."""
    return f"python3 -B {PROGRAM} watch {name} {seconds}"


def watched(
    name: str,
    *,
    what: str,
    paths: Sequence[str],
    commands: Iterable[Command],
    after: Sequence[str],
    seconds: int,
    attempt: str,
) -> Iterator[Command]:
    """`commands`, which change `paths`, between keeping what was there and confirming that we still get in."""
    yield keep(name, paths, after)
    yield watch(name, seconds)
    yield from commands
    yield Confirm(name, what, seconds, attempt)


class Confirm(PyinfraCommand):
    """A new connection says that it got in; or this host fails with what was taken back, once it has been."""

    def __init__(self, name: str, what: str, seconds: int, attempt: str) -> None:
        super().__init__()
        self.name, self.what, self.seconds, self.attempt = name, what, seconds, attempt

    def __repr__(self) -> str:
        return f"confirm {self.name} over a new connection"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once it is confirmed."""
        until = time.monotonic() + self.seconds
        while time.monotonic() < until:
            if over_a_new_connection(state, host, f"python3 -B {PROGRAM} confirm {self.name}", connector_arguments):
                return True
            gevent.sleep(RETRY_SECONDS)
        Refuse(self._refusal(self._taken_back(state, host, connector_arguments))).tell(host)
        return False

    def _taken_back(self, state: State, host: Host, arguments: ConnectorArguments) -> dict[str, Any]:
        """What the host says it has put back; empty where it cannot be asked, however long one waits."""
        until = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < until:
            lines = over_a_new_connection(state, host, f"cat {KEPT}/{self.name}.taken-back.json", arguments)
            if lines:
                return dict(json.loads("".join(lines)))
            gevent.sleep(RETRY_SECONDS)
        return {}

    def _refusal(self, told: dict[str, Any]) -> Refusal:
        tried = f"a new SSH connection, again and again for {self.seconds} s"
        if not told:
            return Refusal(
                f"{self.what} shut this program out, and the host still does not answer",
                facts={"tried": tried},
                attempt="look at its console: journalctl -u 'enginehouse-undo-*'",
                state="unknown; the host was told to take the change back by itself",
                kind="shut-out",
            )
        problems = {"problems": "; ".join(told["said"])} if told["said"] else {}
        return Refusal(
            f"{self.what} shut this program out, and the host has taken them back",
            facts={"tried": tried, "taken back": f"{', '.join(told['paths'])}, {told['when']}", **problems},
            attempt=self.attempt,
            state="what was there before is in force again",
            kind="shut-out",
        )


def over_a_new_connection(state: State, host: Host, command: str, arguments: ConnectorArguments) -> list[str] | None:
    """Output of a command over a connection made for it (a blank line where it had none); None if either did not work.

    A second connector of the host's own kind and settings: pyinfra's shares no socket, and knows no ControlMaster.
    """
    fresh = type(host.connector)(state, host)
    try:
        fresh.connect()
        done, output = fresh.run_shell_command(StringCommand(command), **arguments)
    except (ConnectError, OSError, EOFError, SSHException):
        return None
    finally:
        client = getattr(fresh, "client", None)
        if client is not None:
            client.close()
    return [*output.stdout_lines, ""] if done else None
