"""`make rehearse`: machines, services, the real deploy over SSH, the smoke tests, and where to ask.

    python -m rehearsal.rehearse [MACHINE...]     up, deploy, deploy again, smoke-test, print how to ask
    python -m rehearsal.rehearse --fault NAME     the same with a fault that is repaired; then again
    python -m rehearsal.rehearse --kind qemu      the same on machines with a kernel of their own, with --inventory FILE
    python -m rehearsal.rehearse --down           removes everything of this rehearsal except the cache

The inventory and deploy.py decide what is deployed; this only calls them like a person would.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from rehearsal import faults, gateway, machines, services
from rehearsal.faults.fault import BEFORE, SERVING, Fault
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places, RehearsalRefused
from rehearsal.pyinfra_run import Run, pyinfra

INVENTORY = "inventories/rehearsal.py"
# systemd forgets finished units, so their times come from the journal.
UNITS = "journalctl --boot=all --output=short-unix --unit='enginehouse-pull@*' --unit='enginehouse-weights@*'"
UNIT_LINE = re.compile(r"^([0-9.]+) \S+ systemd\S+ (Starting|Finished) (enginehouse-\S+)\.service")
T = TypeVar("T")
console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def main() -> int:
    """Runs the rehearsal named on the command line; returns 0 if every part worked."""
    parser = argparse.ArgumentParser(prog="make rehearse", description=__doc__.splitlines()[0])
    parser.add_argument(
        "machines", nargs="*", default=["d13a"], help="names; d12… Debian 12, d13… 13, u22…, u24…, u26… Ubuntu"
    )
    parser.add_argument("--down", action="store_true")
    parser.add_argument("--fault", metavar="NAME", default="", help="let this go wrong; `python -m rehearsal faults`")
    parser.add_argument("--kind", choices=("nspawn", "qemu"), default="nspawn", help="qemu: a kernel of its own, slow")
    parser.add_argument("--inventory", default=INVENTORY, help=f"what is deployed [{INVENTORY}]")
    chosen = parser.parse_args()
    try:
        if chosen.down:
            return take_down()
        names = chosen.machines or ["d13a"]
        if chosen.fault:
            return rehearse_fault(names, faults.fault(chosen.fault))
        return rehearse(names, chosen.kind, chosen.inventory)
    except RehearsalRefused as refused:
        console.print(str(refused), style="red", markup=False)
        return 1


def take_down() -> int:
    """Removes every machine, service, mount, rule and process of this rehearsal."""
    machines.down()
    services.services_down()
    return 0


def rehearse(names: list[str], kind: str = "nspawn", inventory: str = INVENTORY) -> int:
    """Deploys to the named machines, twice, and asks the models. Stops at the first part that fails."""
    places, seconds = Places.here(), dict[str, float]()
    console.print("[bold]rehearsal stand-ins[/]: GPU, driver, container toolkit packages, TensorRT-LLM, registry, hub.")
    console.print("[bold]real[/]: sshd, systemd, apt, Docker, Triton, the deploy itself.")
    timed(seconds, "artefacts and machines", lambda: _prepare(names, kind))
    log = places.root / "deploy.log"
    first = timed(seconds, "deploy", lambda: pyinfra(inventory, "deploy.py", "-y", log=log))
    if first.code:
        return _stop("the deploy ended with an error", first)
    again = timed(seconds, "deploy again", lambda: pyinfra(inventory, "deploy.py", "-y", print_steps=False))
    if not again.is_silent:
        return _stop("the second deploy was not silent", again)
    if timed(seconds, "smoke tests", lambda: _smoke(inventory)):
        console.print("the smoke tests found something; see above", style="red")
        return 1
    _report(first, again, seconds, inventory)
    return _ask(inventory) or _stream_through_gateways()


def rehearse_fault(names: list[str], fault: Fault) -> int:
    """Deploys while the fault strikes the first machine, shows the operator's output, repairs it and runs again."""
    _prepare(names)
    machine = machines.named(names[0])
    if fault.moment == SERVING and (first := pyinfra(INVENTORY, "deploy.py", "-y")).code:
        return _stop("the deploy before the fault ended with an error", first)
    console.rule(f"{fault.name}: {fault.summary}, {fault.moment}", align="left")
    try:
        if fault.moment in (BEFORE, SERVING):
            fault.strike(machine)
        struck = pyinfra(INVENTORY, "deploy.py", "-y", at=fault.moment, strike=lambda: fault.strike(machine))
    finally:
        fault.undo(machine)
    console.rule("what the operator sees", align="left")
    console.print(last_words(struck.output), markup=False)
    console.print(f"exit code {struck.code}; what happens: {fault.happens}; then: {fault.then}", markup=False)
    console.rule("mended, and run again", align="left")
    mended, again = pyinfra(INVENTORY, "deploy.py", "-y"), pyinfra(INVENTORY, "deploy.py", "-y", print_steps=False)
    if mended.code or not again.is_silent:
        return _stop("a plain run did not converge", again if not mended.code else mended)
    console.print("a plain run converged, and another changed nothing")
    return 0


