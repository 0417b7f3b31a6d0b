"""Measures a rollout's effect on clients: load on rehearsal machines while `pyinfra … deploy.py -y` changes them.

    python -m benchmarks.rollout                              six hosts, a balancer, three changes one after the other
    python -m benchmarks.rollout --change driver --debian 13  one change, behind HAProxy of Debian 13
    python -m benchmarks.rollout --held                       one host: its requests wait at the balancer
    python -m benchmarks.rollout --change reboot              no run: one host of six is rebooted by hand
    python -m benchmarks.rollout --balancers 0 --hosts 1      no balancer: the cost of a swap to clients of the host

Real HAProxy, sshd, systemd, Docker and Triton; GPU and LLM are stand-ins, so latencies say nothing about an H100. No
peer drains hosts, so the figures stand beside those of the same load without a change. Prints one JSON line last; exits
1 when a request was lost or fewer hosts were in than promised.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from benchmarks import changes, fleet, front, in_rotation
from benchmarks.client_protocols import Place
from benchmarks.in_rotation import Rotation
from benchmarks.open_loop import Load, Running, running
from benchmarks.outcomes import RIGHT, Outcome, Phases, by_phase, figures, losses, merged, percentile_ms
from rehearsal.machine import Machine
from rehearsal.places import RehearsalRefused

PATIENCE_SECONDS = 150
EMBEDDER, LLM = "minilm", "gpt-oss-tiny"
T = TypeVar("T")


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0 if no request was lost and no pool had fewer hosts than promised."""
    options = parsed(words)
    choose(options)
    try:
        with fleet.up(options.hosts, options.balancers, options.debian, options.keep) as (serving, edge):
            result = measure(options, serving, edge)
    except RehearsalRefused as refused:
        print(refused, file=sys.stderr)
        return 1
    print(json.dumps(result), flush=True)
    return 0 if is_kept(result) else 1


def is_kept(result: Mapping[str, Any]) -> bool:
    """Returns True if every run succeeded, no request was lost, and no pool had too few hosts."""
    went_well = not any(change["exit_code"] for change in result["changes"].values())
    return went_well and not result["lost"] and (result["least_in"] or 0) >= (result["promised"] or 0)


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the parsed command line, with the consequences of `--held`."""
    options = parser().parse_args(words)
    options.change = options.change or list(changes.RUNS)
    if options.held:
        options.hosts = options.pools = options.out = 1
    return options


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.rollout", description=__doc__.splitlines()[0])
    made.add_argument(
        "--change", action="append", choices=(*changes.RUNS, *changes.BY_HAND), help="again for more [the first three]"
    )
    made.add_argument("--hosts", type=int, default=6)
    made.add_argument("--pools", type=int, default=1, help="the hosts are shared among them evenly")
    made.add_argument("--out", type=int, default=2, help="hosts of a pool that may be out at once [2]")
    made.add_argument("--balancers", type=int, default=1)
    made.add_argument("--debian", choices=("12", "13"), default="12", help="of the balancers")
    made.add_argument("--rate", type=float, default=50.0, help="requests a second, to all pools together")
    made.add_argument("--requests", type=int, default=21_000, help="at least, over all changes together")
    made.add_argument(
        "--quiet", type=float, default=20.0, help="seconds of load before and after each change, at least"
    )
    made.add_argument("--long-percent", type=float, default=10.0, help="of the streams, longer than a drain lasts")
    made.add_argument(
        "--held", action="store_true", help=f"one host; requests wait up to {front.HOLD_SECONDS} s for it"
    )
    made.add_argument("--keep", action="store_true", help="leave the machines running at the end")
    return made


def choose(options: argparse.Namespace, made: Sequence[str] = ()) -> None:
    """Makes the inventory declare the fleet of these options, with these changes."""
    os.environ |= {
        "ROLLOUT_POOLS": str(options.pools),
        "ROLLOUT_OUT": str(options.out),
        "ROLLOUT_HELD": "yes" if options.held else "",
        "ROLLOUT_CHANGES": ",".join(change for change in made if change in changes.RUNS),
    }


def measure(options: argparse.Namespace, serving: Sequence[Machine], edge: Sequence[Machine]) -> dict[str, Any]:
    """Returns figures of the load without a change, of each change, and of all changes together."""
    places = targets(options, serving, edge)
    say(f"{len(places)} loads of {options.rate / len(places):g} requests a second; first without a change")
    still = loaded(options, places, edge, lambda: None, 0)
    changes_made, phases = dict[str, Any](), list[Phases]()
    for number, change in enumerate(options.change, start=1):
        choose(options, options.change[:number])
        say(f"change: {change}")
        run = loaded(
            options, places, edge, act(options, change, serving, edge), options.requests // len(options.change)
        )
        phases.append(by_phase(run.outcomes, run.begins, run.ends))
        ran = {"exit_code": run.value.code, "changed": run.value.changed}
        changes_made[change] = ran | {"seconds": round(run.ends - run.begins, 1)} | figures(phases[-1]) | described(run)
        write_losses(change, run)
        say(json.dumps(changes_made[change]))
        if run.value.code:
            say(run.value.output[-4000:])
            break
    quiet = {f"p{percent}": percentile_ms(still.outcomes, percent) for percent in (50, 99)}
    return figures(merged(phases)) | {
        "least_in": min(change_figures["least_in"] or 0 for change_figures in changes_made.values()) if edge else None,
        "promised": len(serving) // options.pools - options.out if edge else None,
        "hosts": len(serving),
        "pools": options.pools,
        "balancers": [machine.os for machine in edge],
        "rate": options.rate,
        "held": options.held,
        "changes": changes_made,
        "without_a_change": {"sent": len(still.outcomes)} | quiet | described(still),
    }


def act(
    options: argparse.Namespace, change: str, serving: Sequence[Machine], edge: Sequence[Machine]
) -> Callable[[], changes.Ran]:
    """Returns the action that makes the change: a run, or a manual action on the first host."""
    if change in changes.RUNS:
        return lambda: changes.run(change, serving)
    pools = {pool: len(serving) // options.pools for pool in pool_names(options)}
    return lambda: changes.by_hand(change, serving[0], exporters(edge), pools)


def pool_names(options: argparse.Namespace) -> list[str]:
    """Returns the pool names in the inventory."""
    return [f"pool{number}" for number in range(options.pools)]


def exporters(edge: Sequence[Machine]) -> list[str]:
    """Returns the address of each balancer's exporter."""
    return [f"http://{machine.address}:{front.METRICS_PORT}/metrics" for machine in edge]


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """A load around a change: its outcomes, the change's start, end and result, and the balancers' readings."""

    outcomes: list[Outcome]
    begins: float
    ends: float
    value: T
    rotation: Rotation


