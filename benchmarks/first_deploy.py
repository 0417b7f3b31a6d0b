"""Measures the time of a first deploy to empty machines, beside the longest of its necessary parts.

    python -m benchmarks.first_deploy                       one bare machine, then six
    python -m benchmarks.first_deploy --machines 1 --keep   one; the machine stays
    python -m benchmarks.first_deploy --rate 200mbit        limits each machine's downloads

The machines are those of the rehearsal: Debian with SSH and nothing else; Docker, apt, registry, hub and Triton are
real, GPU and driver stand-ins. A run ends when the last server has answered for every model. The durations of the
necessary stages come from the hosts' journals, from the first line of a unit to its last: pull, weights, load; the
driver's is the time of its role in the run. Prints one JSON line last, whose `ratio` is the seconds of the run for a
second of its longest single stage, of the run with most machines.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rehearsal import machines, requirements, services
from rehearsal.machine import Machine
from rehearsal.places import Places, RehearsalRefused
from rehearsal.pyinfra_run import pyinfra

INVENTORY = "benchmarks/inventories/fleet.py"
DEBIAN = "13"
MACHINES = (1, 6)
UNITS = {"pull": "enginehouse-pull@*", "weights": "enginehouse-weights@*", "load": "enginehouse-swap@*"}
SERVES = "systemctl show -P ActiveEnterTimestamp --timestamp=unix triton@main.service"


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0 if every machine serves."""
    options = parser().parse_args(words)
    try:
        if lacking := [*requirements.missing(Places.here()), *requirements.missing_packages()]:
            raise RehearsalRefused(requirements.explain(lacking))
        results = [measured(count, options.rate) for count in options.machines]
    except RehearsalRefused as refused:
        print(refused, file=sys.stderr)
        return 1
    finally:
        if not options.keep:
            machines.down()
            services.services_down()
    print(json.dumps({"benchmark": "first_deploy", "ratio": results[-1]["ratio"], "runs": results}), flush=True)
    return 0


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.first_deploy", description=(__doc__ or "").splitlines()[0]
    )
    made.add_argument("--machines", type=int, nargs="+", default=MACHINES, help="of each run, made anew for it")
    made.add_argument("--rate", default="", help="limit of each machine's way in, as tc takes it: 200mbit")
    made.add_argument("--keep", action="store_true", help="leave the machines of the last run at the end")
    return made


def measured(count: int, rate: str = "") -> dict[str, Any]:
    """Deploys to a number of bare machines for the first time; returns the figures. Raises if one does not serve."""
    machines.down()
    bare = machines.up([f"h{number}" for number in range(1, count + 1)], DEBIAN)
    services.prepare()
    services.services_up()
    for machine in bare:
        machine.limit_rate(rate or None)
    began = time.time()
    run = pyinfra(INVENTORY, "deploy.py", "-y", print_steps=False, log=Places.here().root / "first_deploy.log")
    if run.code:
        raise RehearsalRefused(f"the deploy ended with {run.code}\n{run.output[-4000:]}")
    serving = max(float(machine.run(SERVES).stdout.strip().lstrip("@") or 0) for machine in bare) - began
    figures = summary(count, serving, run.seconds, run.stages, [spans_of(machine) for machine in bare])
    print(json.dumps(figures), file=sys.stderr, flush=True)
    return figures


def spans_of(machine: Machine) -> dict[str, float]:
    """Returns seconds from the first line of each kind of unit to its last, from the machine's journal."""
    return {
        kind: span(machine.run(f"journalctl -q -o short-unix -u '{unit}'").stdout.splitlines())
        for kind, unit in UNITS.items()
    }


def span(lines: Iterable[str]) -> float:
    """Returns seconds between the first and the last line of a journal; 0.0 if it has none."""
    times = [float(line.partition(" ")[0]) for line in lines if line[:1].isdigit()]
    return times[-1] - times[0] if times else 0.0


def summary(
    count: int, serving: float, whole: float, stages: dict[str, float], spans: Sequence[dict[str, float]]
) -> dict[str, Any]:
    """Returns seconds of a run, its longest single stage on any machine, and the times of the run's own stages."""
    longest = {kind: max(lengths[kind] for lengths in spans) for kind in UNITS} | {"driver": stages.get("Driver", 0.0)}
    name = max(longest, key=lambda kind: longest[kind])
    return {
        "machines": count,
        "seconds_to_serving": round(serving, 1),
        "seconds": round(whole, 1),
        "longest_stage": name,
        "ratio": round(serving / longest[name], 2) if longest[name] else 0.0,
        "stages": {kind: round(seconds, 1) for kind, seconds in longest.items()},
        "run": {label: round(seconds, 1) for label, seconds in sorted(stages.items(), key=lambda row: -row[1])},
    }


if __name__ == "__main__":
    sys.exit(main())
