"""The dead man's switch: a host reverts a change that may lock us out, unless a new connection confirms it.

The host saves the old files first and starts a timer (files/host/undo.py); then the change is made; then this program
logs in again and confirms. The connection that made the change proves nothing, because rules for new connections do not
affect an open one. So the confirmation comes over a second connection, with its own TCP handshake and login.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gevent
from paramiko import SSHException
from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand, StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.operation import OperationMeta

from deploy.doctor.readings import fields
from deploy.refusals import Refusal
from roles._pyinfra import connections
from roles._pyinfra.steps import CachedFact, Command, Refuse, step, write
from roles._shipping.places import SETTINGS, command, program, unit
from roles._shipping.texts import InstalledTexts, Text, is_unit, put, shipped

PROGRAM = command("undo")
UNIT = "enginehouse-undo.service"
DOCKER_BACK = (
    f"bash {program('docker-back.sh')} $(ip -4 -brief address show docker0 2>/dev/null | tr -s ' ' | cut -d' ' -f3)"
)
"""Command that restores Docker; its argument, docker0's address, is read while the old files are saved."""
KEPT = f"{SETTINGS}/undo"
UNITS_SECONDS = 20
"""Seconds after the last changed unit within which the change has to be confirmed."""
MADE_WITHIN_SECONDS = 300
"""Seconds for writing a few small files, even slowly; a silent connection ends sooner (connections.py)."""
RETRY_SECONDS = 2
CONNECTIONS = 5
NEVER_CONNECTED = ["no new connection could be made to change it"]
NO_LINE = (ConnectError, OSError, EOFError, SSHException)
GRACE_SECONDS = 150
"""Seconds beyond the time limit in which the host may revert the change, commands included."""


def installed() -> OperationMeta:
    """Installs the switch on the host; a change that is unconfirmed at a shutdown is reverted at the next boot."""
    docker_back = shipped("files/shell/docker-back.sh", program("docker-back.sh"), "0755")
    switch = shipped(f"files/units/{UNIT}", unit(UNIT))

    def decide(facts: dict[str, str]) -> Iterator[Command]:
        unit_first = list(put([switch], facts))
        is_missing = facts.get(docker_back.path) != docker_back.wanted_fact
        yield from unit_first
        if unit_first or is_missing:
            yield f"systemctl enable {UNIT}"
        # Written last, so that the run after one that was killed before it enabled the unit finds this file missing.
        if is_missing:
            yield write(docker_back.path, docker_back.content, docker_back.mode)

    fact = CachedFact(InstalledTexts, {"paths": (switch.path, docker_back.path)})
    return step(fact, decide, name="Undo | Install the program that reverts changes")


def texts_fact(role: str, wanted: Sequence[Text]) -> CachedFact[dict[str, str]]:
    return CachedFact(InstalledTexts, {"paths": (*(text.path for text in wanted), _kept(role))})


def put_texts(role: str, wanted: Sequence[Text], *, name: str, after: Sequence[OperationMeta] = ()) -> OperationMeta:
    """The step that places texts by `put_watched`."""
    return step(texts_fact(role, wanted), lambda facts: put_watched(role, wanted, facts), after=after, name=name)


def put_watched(role: str, wanted: Sequence[Text], facts: Mapping[str, str], *more: Command) -> Iterator[Command]:
    """Commands of `put`; if existing units change, the host keeps the old ones until a new SSH login."""
    commands = [*put(wanted, facts), *more]
    units = [text for text in wanted if is_unit(text.path)]
    changed = [text for text in units if text.path in facts and facts[text.path] != text.wanted_fact]
    if changed or _kept(role) in facts:
        yield from units_of(role, units).around(commands)
    else:
        yield from commands


def units_of(role: str, texts: Iterable[Text]) -> WatchedChange:
    return WatchedChange(
        name=f"units-{role}",
        what=f"the changed units ({role})",
        paths=tuple(text.path for text in texts),
        after=(),
        seconds=UNITS_SECONDS,
        attempt="journalctl -b on the host says what kept new connections out; then run again",
    )


def _kept(role: str) -> str:
    return f"{KEPT}/units-{role}/kept.json"


@dataclass(frozen=True, kw_only=True)
class WatchedChange:
    """A kind of change that may lock us out: the files that it changes, and the commands after their restoration.

    `after` is written between double quotes, so `$(…)` in it is evaluated when the files are saved. `seconds` begin
    when the change is made, because a slow connection or host is no evidence against the change.
    """

    name: str
    what: str
    paths: tuple[str, ...]
    after: tuple[str, ...]
    seconds: int
    attempt: str
    made_within: int = MADE_WITHIN_SECONDS
    """Seconds that the change itself may take: without a report of its end, the host waits this much longer."""

    @property
    def longest(self) -> int:
        """Seconds after which the host has begun to revert an unconfirmed change, wherever the run was interrupted."""
        return self.made_within + self.seconds

    def around(self, commands: Iterable[Command], risky: str = "") -> Iterator[Command]:
        """`commands`, then `risky`; the present files are saved first, and a new login confirms the change at the
        end.
        """
        made = f"{PROGRAM} watch {self.name} {self.seconds}"
        changes = list(commands)
        yield self.keep()
        if changes or risky:
            yield f"{PROGRAM} watch --making {self.name} {self.longest}"
        yield from changes
        # The host itself records the end of the risky change, because this run may be locked out by then.
        risk = Risk(self, f"{risky} && {made}") if risky else None
        yield risk or made
        yield Confirm(self, risk)

    def keep(self) -> str:
        """The command that saves the present content; an earlier copy of an unconfirmed change is kept."""
        words = [*(f'--after "{command}"' for command in self.after), *map(shlex.quote, self.paths)]
        return f"{PROGRAM} save {self.name} {' '.join(words)}"


