"""Brings one cell of a fleet after another to its plan, each from a control machine beside the cell.

    python cells.py serve east                              beside each cell: takes its turn when it comes
    python cells.py roll inventories/fleet.py east west     from anywhere: a pause for approval before each further cell
    python cells.py approve RUN                             lets a rollout go on that waits

Prefect keeps the state: `make prefect` installs it, `PREFECT_API_URL` names its server. A cell's run goes on without
the driver. A driver that was killed is typed again: it skips what has ended well, and follows what is under way.
"""

import os
import subprocess
import sys
from pathlib import Path

import click
from prefect import State, flow, get_client, tags
from prefect.client.schemas.filters import FlowFilter, FlowRunFilter
from prefect.client.schemas.sorting import FlowRunSort
from prefect.deployments import run_deployment
from prefect.exceptions import NotPausedError, ObjectNotFound
from prefect.flow_runs import pause_flow_run, resume_flow_run
from prefect.runtime import flow_run
from prefect.states import Cancelled, Crashed, Failed

from deploy.refusals import Refusal, refuse_all
from deploy.rollout.cells import Run, deploy_words, failed_cell, next_turn, rollouts, unserved

A_WEEK = 7 * 24 * 3600
UNDER_WAY = FlowRunFilter(state={"type": {"any_": ["RUNNING", "PENDING", "PAUSED", "CANCELLING"]}})
POLL_SECONDS = int(os.environ.get("ENGINEHOUSE_CELLS_POLL_SECONDS", "5"))


@flow(name="cell", flow_run_name="{cell} {digest}", log_prints=True)
def bring(inventory: str, cell: str, digest: str) -> State | None:
    """Brings the hosts of a cell to their plan; a failed run has the last lines of deploy.py as its message."""
    program, *words = deploy_words(inventory, cell, digest)
    beside = Path(sys.executable).with_name(program)
    argv = [str(beside) if beside.exists() else program, *words]
    lines = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            lines.append(line.rstrip())
            print(lines[-1])
    return Failed(message="\n".join(lines[-12:])) if process.returncode else None


@flow(name="cells", flow_run_name="{digest}", log_prints=True)
def roll(inventory: str, cells: list[str], digest: str) -> State | None:
    """Brings every cell to the plan, in order. A failed cell ends the rollout, and later cells stay unchanged."""
    before = rollouts(cells, runs_with(digest))
    while turn := next_turn(cells, runs_with(digest), digest, before):
        if turn.wants_approval:
            print(f"cell {turn.cell} waits for approval: python cells.py approve {flow_run.id}")
            pause_flow_run(timeout=A_WEEK, poll_interval=POLL_SECONDS, key=turn.key)
        print(f"cell {turn.cell} has its turn; beside it runs: python cells.py serve {turn.cell}")
        done = run_deployment(
            f"cell/{turn.cell}",
            parameters={"inventory": inventory, "cell": turn.cell, "digest": digest},
            idempotency_key=turn.key,
            tags=[digest],
            as_subflow=False,
            poll_interval=POLL_SECONDS,
        )
        if not done.state.is_completed():
            left = cells[cells.index(turn.cell) + 1 :]
            return Failed(message=str(failed_cell(turn, left, str(done.id), done.state.message or done.state.name)))
    return None


def runs_with(digest: str) -> list[Run]:
    """The runs over cells with this plan, the oldest first."""
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(
            flow_filter=FlowFilter(name={"any_": ["cell"]}),
            flow_run_filter=FlowRunFilter(tags={"all_": [digest]}),
            sort=FlowRunSort.EXPECTED_START_TIME_ASC,
        )
    words = [(run.parameters["cell"], run.state) for run in runs if run.state]
    return [
        Run(cell, "completed" if state.is_completed() else "ended" if state.is_final() else "open")
        for cell, state in words
    ]


def end_runs(name: str, selected: FlowRunFilter, cell: str, state: State) -> None:
    """Ends the runs of a flow that no worker holds any more; only those of `cell`, if it is named."""
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_filter=FlowFilter(name={"any_": [name]}), flow_run_filter=selected):
            if not cell or run.parameters.get("cell") == cell:
                client.set_flow_run_state(run.id, state, force=True)


def without_worker(cells: tuple[str, ...]) -> list[str]:
    """The cells that never had a worker."""
    missing = []
    with get_client(sync_client=True) as client:
        for cell in cells:
            try:
                client.read_deployment_by_name(f"cell/{cell}")
            except ObjectNotFound:
                missing.append(cell)
    return missing


@click.group()
def main() -> None:
    """Bring one cell of a fleet after another to its plan."""
    if not os.environ.get("PREFECT_API_URL"):
        raise click.ClickException(
            "PREFECT_API_URL names no Prefect server\n"
            "  try     prefect server start, then: export PREFECT_API_URL=http://127.0.0.1:4200/api\n"
            "  state   no host was changed"
        )


@main.command()
@click.argument("cell")
def serve(cell: str) -> None:
    """Take over CELL's part of rollouts, from this machine. Runs that an earlier worker left open are ended first."""
    end_runs("cell", UNDER_WAY, cell, Crashed(message="the worker beside this cell was started anew"))
    bring.serve(name=cell, limit=1)


@main.command("roll")
@click.argument("inventory")
@click.argument("cells", nargs=-1, required=True)
def roll_(inventory: str, cells: tuple[str, ...]) -> None:
    """Bring CELLS, groups of INVENTORY, to their plan, in this order."""
    words = [sys.executable, "-m", "deploy.io.cells", inventory, *cells]
    answer = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if answer.returncode:
        sys.exit(1)  # the refusal is on the screen
    digest = answer.stdout.strip()
    try:
        refuse_all(unserved(without_worker(cells)))
    except Refusal as refusal:
        raise click.ClickException(str(refusal)) from None
    drivers = FlowRunFilter(tags={"all_": [digest]}, state=UNDER_WAY.state)
    end_runs("cells", drivers, "", Cancelled(message="a driver that was typed later took over"))
    with tags(digest):
        ended = roll(inventory, list(cells), digest, return_state=True)
    if not ended.is_completed():
        raise click.ClickException(ended.message or ended.name)


@main.command()
@click.argument("run")
def approve(run: str) -> None:
    """Let the rollout RUN go on to its next cell."""
    try:
        resume_flow_run(run)
    except (NotPausedError, ObjectNotFound, ValueError):
        raise click.ClickException(f"no rollout waits for approval as {run}; its driver says what to type") from None


if __name__ == "__main__":
    main()
