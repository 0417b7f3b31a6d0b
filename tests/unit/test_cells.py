"""Valid cells, their order, and the actions of a restarted driver, decided without Prefect."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.io.cells import confirmed_digest
from deploy.refusals.errors import Refusal, refuse_all
from deploy.rollout.cells import Run, Turn, cell_problems, deploy_words, failed_cell, next_turn, rollouts, unserved
from deploy.spec import Balancer, Route
from tests.unit.samples import MACHINE, Source, plan
from tests.unit.wrong_balancers import BEHIND

CELLS = ("east", "west")
DIGEST = "plan-1"


def turn(*runs: tuple[str, str], before: int = 0) -> Turn | None:
    """The next cell after these runs."""
    return next_turn(CELLS, [Run(cell, state) for cell, state in runs], DIGEST, before)


def test_the_first_cell_needs_no_approval_and_the_second_does() -> None:
    """Typing the command is the first cell's approval."""
    assert turn() == Turn("east", "plan-1 east 0", wants_approval=False)
    assert turn(("east", "completed")) == Turn("west", "plan-1 west 0", wants_approval=True)


def test_nothing_is_left_after_the_last_cell() -> None:
    assert turn(("east", "completed"), ("west", "completed")) is None


def test_a_driver_that_starts_again_follows_the_run_that_is_under_way() -> None:
    """The driver uses the key of the run's start, and needs no second approval."""
    assert turn(("east", "open")) == Turn("east", "plan-1 east 0", wants_approval=False)
    assert turn(("east", "completed"), ("west", "open")) == Turn("west", "plan-1 west 0", wants_approval=False)


def test_a_cell_that_failed_is_tried_again_under_another_key() -> None:
    """The cell's approval stays valid."""
    assert turn(("east", "completed"), ("west", "ended")) == Turn("west", "plan-1 west 1", wants_approval=False)


def test_a_rollout_that_is_typed_again_after_its_end_begins_anew() -> None:
    """deploy.py has no changes, or repairs manual ones; each further cell is approved again."""
    ended = [("east", "completed"), ("west", "ended"), ("west", "completed")]
    assert rollouts(CELLS, [Run(cell, state) for cell, state in ended]) == 1
    assert turn(*ended, before=1) == Turn("east", "plan-1 east 1", wants_approval=False)
    assert turn(*ended, ("east", "completed"), before=1) == Turn("west", "plan-1 west 2", wants_approval=True)


@given(st.lists(st.tuples(st.sampled_from(CELLS), st.sampled_from(["completed", "ended"])), max_size=12))
def test_a_rollout_that_is_cut_anywhere_ends_and_never_touches_a_cell_before_its_turn(ends: list[Any]) -> None:
    """After any history of runs, each remaining cell follows exactly once, in order."""
    runs = [Run(cell, state) for cell, state in ends]
    before, order = rollouts(CELLS, runs), []
    while following := next_turn(CELLS, runs, DIGEST, before):
        order.append(following.cell)
        runs.append(Run(following.cell, "completed"))
        assert len(order) <= len(CELLS)
    assert order == [cell for cell in CELLS if cell in order] and rollouts(CELLS, runs) == before + 1


def test_a_cell_is_brought_over_by_deploy_py_with_the_plan_that_was_read() -> None:
    assert " ".join(deploy_words("inventories/fleet.py", "east", "plan-1")) == (
        "pyinfra inventories/fleet.py deploy.py -y --limit east --data expect=plan-1"
    )


def test_a_failed_cell_names_the_remaining_cells() -> None:
    assert str(failed_cell(Turn("east", "k", False), ["west"], "run-7", "h100-01 is lost\nNo hosts remaining!")) == (
        "cell east was not updated\n"
        "  run    run-7\n"
        "  said   h100-01 is lost\n"
        "         No hosts remaining!\n"
        "  left   west\n"
        "  try    correct the cause that `said` names, then repeat the command\n"
        "  state  cells before it have the new plan; cells after it were not touched"
    )


