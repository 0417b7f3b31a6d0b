"""Steps on the machine with the GPU, from the first deploy to the removal, each a function (steps.py)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable

from rehearsal.places import REPOSITORY, RehearsalRefused
from rehearsal.pyinfra_run import Run, pyinfra
from rehearsal.real_gpu.report import StepResults
from rehearsal.real_gpu.scene import INVENTORY, READY_SECONDS, REPORT, card, machine, real, settings, tell
from rehearsal.real_gpu.untouched import touches_card


def deploy(results: StepResults) -> None:
    """Deploys three models to an empty machine."""
    deploy_as("one", results, "deploy")


def deploy_as(layout: str, results: StepResults, name: str) -> None:
    """Deploys the servers of this layout (inventory.py); the log is NAME.log."""
    tell(layout=layout)
    run = run_pyinfra("deploy.py", name)
    results["seconds"] = round(run.seconds, 1)
    results["stages"] = {name: round(seconds, 1) for name, seconds in run.stages.items()}
    results["totals"] = run.totals
    require_good(run)
    results["units"] = _unit_seconds()
    servers = ("main",) if layout != "one_per_gpu" else tuple(f"main-{gpu}" for gpu in range(settings()["gpus"]))
    loads = {server: _loads(server) for server in servers}
    results["models"] = loads if len(loads) > 1 else loads["main"]
    results["memory"] = card()


def deploy_again(results: StepResults, name: str = "deploy-again") -> None:
    """Checks that a second run changes nothing; the log is NAME.log."""
    run = run_pyinfra("deploy.py", name)
    results["seconds"], results["totals"], results["silent"] = round(run.seconds, 1), run.totals, run.is_silent
    require_good(run)
    if not run.is_silent:
        raise RehearsalRefused("the second run changed something")


def doctor(results: StepResults) -> None:
    """Checks that the doctor finds no trouble on a healthy machine; its answer is doctor.json."""
    command = [sys.executable, "-m", "deploy", "doctor", INVENTORY, "--json"]
    began = time.monotonic()
    ran = subprocess.run(command, cwd=REPOSITORY, text=True, capture_output=True)
    results["seconds"], results["code"] = round(time.monotonic() - began, 1), ran.returncode
    (REPORT / "doctor.json").write_text(ran.stdout)
    if ran.returncode:
        raise RehearsalRefused(f"{ran.stdout}\n{ran.stderr}"[-4000:])
    results["said"] = json.loads(ran.stdout)


def smoke(results: StepResults, name: str = "smoke") -> None:
    """Runs the smoke tests of the repository; the log is NAME.log."""
    command = [sys.executable, "-m", "pytest", "tests/smoke", "--inventory", INVENTORY, "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=REPOSITORY, text=True, capture_output=True)
    output = ran.stdout + ran.stderr
    (REPORT / f"{name}.log").write_text(output)
    results["said"] = (ran.stdout.strip().splitlines() or [""])[-1]
    if ran.returncode:
        raise RehearsalRefused("\n".join(output.splitlines()[-40:]))


def change(results: StepResults) -> None:
    """Swaps in a changed release."""
    tell(changed=True)
    _swapped(results, "deploy.py", "change")


def rollback(results: StepResults) -> None:
    """Rolls back to the previously served release."""
    _swapped(results, "rollback.py", "rollback")


def forward(results: StepResults) -> None:
    """Swaps in the changed release again."""
    _swapped(results, "deploy.py", "forward")


def _swapped(results: StepResults, verb: str, name: str) -> None:
    before = release()
    run = run_pyinfra(verb, name)
    results["seconds"], results["from"], results["to"] = round(run.seconds, 1), before, release()
    results["models"], results["stages"] = _loads(), {key: round(value, 1) for key, value in run.stages.items()}
    results["swap"] = json.loads(machine().run("tail -n 1 /var/lib/enginehouse/history.jsonl").stdout)
    results["memory"] = card()
    require_good(run)
    if results["to"] == before:
        raise RehearsalRefused(f"{before} serves as before")
    results["answers"] = _ask()


def kills(results: StepResults) -> None:
    """Kills a container, then a unit: both serve again without help."""
    container = machine().run("docker ps --quiet --filter label=enginehouse.server=main").stdout.strip()
    commands = {"container": f"docker kill {container}", "unit": "systemctl kill --signal=KILL triton@main.service"}
    for name, command in commands.items():
        before = machine().run("systemctl show -P ActiveEnterTimestampMonotonic triton@main").stdout
        began = time.monotonic()
        machine().run(command)
        _wait(
            lambda before=before: (
                machine().run("systemctl show -P ActiveEnterTimestampMonotonic triton@main").stdout
                not in (before, "0\n")
                and _is_ready()
            )
        )
        results[name] = {
            "seconds_until_ready": round(time.monotonic() - began, 1),
            "answers": _ask(),
            "models": _loads(),
        }


def daemon_reload(results: StepResults) -> None:
    """Checks that the running container keeps the GPU after systemd has reloaded its device rules."""
    machine().run("systemctl daemon-reload")
    container = machine().run("docker ps --quiet --filter label=enginehouse.server=main").stdout.strip()
    ran = machine().run(f"docker exec {container} nvidia-smi -L", check=False)
    results["said"], results["answers"] = (ran.stdout + ran.stderr).strip(), _ask()
    if ran.returncode or "GPU 0" not in results["said"]:
        raise RehearsalRefused(f"the container lost the GPU: {results['said']}")


def watchdog(results: StepResults) -> None:
    """Compares the metrics of Triton and of the host with nvidia-smi."""
    metrics = machine().run(f"curl -sS --max-time 10 http://{machine().address}:8002/metrics").stdout
    results["triton"] = [line for line in metrics.splitlines() if line.startswith("nv_gpu_")]
    results["watchdog"] = machine().run("systemctl list-timers --all --no-pager 'enginehouse-*'", check=False).stdout
    results["textfiles"] = machine().run("find /var/lib -name '*.prom' -exec cat {} +", check=False).stdout.splitlines()
    results["card"] = card()
    if real() and not results["triton"]:
        raise RehearsalRefused("Triton publishes no nv_gpu_ metric although there is a GPU")
    if real():
        results["wrong"] = wrong_metrics(results["triton"], card())
        results["passed"] = not results["wrong"]


def wrong_metrics(lines: list[str], seen: dict[str, str]) -> list[str]:
    """Returns Triton's metrics that differ from nvidia-smi: total memory exactly, used memory by 2 %."""
    values = {line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in lines}
    total, used = (float(seen[f"memory.{name}"]) * 2**20 for name in ("total", "used"))
    reserved = float(seen["memory.reserved"]) * 2**20
    wrong = []
    if abs(values.get("nv_gpu_memory_total_bytes", 0) - total) > 2**20:
        wrong.append(f"nv_gpu_memory_total_bytes {values.get('nv_gpu_memory_total_bytes')} for {total}")
    near = values.get("nv_gpu_memory_used_bytes", 0)
    if min(abs(near - used), abs(near - used - reserved)) > 0.02 * total:
        wrong.append(f"nv_gpu_memory_used_bytes {near} for {used}")
    return wrong


