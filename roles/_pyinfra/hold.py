"""The lock of a host: a shell on the host that holds it as long as the run's own connection keeps it alive.

It is a flock on FILE, in memory, held by a shell that reads its standard input. So it ends with the connection, for any
reason (a killed control process, a broken connection, a reboot), and after SILENT_SECONDS without input, as from a
sleeping laptop or a network that drops packets. It needs bash and flock, which every Debian and Ubuntu has.

The run sends a line every RENEW_SECONDS, and the shell answers. If the last answer is old, the run asks the shell
before its next command; if the shell has ended, the run takes the lock again, unless another run held it meanwhile.

At the end of a run its shell writes the host's uptime to FILE. The next run's shell reports it, so that the run knows
whether another run can have changed the host since the host's answers began. A killed shell writes no such line; on a
host without this project's settings the shell deletes the file.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import gevent
from gevent.lock import BoundedSemaphore
from gevent.subprocess import PIPE, Popen
from paramiko import SSHException
from pyinfra.api import Host, QuoteString, StringCommand
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS, pop_global_arguments
from pyinfra.connectors.local import LocalConnector
from pyinfra.connectors.util import make_unix_command_for_host

from roles._pyinfra import connections

FILE = "/run/enginehouse.lock"
OURS = "/etc/enginehouse"
"""Directory of a host's settings; without it a host keeps no record of an ended run."""
RENEW_SECONDS, SILENT_SECONDS = 20, 120
FRESH_SECONDS = 90
"""Seconds for which the host's last answer proves that this run holds the lock: SILENT_SECONDS less the time of a
command."""
ANSWER_SECONDS = 30
HOLDING = f"""umask 077
while :; do
  exec 9<>"$0" || exit
  # A run that ended a moment ago may still hold it: its shell hears of that a moment later.
  flock -w 5 9 || {{ echo "held $(cat "$0")"; exit; }}
  [ "$0" -ef /proc/self/fd/9 ] && break
done
was=$(cat "$0") ended=
case $was in "ended "*) ended=${{was#ended }} was= ;; esac
[ -z "$2" ] || [ "$was" = "$1" ] || {{ echo "gone $was"; exit; }}
echo "$1" >"$0" && echo "mine${{ended:+ $ended}}"
while :; do
  read -r -t {SILENT_SECONDS} _
  heard=$?
  [ $heard -eq 0 ] || break
  echo here
done
[ $heard -gt 128 ] || {{ [ -d {OURS} ] && read -r up _ </proc/uptime && echo "ended $up" >"$0"; }} || rm -f "$0"
"""
"""Shell that holds the file `$0` for the run that `$1` describes; with `$2`, only if that run was the last holder.

After a silence (`read` returns more than 128) the file stays: a run that wakes up reads in the file whether another run
came.
"""
NO_LINE = (OSError, EOFError, SSHException)
TAKEN_BY_CONNECTORS = ("_timeout", "_stdin", "_get_pty", "_success_exit_codes")
"""Arguments of a command that pyinfra's connectors handle themselves."""
_arguments = cast(Callable[..., tuple[dict[str, Any], list[str]]], pop_global_arguments)