def test_a_cell_without_a_worker_is_named_with_the_command_to_type() -> None:
    assert [str(problem) for problem in unserved(["west"])] == [
        "no control machine takes over cell west\n"
        "  where   west\n"
        "  seen    no deployment cell/west at the Prefect server\n"
        "  wanted  a control machine beside each cell that waits for its turn\n"
        "  try     there: python cells.py serve west\n"
        "  state   planning; no host was changed"
    ]


def site(cell: str, number: int) -> list[Source]:
    """Two hosts of a pool, and the pool's own balancer."""
    data = {"machine": MACHINE, "servers": (BEHIND,), "pool": cell}
    hosts = [Source(f"{cell}-{n}", data | {"peer_address": f"10.0.{number}.{n}"}) for n in (1, 2)]
    routes = (Route(pool=cell, http_port=8080, grpc_port=8081),)
    balancer = Balancer(os="debian-12", address=f"10.0.{number}.5", routes=routes, open_to_all=True)
    return [*hosts, Source(f"{cell}-edge", {"balancer": balancer})]


FLEET = [*site("east", 1), *site("west", 2)]
GROUPS = {cell: {f"{cell}-1", f"{cell}-2", f"{cell}-edge"} for cell in CELLS}


def refused(groups: dict[str, set[str]], cells: tuple[str, ...] = CELLS) -> str:
    """The refusal's text for these cells and groups."""
    with pytest.raises(Refusal) as caught:
        refuse_all(cell_problems(cells, groups, plan(*FLEET)))
    return str(caught.value)


def test_cells_with_balancers_of_their_own_are_taken() -> None:
    assert list(cell_problems(CELLS, GROUPS, plan(*FLEET))) == []


def test_an_unknown_cell_is_offered_the_nearest() -> None:
    assert refused(GROUPS, ("east", "wset")) == (
        "no group of this inventory is called wset\n"
        "  where   wset\n"
        "  seen    groups east, west\n"
        "  wanted  cells that are groups of the inventory\n"
        "  try     did you mean `west`?  known: east, west\n"
        "  state   planning; no host was changed"
    )


def test_a_host_is_in_one_cell() -> None:
    """A host in no cell would silently remain unchanged."""
    assert refused(GROUPS | {"west": GROUPS["west"] - {"west-1"} | {"east-2"}}) == (
        "2 problems\n\n"
        "east-2 is in east and in west\n"
        "  where   east-2\n"
        "  seen    cells east, west\n"
        "  wanted  each host in one cell: a host in two would be updated twice, a host in none never\n"
        "  try     take east-2 out of one group\n"
        "  state   planning; no host was changed\n\n"
        "west-1 is in no cell\n"
        "  where   west-1\n"
        "  seen    cells east, west\n"
        "  wanted  each host in one cell: a host in two would be updated twice, a host in none never\n"
        "  try     put west-1 into a group that is a cell\n"
        "  state   planning; no host was changed"
    )


def test_a_host_is_balanced_from_its_own_cell() -> None:
    """A balancer of another cell would change while its hosts do not."""
    moved = {"east": GROUPS["east"] - {"east-edge"}, "west": GROUPS["west"] | {"east-edge"}}
    assert refused(moved).startswith(
        "2 problems\n\n"
        "east-1 is behind east-edge, which is in another cell\n"
        "  where   east-1\n"
        "  seen    east-1 in east, east-edge in west\n"
        "  wanted  a cell with balancers of its own: it is updated while other cells stay as they are\n"
        "  try     give each cell pools and balancers of its own\n"
    )


def test_the_digest_of_confirmed_cells_is_the_plan_s() -> None:
    """Every cell's deploy.py gets this digest as its `expect`."""
    assert confirmed_digest("inventories/h100.py", ["h100"]).startswith("plan-")