def remove(results: StepResults) -> None:
    """Removes the deploy and checks that the GPU is free afterwards."""
    run = run_pyinfra("remove.py", "remove", "--data", "remove=yes")
    results["seconds"], results["totals"] = round(run.seconds, 1), run.totals
    ours = "/var/lib/enginehouse /etc/enginehouse /usr/local/lib/enginehouse /etc/systemd/system/triton@.service"
    results["left"] = machine().run(f"ls -d {ours} 2>/dev/null", check=False).stdout.split()
    results["memory"] = card()
    require_good(run)


def untouched(results: StepResults) -> None:
    """Checks that no log of the run has a command that changes a card."""
    logs = sorted(REPORT.glob("*.log"))
    results["logs"] = [path.name for path in logs]
    results["touching"] = [line for path in logs for line in touches_card(path.read_text(errors="replace"))]
    results["passed"] = bool(logs) and not results["touching"]


def run_pyinfra(verb: str, name: str, *more: str) -> Run:
    """Runs the verb like an operator; the log is NAME.log."""
    REPORT.mkdir(parents=True, exist_ok=True)
    return pyinfra(INVENTORY, verb, "-y", *more, log=REPORT / f"{name}.log", print_steps=False)


def require_good(run: Run) -> None:
    """Checks that a run succeeded. Raises: RehearsalRefused with the end of the output of a failed run."""
    if run.code:
        raise RehearsalRefused("\n".join(run.output.splitlines()[-60:]))


def release() -> str:
    return machine().run("basename $(readlink /var/lib/enginehouse/servers/main/current)").stdout.strip()


def _is_ready() -> bool:
    address = f"http://{machine().address}:8000/v2/health/ready"
    return subprocess.run(["curl", "-sf", "--max-time", "2", "-o", "/dev/null", address]).returncode == 0


def _wait(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + READY_SECONDS
    while not is_so():
        if time.monotonic() > until:
            raise RehearsalRefused(f"not ready after {READY_SECONDS} s")
        time.sleep(0.2)


def _ask() -> list[str]:
    """Returns the models' answers to an operator's `enginehouse ask`."""
    ran = subprocess.run(
        [sys.executable, "-m", "deploy", "ask", INVENTORY], cwd=REPOSITORY, text=True, capture_output=True
    )
    if ran.returncode:
        raise RehearsalRefused(f"a model gave no answer\n{ran.stdout[-1500:]}{ran.stderr[-1500:]}")
    return [line.removeprefix("# ")[:100] for line in ran.stdout.splitlines() if line.startswith("# ")]


def _unit_seconds() -> dict[str, float]:
    """Returns seconds of each unit that pulled or downloaded, from the journal."""
    from rehearsal.rehearse import UNIT_LINE, UNITS

    times: dict[str, list[float]] = {}
    for line in filter(None, map(UNIT_LINE.match, machine().run(UNITS).stdout.splitlines())):
        times.setdefault(line[3], []).append(float(line[1]))
    return {unit: round(moments[-1] - moments[0], 1) for unit, moments in times.items()}


def _loads(server: str = "main") -> dict[str, float]:
    """Returns seconds of each model's load at the last start, from the journal of the server's unit."""
    query = f"journalctl -u triton@{server} --no-pager -o cat | grep '^serving ' | tail -n 1"
    ran = machine().run(query, check=False)
    return {name: float(seconds) for name, seconds in re.findall(r"(\S+) \(([0-9.]+) s\)", ran.stdout)}
