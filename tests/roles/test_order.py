"""Operations stand where pyinfra itself would put them, with the arguments that it would give them."""

from __future__ import annotations

import copy
from typing import Any
from unittest import mock

from pyinfra import host
from pyinfra.api import arguments, util
from pyinfra.operations import server

from roles import order
from roles.steps import Reading, step
from tests.roles.fake import run
from tests.roles.test_steps import Lines, make


def story() -> None:
    """Calls over several lines, in loops, and from a role."""
    for _ in host.loop("ab"):
        server.shell(
            "one",
            name="One",
        )
    look = Reading(Lines)
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
        # The frame of this function is in both, at two of its lines.
        seen.append((theirs[:-1], ours[:-1]))
        return ours

    with mock.patch.object(order, "line_numbers", both):
        run(story)
    assert len(seen) == 4 and all(theirs == ours for theirs, ours in seen)


def test_the_arguments_are_pyinfra_s_own() -> None:
    seen = list[tuple[Any, Any]]()
    real = order.pop_global_arguments

    def both(state: Any, of: Any, given: dict[str, Any]) -> Any:
        theirs = arguments.pop_global_arguments(state, of, dict(given))
        ours = real(state, of, given)
        seen.append((theirs, copy.deepcopy(ours)))  # pyinfra goes on to take some out
        return ours

    def telling() -> None:
        host.data._env = {"said": "while it was prepared"}
        server.shell("one", name="One", _sudo_user="somebody")

    with mock.patch.object(order, "pop_global_arguments", both):
        run(telling, data={"_sudo": True, "_timeout": 7, "_env": {"said": "in the inventory"}})
    ((theirs, ours),) = seen
    assert ours == theirs and {"_sudo", "_parallel", "name"} <= set(ours[0])
    assert (ours[0]["_sudo"], ours[0]["_sudo_user"], ours[0]["_timeout"]) == (True, "somebody", 7)
    assert ours[0]["_env"] == {"said": "while it was prepared"}