class Risk(PyinfraCommand):
    """Runs a command that may cut its own connection, so that only the confirmation counts.

    A failing command is reverted at once, because there is nothing to confirm.
    """

    def __init__(self, watched: WatchedChange, command: str) -> None:
        super().__init__()
        self.watched, self.command, self.is_lost = watched, command, False

    def __repr__(self) -> str:
        return f"risk {self.command}"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True, unless the command ended with an error."""
        arguments: ConnectorArguments = {**connector_arguments, "_timeout": self.watched.longest}
        for _ in range(CONNECTIONS):
            done, output = over_a_new_connection(state, host, self.command, arguments)
            if done is not None or output != NEVER_CONNECTED:
                break
            gevent.sleep(RETRY_SECONDS)  # no command ran: a server may reject one of many simultaneous connections
        self.is_lost = done is None and output != NEVER_CONNECTED
        if done or self.is_lost:
            return True
        for line in output:
            host.log_styled(line, fg="red", log_func=logger.error)
        back = f"{PROGRAM} back {self.watched.name} 'the host refused the change'"
        if over_a_new_connection(state, host, back, connector_arguments)[0] is None:
            host.run_shell_command(StringCommand(back), **_limited(connector_arguments))
        host.log_styled(f"{self.watched.what} were reverted", fg="red", log_func=logger.error)
        return False


class Confirm(PyinfraCommand):
    """Confirms a change over a new connection; fails if the host reverted the change meanwhile."""

    def __init__(self, watched: WatchedChange, risk: Risk | None = None) -> None:
        super().__init__()
        self.watched, self.risk = watched, risk

    @property
    def within(self) -> int:
        """Seconds in which the change can be confirmed; more if the command's answer was lost and the command may still
        run."""
        return self.watched.longest if self.risk and self.risk.is_lost else self.watched.seconds

    def __repr__(self) -> str:
        return f"confirm {self.watched.name} over a new connection"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once the change is confirmed."""
        until, record = time.monotonic() + self.within, dict[str, Any]()
        while not record and time.monotonic() < until + GRACE_SECONDS:
            done = None
            if time.monotonic() < until:
                confirm = f"{PROGRAM} confirm {self.watched.name}"
                done, _ = over_a_new_connection(state, host, confirm, connector_arguments)
            if done:
                return True
            if done is False or time.monotonic() >= until:  # the login succeeded, and there is nothing to confirm (yet)
                record = self._taken_back(state, host, connector_arguments)
            if not record:
                gevent.sleep(RETRY_SECONDS)
        Refuse(self._refusal(record)).log(host)
        return False

    def _taken_back(self, state: State, host: Host, arguments: ConnectorArguments) -> dict[str, Any]:
        """The host's record of its revert; empty before a revert, or if the host does not answer."""
        read_record = f"cat {KEPT}/{self.watched.name}.taken-back.json"
        done, lines = over_a_new_connection(state, host, read_record, arguments)
        return fields("".join(lines)) if done else {}

    def _refusal(self, record: dict[str, Any]) -> Refusal:
        tried = f"a new SSH connection, again and again for {self.within} s"
        if not record:
            return Refusal(
                f"{self.watched.what} shut this program out, and the host still does not answer",
                facts={"tried": tried},
                attempt="look at its console: journalctl -u 'enginehouse-undo-*'",
                state="unknown; the host will revert the change by itself",
                kind="shut-out",
            )
        lines, paths = (record[name] if isinstance(record.get(name), list) else [] for name in ("said", "paths"))
        problems = {"problems": "; ".join(map(str, lines))} if lines else {}
        return Refusal(
            f"{self.watched.what} shut this program out, and the host has taken them back",
            facts={"tried": tried, "reverted": f"{', '.join(map(str, paths))}, {record.get('when')}", **problems},
            attempt=self.watched.attempt,
            state="the earlier settings are in force again",
            kind="shut-out",
        )


def over_a_new_connection(
    state: State, host: Host, command: str, arguments: ConnectorArguments
) -> tuple[bool | None, list[str]]:
    """True if a command succeeded over a separate new connection, None if its result is unknown; and the output.

    The connection comes from a second connector of the same kind and settings; pyinfra's connectors share no socket and
    use no ControlMaster.
    """
    fresh = type(host.connector)(state, host)
    try:
        try:
            fresh.connect()
        except NO_LINE:
            return None, NEVER_CONNECTED
        done, output = fresh.run_shell_command(StringCommand(command), **_limited(arguments))
        if not done and connections.is_lost(fresh):
            return None, []
    except NO_LINE:
        return None, []
    finally:
        client = getattr(fresh, "client", None)
        if client is not None:
            client.close()
    return done, list(output.stdout_lines if done else output.stderr_lines)


def _limited(arguments: ConnectorArguments) -> ConnectorArguments:
    """The arguments, with a time limit if they have none: a hanging host keeps its connection alive."""
    return arguments if arguments.get("_timeout") else {**arguments, "_timeout": GRACE_SECONDS}