def last_words(output: str) -> str:
    """Returns the lines of a run's last operation; the results of a successful run."""
    before, _, results = output.partition("--> Results:")
    start = before.rfind("--> Starting operation")
    return results.strip() if "Error" not in before else before[start if start >= 0 else 0 :].strip()


def timed(seconds: dict[str, float], what: str, do: Callable[[], T]) -> T:
    """Returns the result of `do`; records the seconds under `what`."""
    console.rule(what, align="left")
    began = time.monotonic()
    result = do()
    seconds[what] = time.monotonic() - began
    return result


def _prepare(names: list[str], kind: str = "nspawn") -> None:
    """Builds root file systems beside the served files, and the bridge before services listen on it."""
    with ThreadPoolExecutor() as pool:
        made = pool.submit(services.prepare)
        by_release: dict[str, list[str]] = {}
        for name in names:
            by_release.setdefault(machines.release_of(name), []).append(name)
        for release, members in by_release.items():
            for machine in machines.up(members, release, kind=kind):
                console.print(f"{machine.name}  {machine.address}  {machine.os}  answers over SSH")
        made.result()
    console.print(f"services of the rehearsal listen on {services.services_up().address}")


def _smoke(inventory: str) -> int:
    command = [sys.executable, "-m", "pytest", "tests/smoke", "--inventory", inventory, "-q"]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode


def _stop(why: str, run: Run) -> int:
    console.print("\n".join(run.output.splitlines()[-60:]), markup=False)
    console.print(why, style="red")
    return 1


def _report(first: Run, again: Run, seconds: dict[str, float], inventory: str) -> None:
    console.print(_stage_table(first, again, seconds))
    for machine in machines.known():
        console.print(_downloads(machine))
    console.print(_endpoints(inventory))


def _stage_table(first: Run, again: Run, seconds: dict[str, float]) -> Table:
    table = Table(title="seconds", title_justify="left")
    table.add_column("stage")
    table.add_column("seconds", justify="right")
    for what, taken in seconds.items():
        table.add_row(what, f"{taken:.1f}")
        if what == "deploy":
            for stage, part in first.stages.items():
                table.add_row(f"  {stage}", f"{part:.1f}", style="dim")
    table.add_row(f"no-op: {again.totals['no_change']} operations, none changed anything", f"{again.seconds:.1f}")
    return table


def _downloads(machine: Machine) -> Table:
    """Returns the download times of image and weights, by the units' clocks; both overlap the installation."""
    table = Table(title=f"{machine.name}: fetched on the host", title_justify="left")
    for column in ("unit", "from s", "to s"):
        table.add_column(column, justify="left" if column == "unit" else "right")
    times: dict[str, list[float]] = {}
    for line in filter(None, map(UNIT_LINE.match, machine.run(UNITS).stdout.splitlines())):
        times.setdefault(line[3], []).append(float(line[1]))
    began = min((moments[0] for moments in times.values()), default=0.0)
    for unit, moments in sorted(times.items(), key=lambda item: item[1]):
        table.add_row(unit, f"{moments[0] - began:.1f}", f"{moments[-1] - began:.1f}")
    return table


def _endpoints(inventory: str) -> Table:
    from deploy.io.inventory import load_plan

    plan = load_plan(inventory)
    table = Table(title="endpoints", title_justify="left")
    for column in ("host", "server", "models", "HTTP", "gRPC", "metrics"):
        table.add_column(column)
    for slice_ in plan.slices:
        for server in slice_.servers:
            ports = (server.http_port, server.grpc_port, server.metrics_port)
            addresses = [f"{server.address}:{port}" for port in ports]
            table.add_row(slice_.host, server.name, "\n".join(model.name for model in server.models), *addresses)
    return table


def _ask(inventory: str) -> int:
    """Prints a line to paste for each model and the answer to it; returns 1 if a model gave no answer."""
    from deploy.io.ask import asked_in_turn
    from deploy.io.inventory import host_data, load_plan
    from deploy.refusals.errors import Refusal

    console.rule("ask: paste a line here, or type `.venv/bin/enginehouse ask --help`", align="left")
    try:
        # `print` does not break long lines, as the console would.
        asked_in_turn(load_plan(inventory), host_data(inventory), "", (), lambda text: print(text, flush=True))
    except Refusal as refused:
        console.print(str(refused), style="red", markup=False)
        return 1
    return 0


def _stream_through_gateways() -> int:
    """Prints a chat through each machine's gateway as OpenAI's clients request it, with the first events and the
    last event."""
    for machine in machines.known():
        if machine.state != "running" or not gateway.has_one(machine) or not (llms := gateway.models(machine, "llm")):
            continue
        console.rule(f"the gateway of {machine.name}: `.venv/bin/python -m rehearsal gateway` says where, and a key",
                     align="left")  # fmt: skip
        opened = gateway.opened(machine)
        events = list(gateway.spoken(opened, llms[0], "Say hello."))
        print("\n".join([f"{opened.url}, {llms[0]}", *events[:4], "…", *events[-2:]]), flush=True)
        if events[-1] != "data: [DONE]":
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
