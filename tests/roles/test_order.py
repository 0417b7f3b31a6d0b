"""Operations stand where pyinfra itself would put them."""

from __future__ import annotations

from typing import Any
from unittest import mock

from pyinfra import host
from pyinfra.api import util
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
