"""The window in which a change can be confirmed: its beginning and its length."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any
from unittest import mock

import pytest
from pyinfra.api import FactBase

from roles._pyinfra import undo
from roles._pyinfra.facts import HostFacts, Unit
from roles._pyinfra.steps import CachedFact, step
from roles._shipping.texts import Text
from roles.docker.defaults import Defaults
from roles.docker.operations import WantedDocker, watched
from roles.docker.operations import run as restarted
from tests.roles.fake import Ran, run
from tests.roles.slices import SERVER, a_slice

UNIT = Text("/etc/systemd/system/triton@.service", "new\n")
DROP_IN = Text("/etc/systemd/system/triton@main.service.d/enginehouse.conf", "new\n")
CHANGE = undo.WatchedChange(
    name="x", what="the change", paths=("/etc/x",), after=(), seconds=20, attempt="", made_within=100
)
NOTE = '{"why": "", "when": "05:52", "paths": ["/etc/x"], "said": []}'
Answer = tuple[bool | None, list[str]]


def verbs(ran: Sequence[object]) -> list[str]:
    """Each command in a few words: undo's verb with its arguments, the written path, or the whole."""
    lines = [str(command).split("\n")[0].removeprefix(f"{undo.PROGRAM} ") for command in ran]
    return [line.split()[-1] if line.startswith("mkdir") else line for line in lines]


def test_the_time_to_confirm_units_begins_after_their_reload() -> None:
    """Until then a longer timer runs, so that a run killed in between leaves no permanent change."""
    seen = {UNIT.path: f"{sha256(b'old').hexdigest()} 644 root"}
    commands = verbs(list(undo.put_watched("triton", (UNIT, DROP_IN), seen)))
    assert commands[1:] == [
        f"watch --making units-triton {undo.MADE_WITHIN_SECONDS + undo.UNITS_SECONDS}",
        UNIT.path,
        DROP_IN.path,
        "systemctl daemon-reload",
        f"watch units-triton {undo.UNITS_SECONDS}",
        "confirm units-triton over a new connection",
    ]


def test_a_change_already_in_force_is_confirmed_within_the_time_to_confirm() -> None:
    assert verbs(list(CHANGE.around([])))[1:] == ["watch x 20", "confirm x over a new connection"]


def test_the_host_itself_reports_the_end_of_a_risky_change() -> None:
    """Only the host itself can report it reliably while it is unreachable; a failed step is never reported as done."""
    commands = list(CHANGE.around([], risky="restart"))[2]
    assert isinstance(commands, undo.Risk)
    assert commands.command == f"restart && {undo.PROGRAM} watch x 20"


@pytest.mark.parametrize(("stops", "least"), [((), 90), ((10,), 90), ((90,), 120), ((30, 3600), 3630)])
def test_a_docker_change_waits_for_the_longest_drain_before_its_confirmation(
    stops: tuple[int, ...], least: int
) -> None:
    mine = a_slice(servers=tuple(replace(SERVER, stop_seconds=seconds) for seconds in stops))
    change = watched(WantedDocker.of(mine, Defaults(confirm_seconds=25)))
    assert (change.seconds, change.longest - change.seconds >= least + 30) == (25, True)


def test_an_engine_that_still_starts_is_awaited_before_its_settings_are_confirmed() -> None:
    """A run was killed during the restart: docker0 may not have its new address yet, and the login works anyway."""
    starting = HostFacts(
        units={"docker.service": Unit("loaded", "activating", "enabled")}, values={"unconfirmed": "/etc/x"}
    )
    risk = [act for act in restarted(starting, WantedDocker.of(a_slice(), Defaults())) if isinstance(act, undo.Risk)]
    assert [" start docker.service" in act.command for act in risk] == [True]


class Nothing(FactBase[str]):
    """A fact for which every answer needs the change."""

    def command(self) -> str:
        return "true"


def confirmed(answer: Callable[[str, float], Answer]) -> Ran:
    """The change on a host whose new connections answer `answer` to a command, after that many seconds."""
    clock = [0.0]

    def second(state: object, host: object, command: str, arguments: dict[str, Any]) -> Answer:
        clock[0] += 5
        if "restart" in command and answer(command, clock[0])[0] is None:
            clock[0] += 30  # longer than the change may remain unconfirmed
        return answer(command, clock[0])

    def passed(seconds: float) -> None:
        clock[0] += seconds

    def commands(_: str) -> Iterator[object]:
        yield from CHANGE.around([], risky="restart")

    with (
        mock.patch.object(undo, "over_a_new_connection", second),
        mock.patch.object(undo, "time", mock.Mock(wraps=time, monotonic=lambda: clock[0])),
        mock.patch.object(undo, "gevent", mock.Mock(sleep=passed)),
    ):
        return run(lambda: step(CachedFact(Nothing), commands, name="Change"))


def test_a_slow_change_is_confirmed_at_the_next_login() -> None:
    """The connection that made it was lost meanwhile, as by a bridge that is made again."""
    ran = confirmed(lambda command, now: (None, []) if "restart" in command or now < 90 else (True, []))
    assert ran.failed_hosts == ()


def test_an_undone_change_is_reported_at_the_first_connection() -> None:
    def answer(command: str, now: float) -> Answer:
        if command.startswith("cat"):
            return (True, [NOTE]) if now >= 60 else (None, [])
        return (None, []) if "restart" in command or now < 60 else (False, [])

    moments: list[float] = []
    ran = confirmed(lambda command, now: (moments.append(now), answer(command, now))[1])
    assert ran.failed_hosts == ("host",)
    assert "the change shut this program out, and the host has taken them back" in "\n".join(ran.log)
    assert max(moments) < 80


def test_a_host_that_turns_one_connection_away_is_asked_again() -> None:
    """sshd refuses connections if many come at once; no command ran there, so none has to end."""
    commands: list[str] = []

    def answer(command: str, now: float) -> Answer:
        commands.append(command)
        return (None, undo.NEVER_CONNECTED) if now < 60 and "restart" in command else (True, [])

    assert confirmed(answer).failed_hosts == ()
    assert len([command for command in commands if command.endswith("confirm x")]) == 1


def test_a_failed_connection_is_not_reported_as_a_lockout() -> None:
    ran = confirmed(lambda command, now: (None, undo.NEVER_CONNECTED))
    text = "\n".join(ran.log)
    assert ran.failed_hosts == ("host",)
    assert "no new connection could be made to change it" in text and "shut this program out" not in text


def test_no_command_over_a_new_connection_is_without_an_end() -> None:
    """A host with a hanging disk accepts the connection, and keeps it open."""
    assert [undo._limited(arguments).get("_timeout") for arguments in ({}, {"_timeout": None}, {"_timeout": 270})] == [
        undo.GRACE_SECONDS,
        undo.GRACE_SECONDS,
        270,
    ]


def test_a_host_that_never_answers_again_is_given_up() -> None:
    ran = confirmed(lambda command, now: (None, []))
    assert "the host still does not answer" in "\n".join(ran.log)
