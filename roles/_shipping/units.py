"""Long work as systemd units: started early, awaited late. Killing pyinfra does not affect it.

The programs of the units report their progress in systemd's own status line (`STATUS=` of sd_notify), so that it is
visible here, in `systemctl status`, and to a second run, which attaches instead of starting again.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import gevent
from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand, StringCommand

from roles._pyinfra.facts import HostFacts
from roles._shipping.places import UNITS

PROPERTIES = "ActiveState,SubState,Result,StatusText,Job,InvocationID"
LONGEST_SILENCE_SECONDS = 30
"""Seconds without a report from a unit: long work reports twice a minute, short work at each event."""
ASKED_SECONDS = 120
PAUSE_SECONDS = 0.2
"""Seconds between two questions at least, if a host answers at once, whatever the reason."""
KILLED = ("signal", "core-dump", "oom-kill", "timeout", "watchdog")
NOTHING_LOST = "  state   no serving program was changed; the next run continues from the present state"
GOING = ("activating", "active", "reloading", "deactivating")


@dataclass(frozen=True)
class UnitState:
    """State of a unit in systemd; an unknown unit is inactive."""

    active: str = "inactive"
    sub: str = ""
    result: str = "success"
    status: str = ""
    job: str = ""
    invocation: str = ""

    @property
    def is_going(self) -> bool:
        return self.active in GOING or self.job not in ("", "0")

    @classmethod
    def of(cls, lines: list[str]) -> UnitState:
        """The state in the output of `ask`."""
        properties = dict(line.split("=", 1) for line in lines if "=" in line)
        return cls(
            active=properties.get("ActiveState", "inactive"),
            sub=properties.get("SubState", ""),
            result=properties.get("Result", "success"),
            status=properties.get("StatusText", ""),
            job=properties.get("Job", ""),
            invocation=properties.get("InvocationID", ""),
        )


def ask(unit: str) -> str:
    """The shell command with the output for `UnitState.of`; it always exits zero."""
    return f"systemctl show -p {PROPERTIES} {shlex.quote(unit)} 2>/dev/null || true"


def ask_later(unit: str, seconds: float) -> str:
    """The shell command of `ask` that first waits on the host for the end of the unit's process, for `seconds` at
    most. It waits that long if the unit has no process, because process 1 does not end."""
    processes = f"systemctl show -p MainPID -p ControlPID {shlex.quote(unit)} 2>/dev/null"
    process = f"$({processes} | sed -n 's/^.*PID=\\([1-9]\\)/\\1/p' | head -n 1)"
    return f"pid={process}; timeout {seconds:.1f} tail -s 0.1 --pid=${{pid:-1}} -f /dev/null; {ask(unit)}"


def start(unit: str) -> str:
    """The shell command that starts a unit without waiting, and clears an earlier failure."""
    quoted = shlex.quote(unit)
    return f"{{ systemctl reset-failed {quoted} 2>/dev/null || true; }} && systemctl start --no-block {quoted}"


def kept_running(facts: HostFacts, unit: str, otherwise: str = "") -> Iterator[str]:
    """The command after which a unit runs now and after every boot; the words `otherwise` follow it."""
    state = facts.unit(unit)
    if not state.runs or not state.starts_at_boot:
        yield f"systemctl enable --now {unit}{otherwise}"


def taken_off(unit: str, *left: str) -> str:
    """The command that ends a service, and removes its unit and the files `left`."""
    return f"systemctl disable --now {unit}; rm -rf {' '.join((*left, f'{UNITS}/{unit}'))} && systemctl daemon-reload"


class Follow(PyinfraCommand):
    """Waits for a oneshot unit to end, logging its progress; fails with its last messages, or after `seconds`."""

    def __init__(
        self,
        unit: str,
        what: str,
        seconds: int,
        explain: Callable[[Host, ConnectorArguments], None] | None = None,
        after: str = "",
    ) -> None:
        super().__init__()
        # Command for a host whose unit failed; the command's own failure is ignored.
        self.after = after
        self.unit, self.what, self.seconds, self.explain = unit, what, seconds, explain

    def __repr__(self) -> str:
        return f"follow {self.unit}"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once the unit has succeeded."""
        state_of_unit = self._ended(host, connector_arguments)
        if state_of_unit is None:
            return self._too_long(host)
        if state_of_unit.active == "failed" or state_of_unit.result != "success":
            self._log_reason(host, connector_arguments, state_of_unit)
            if self.after:
                run(host, self.after, connector_arguments)
            return False
        return True

    def _ended(self, host: Host, arguments: ConnectorArguments) -> UnitState | None:
        """The unit's state at its end; None if it still runs after `seconds`."""
        began, last_status, next_line, command = time.monotonic(), "", 0.0, ask(self.unit)
        while (elapsed := time.monotonic() - began) < self.seconds:
            lines = run(host, command, arguments)
            unit_state = UnitState.of(lines)
            # systemd gives no answer while it re-executes itself, as in its own upgrade; the unit has not ended then.
            if not unit_state.is_going and any(line.startswith("ActiveState=") for line in lines):
                return unit_state
            if unit_state.status and unit_state.status != last_status and elapsed >= next_line:
                last_status = unit_state.status
                next_line = elapsed + min(LONGEST_SILENCE_SECONDS, elapsed / 20)
                host.log(f"{self.what}: {last_status}", log_func=logger.info)
            # Waits a tenth of the elapsed time, to report progress; the host answers at once when the unit ends.
            command = ask_later(self.unit, min(max(0.5, elapsed / 10), 5.0))
            gevent.sleep(PAUSE_SECONDS)
        return None

    def _log_reason(self, host: Host, arguments: ConnectorArguments, unit_state: UnitState) -> None:
        if self.explain:
            self.explain(host, arguments)
            return
        match = (
            f"_SYSTEMD_INVOCATION_ID={unit_state.invocation}"
            if unit_state.invocation
            else f"-u {shlex.quote(self.unit)}"
        )
        lines = run(host, f"journalctl -q -o cat -n 14 {match} || true", arguments)
        if unit_state.result in KILLED:
            # A killed unit could not log the reason itself.
            lines += [
                f"{self.what}: {self.unit} was ended by another program or a person ({unit_state.result})",
                NOTHING_LOST,
            ]
        for line in lines:
            host.log_styled(line, fg="red", log_func=logger.error)

    def _too_long(self, host: Host) -> bool:
        host.log_styled(
            f"{self.what}: {self.unit} still runs after {self.seconds} s; it continues; a second run attaches",
            fg="red",
            log_func=logger.error,
        )
        return False


def run(host: Host, command: str, arguments: ConnectorArguments) -> list[str]:
    """Standard output of a command that never fails, with the operation's own sudo settings.

    Empty if the command does not end in the caller's time, because a host whose systemd hangs keeps its connection
    alive.
    """
    try:
        _, output = host.run_shell_command(StringCommand(command), **{**arguments, "_timeout": ASKED_SECONDS})
    except TimeoutError:
        return []
    return list(output.stdout_lines)
