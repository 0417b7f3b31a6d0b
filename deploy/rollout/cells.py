"""Cells: groups of hosts with their own balancers, updated one cell after another.

Each cell is updated from a control machine near it, by `deploy.py --limit CELL --data expect=DIGEST`. This module
decides which cells are valid, which cell is next, and how a killed and restarted driver continues: it needs only the
runs that Prefect stores. `cells.py` acts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from deploy.catalog.names import offer
from deploy.planning.plan import Plan
from deploy.refusals import Refusal, refuse


@dataclass(frozen=True)
class Run:
    """A run over a cell: it waits or works (`open`), succeeded (`completed`), or ended otherwise (`ended`)."""

    cell: str
    state: Literal["open", "completed", "ended"]


@dataclass(frozen=True)
class Turn:
    """The next cell. `key` identifies the run, so that a restarted driver finds it."""

    cell: str
    key: str
    wants_approval: bool


def deploy_words(inventory: str, cell: str, digest: str) -> list[str]:
    return ["pyinfra", inventory, "deploy.py", "-y", "--limit", cell, "--data", f"expect={digest}"]


def rollouts(cells: Sequence[str], runs: Iterable[Run]) -> int:
    """Number of times that this plan has been brought to every cell. The next command then starts a new rollout."""
    completed = Counter(run.cell for run in runs if run.state == "completed")
    return min(completed[cell] for cell in cells)


def next_turn(cells: Sequence[str], runs: Sequence[Run], digest: str, before: int) -> Turn | None:
    """The next cell, in the order of `cells`; None if every cell has been updated.

    `runs` are the runs with this plan, the oldest first; `before` counts the complete rollouts before this one. A run
    that failed is tried again without another approval, because the operator typed the command again.
    """
    for cell in cells:
        own = [run for run in runs if run.cell == cell]
        if sum(run.state == "completed" for run in own) > before:
            continue
        ended = sum(run.state != "open" for run in own)
        return Turn(cell, f"{digest} {cell} {ended}", cell != cells[0] and not _since(own, before))
    return None


def _since(runs: Iterable[Run], before: int) -> list[Run]:
    """The runs after the given number of successful ones."""
    since = []
    for run in runs:
        if before == 0:
            since.append(run)
        elif run.state == "completed":
            before -= 1
    return since


def cell_problems(cells: Sequence[str], groups: Mapping[str, Collection[str]], plan: Plan) -> Iterator[Refusal]:
    """A refusal for each word that names no group, and for hosts in no cell, in two, or behind another cell's balancer.

    `groups` are the inventory's, with the names of their hosts.
    """
    unknown = [cell for cell in cells if not groups.get(cell)]
    yield from (_unknown(cell, groups) for cell in unknown)
    if unknown:
        return
    own: dict[str, list[str]] = {host: [cell for cell in cells if host in groups[cell]] for host in plan.hosts}
    for host, homes in own.items():
        if len(homes) != 1:
            yield _not_in_one(host, homes, cells)
    for slice_ in plan.slices:
        for balancer in slice_.traffic.balancers if slice_.traffic else ():
            here, there = own[slice_.host], own[balancer.name]
            if len(here) == len(there) == 1 and here != there:
                yield _balanced_elsewhere(slice_.host, here[0], balancer.name, there[0])


def unserved(cells: Sequence[str]) -> list[Refusal]:
    return [
        refuse(
            "nobody-serves-the-cell",
            f"no control machine takes over cell {cell}",
            where=cell,
            seen=f"no deployment cell/{cell} at the Prefect server",
            wanted="a control machine beside each cell that waits for its turn",
            attempt=f"there: python cells.py serve {cell}",
        )
        for cell in cells
    ]


def failed_cell(turn: Turn, left: Sequence[str], run: str, output: str) -> Refusal:
    return Refusal(
        f"cell {turn.cell} was not updated",
        facts={"run": run, "said": output or "nothing", "left": ", ".join(left) or "no cell"},
        attempt="correct the cause that `said` names, then repeat the command",
        state="cells before it have the new plan; cells after it were not touched",
        kind="cell-stopped",
    )


def _unknown(cell: str, groups: Mapping[str, Collection[str]]) -> Refusal:
    known = sorted(name for name, hosts in groups.items() if hosts and name != "all")
    return refuse(
        "unknown-cell",
        f"no group of this inventory is called {cell}",
        where=cell,
        seen=f"groups {', '.join(known)}",
        wanted="cells that are groups of the inventory",
        attempt=offer(cell, known),
    )


def _not_in_one(host: str, homes: Sequence[str], cells: Sequence[str]) -> Refusal:
    return refuse(
        "not-in-one-cell",
        f"{host} is in {' and in '.join(homes) or 'no cell'}",
        where=host,
        seen=f"cells {', '.join(cells)}",
        wanted="each host in one cell: a host in two would be updated twice, a host in none never",
        attempt=f"take {host} out of one group" if homes else f"put {host} into a group that is a cell",
    )


def _balanced_elsewhere(host: str, cell: str, balancer: str, balancer_cell: str) -> Refusal:
    return refuse(
        "balanced-from-another-cell",
        f"{host} is behind {balancer}, which is in another cell",
        where=host,
        seen=f"{host} in {cell}, {balancer} in {balancer_cell}",
        wanted="a cell with balancers of its own: it is updated while other cells stay as they are",
        attempt="give each cell pools and balancers of its own",
    )
