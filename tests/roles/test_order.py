"""Operations are in pyinfra's own order, with pyinfra's own arguments."""

from __future__ import annotations

import copy
import socket
from typing import Any
from unittest import mock

from paramiko import Transport
from pyinfra import config, host
from pyinfra.api import arguments, util
from pyinfra.operations import server

from roles._pyinfra import order
from roles._pyinfra.steps import CachedFact, step
from tests.roles.fake import run
from tests.roles.test_steps import Lines, make


def story() -> None:
    """Calls over several lines, in loops, and from a role."""
    for _ in host.loop("ab"):
        server.shell(
            "one",
            name="One",
        )
    look = CachedFact(Lines)
    [
        step(look, make(line), name=line)
        for line in ("c", "d")
    ]  # fmt: skip


def test_the_order_is_pyinfra_s_own() -> None:
    seen = list[tuple[list[int], list[int]]]()
    real = order.line_numbers

    def both(state: Any) -> list[int]:
        theirs = util.get_operation_order_from_stack(state)
        ours = real(state)
        # The last frame is this function's, at a different line in each.
        seen.append((theirs[:-1], ours[:-1]))
        return ours

    with mock.patch.object(order, "line_numbers", both):
        run(story)
    assert len(seen) == 4 and all(theirs == ours for theirs, ours in seen)


def test_the_arguments_are_pyinfra_s_own() -> None:
    seen = list[tuple[Any, Any]]()
    real = order.pop_global_arguments

    def both(state: Any, of: Any, named: dict[str, Any]) -> Any:
        theirs = arguments.pop_global_arguments(state, of, dict(named))
        ours = real(state, of, named)
        seen.append((theirs, copy.deepcopy(ours)))  # copied, since pyinfra removes entries later
        return ours

    def telling() -> None:
        server.shell("one", name="One")
        server.shell("one", name="One")
        host.data._env = {"said": "while it was prepared"}
        server.shell("one", name="One")
        config.SHELL = "bash"
        config.ENV["more"] = "while it was prepared"
        server.shell("one")
        server.shell("one", name="One", _sudo_user="somebody")

    with mock.patch.object(order, "pop_global_arguments", both):
        run(telling, data={"_sudo": True, "_timeout": 7, "_env": {"said": "in the inventory"}})
    assert len(seen) == 5 and all(theirs == ours for theirs, ours in seen)
    keywords = [ours for _theirs, (ours, _keys) in seen]
    assert all({"_sudo", "_parallel", "name"} <= set(chosen) for chosen in keywords)
    assert [ours["_env"]["said"] for ours in keywords] == ["in the inventory"] * 2 + ["while it was prepared"] * 3
    assert [ours["_shell_executable"] for ours in keywords] == ["sh"] * 3 + ["bash"] * 2
    assert (keywords[4]["_sudo"], keywords[4]["_sudo_user"], keywords[4]["_timeout"]) == (
        True,
        "somebody",
        7,
    )
    assert keywords[4]["_env"]["more"] == "while it was prepared"


def test_a_silent_connection_is_looked_after_once_a_second_and_not_ten_times() -> None:
    order.install()
    here, there = socket.socketpair()
    with there, here:
        Transport(here)
        assert here.gettimeout() == order.WAKE_SECONDS