class Hold:
    """The lock of a host as this run holds it. Commands are not checked while the run holds no lock.

    `on_loss` gets the host's reply, in the form of `take`, if this run would continue without the lock.
    """

    def __init__(self, held: Host, record: str, on_loss: Callable[[str], None]) -> None:
        self.host, self.record, self.on_loss = held, record, on_loss
        connector_arguments = _arguments(held.state, held, dict(held.current_op_global_arguments or {}))[0]
        keys = [key for key in CONNECTOR_ARGUMENT_KEYS if key not in TAKEN_BY_CONNECTORS]
        self._as_user = {key: connector_arguments[key] for key in keys if key in connector_arguments}
        self.last_ended: float | None = None
        """Uptime of the host at the end of the previous run; None if unknown, or if that run was interrupted."""
        self._line: Line | None = None
        self._answered = 0.0
        self._turn = BoundedSemaphore()

    def take(self, again: bool = False) -> str:
        """The host's reply: "mine", "held HOLDER", with `again` also "gone HOLDER"; else the problem."""
        words = [QuoteString(word) for word in (HOLDING, FILE, self.record, "again" if again else "")]
        reply = f"nothing within {ANSWER_SECONDS} s"
        try:
            with gevent.Timeout(ANSWER_SECONDS, False):
                asked_at = now()
                line = opened(self.host, StringCommand("bash -c", *words), self._as_user)
                if line is None:  # a connector without long-running commands, which no real host uses
                    return "mine"
                reply = line.answer() or line.problem() or "nothing"
                if reply.partition(" ")[0] == "mine":
                    reply, _, ended = reply.partition(" ")
                    self.last_ended = float(ended) if ended else None
                    self._line, self._answered = line, asked_at
                    self._guard()
                    gevent.spawn(self._renew, line)
        except NO_LINE as problem:
            reply = f"no second session: {problem}"
        return reply

    def close(self) -> None:
        """Releases the host, so that another run may take it."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def confirm(self) -> None:
        """Confirms by the host's answers that this run holds the host. Raises: ConnectionError if it does not."""
        if self._is_fresh():
            return
        reply = f"nothing within {ANSWER_SECONDS} s"
        with gevent.Timeout(ANSWER_SECONDS, False), self._turn:
            if self._line is not None and not self._is_fresh() and not self._say(self._line):
                reply = self.take(again=True)
        if self._is_fresh() or connections.is_lost(self.host.connector):  # a lost connection has its own report
            return
        self.on_loss(reply)
        raise ConnectionError("this run no longer holds the host")

    def _is_fresh(self) -> bool:
        return self._line is None or (self._line.is_open and now() - self._answered < FRESH_SECONDS)

    def _say(self, line: Line) -> bool:
        """True if the host's shell has answered; the shell ends if it gets no line from this run in time."""
        asked_at, answer = now(), ""
        with contextlib.suppress(*NO_LINE):
            line.say()
            answer = line.answer()
        line.is_open = bool(answer)
        if answer:
            self._answered = asked_at
        return bool(answer)

    def _renew(self, line: Line) -> None:
        while line.is_open and line is self._line:
            gevent.sleep(RENEW_SECONDS)
            with self._turn:
                if line is self._line:
                    self._say(line)

    def _guard(self) -> None:
        """Makes every further command of this run check first that this run still holds the host."""
        connector = self.host.connector
        if "run_shell_command" in vars(connector):
            return

        @functools.wraps(connector.run_shell_command)
        def guarded(*arguments: Any, **more: Any) -> Any:
            self.confirm()
            return type(connector).run_shell_command(connector, *arguments, **more)

        connector.run_shell_command = guarded


@dataclass(eq=False)
class Line:
    """A running command on a host, with its input, output and error output."""

    heard: Any
    reply: Any
    complaints: Any
    is_open: bool = True

    def say(self) -> None:
        """Sends an empty line."""
        self.heard.write(b"\n")
        self.heard.flush()

    def answer(self) -> str:
        return _text(self.reply.readline())

    def problem(self) -> str:
        return _text(self.complaints.read())

    def close(self) -> None:
        """Ends the command's input, and so the command."""
        self.is_open = False
        with contextlib.suppress(*NO_LINE):
            self.heard.close()


def _text(output: str | bytes) -> str:
    return (output.decode(errors="replace") if isinstance(output, bytes) else output).strip()


def opened(held: Host, command: StringCommand, as_user: Mapping[str, Any]) -> Line | None:
    """A command started over the host's connection; None if its connector keeps no connection open."""
    shell = make_unix_command_for_host(held.state, held, command, **as_user).get_raw_value()
    client = getattr(held.connector, "client", None)
    if client is not None:
        return Line(*client.exec_command(shell))
    if isinstance(held.connector, LocalConnector):
        process = Popen(shell, shell=True, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        return Line(process.stdin, process.stdout, process.stderr)
    return None


def now() -> float:
    """Seconds on a clock that continues while this machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