def loaded(
    options: argparse.Namespace,
    places: Sequence[Place],
    edge: Sequence[Machine],
    change: Callable[[], T],
    requests: int,
) -> Loaded[T]:
    """Runs a load of at least this many requests during `change`, with quiet before and after."""
    watched = in_rotation.watched(exporters(edge), pool_names(options))
    with watched as rotation, contextlib.ExitStack() as stack:
        loads = [stack.enter_context(_load(options, place, len(places))) for place in places]
        time.sleep(options.quiet)
        begins = time.monotonic()
        value = change()
        ends = time.monotonic()
        say(f"over after {ends - begins:.0f} s: {so_far(loads)}")
        while time.monotonic() < ends + options.quiet or sum(so_far(loads).values()) < requests:
            time.sleep(1)
        outcomes = [outcome for load in loads for outcome in load.end(2 * PATIENCE_SECONDS)]
    return Loaded(outcomes, begins, ends, value, rotation)


def described(run: Loaded[Any]) -> dict[str, Any]:
    """Returns lost requests, and the exporters' view of the hosts; None without a balancer."""
    least = min(run.rotation.least.values()) if run.rotation.least else None
    looks = {"least_in": least, "looks": run.rotation.looks, "looks_unanswered": run.rotation.silent}
    return losses(run.outcomes, run.begins) | looks


def write_losses(change: str, run: Loaded[Any]) -> None:
    """Writes a JSON line for each lost or cut request to the change's file; `due` is seconds after its start."""
    kept = sorted(outcome for outcome in run.outcomes if outcome.verdict != RIGHT)
    lines = (json.dumps(outcome._asdict() | {"due": round(outcome.due - run.begins, 3)}) + "\n" for outcome in kept)
    (fleet.PLACES.root / f"losses-{change}.jsonl").write_text("".join(lines))


def targets(options: argparse.Namespace, serving: Sequence[Machine], edge: Sequence[Machine]) -> list[Place]:
    """Returns equal shares of targets: every pool's ports on every balancer, or the hosts themselves without
    balancers."""
    if not edge:
        return [Place(f"{machine.address}:8000", f"{machine.address}:8001") for machine in serving]
    ports = [front.ports(number) for number in range(options.pools)]
    return [Place(f"{machine.address}:{http}", f"{machine.address}:{grpc}") for machine in edge for http, grpc in ports]


def _load(options: argparse.Namespace, place: Place, shares: int) -> contextlib.AbstractContextManager[Running]:
    load = Load(
        place=place,
        rate=options.rate / shares,
        embedder=EMBEDDER,
        llm=LLM,
        long_percent=options.long_percent,
        drain_seconds=front.DRAIN_SECONDS,
        patience_seconds=PATIENCE_SECONDS,
    )
    return running(load)


def so_far(loads: Sequence[Running]) -> dict[str, int]:
    """Returns outcomes of all loads so far, by verdict."""
    counts = [load.so_far() for load in loads]
    return {verdict: sum(count[verdict] for count in counts) for verdict in counts[0]}


def say(text: str) -> None:
    """Prints a line on standard error, since the last line of standard output is the result."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
