"""What happens to the machine with the GPU, from the first deploy to the removal; a step a function (steps.py)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable

from rehearsal.places import REPOSITORY, RehearsalRefused
from rehearsal.pyinfra_run import Run, pyinfra
from rehearsal.real_gpu.report import Found
from rehearsal.real_gpu.scene import INVENTORY, READY_SECONDS, REPORT, card, machine, real, settings, tell
from rehearsal.real_gpu.untouched import touches_card


def deploy(found: Found) -> None:
    """Three models answer where nothing was."""
    deploy_as("one", found, "deploy")


def deploy_as(layout: str, found: Found, name: str) -> None:
    """The servers of this layout (inventory.py) answer; the log is NAME.log."""
    tell(layout=layout)
    run = _pyinfra("deploy.py", name)
    found["seconds"] = round(run.seconds, 1)
    found["stages"] = {name: round(seconds, 1) for name, seconds in run.stages.items()}
    found["totals"] = run.totals
    _require_good(run)
    found["units"] = _unit_seconds()
    servers = ("main",) if layout != "one_per_gpu" else tuple(f"main-{gpu}" for gpu in range(settings()["gpus"]))
    loads = {server: _loads(server) for server in servers}
    found["models"] = loads if len(loads) > 1 else loads["main"]
    found["memory"] = card()


def deploy_again(found: Found) -> None:
    """A second run changes nothing."""
    run = _pyinfra("deploy.py", "deploy-again")
    found["seconds"], found["totals"], found["silent"] = round(run.seconds, 1), run.totals, run.is_silent
    _require_good(run)
    if not run.is_silent:
        raise RehearsalRefused("the second run changed something")


def doctor(found: Found) -> None:
    """The doctor finds nothing on a healthy machine; its answer is doctor.json."""
    command = [sys.executable, "-m", "deploy", "doctor", INVENTORY, "--json"]
    began = time.monotonic()
    told = subprocess.run(command, cwd=REPOSITORY, text=True, capture_output=True)
    found["seconds"], found["code"] = round(time.monotonic() - began, 1), told.returncode
    (REPORT / "doctor.json").write_text(told.stdout)
    if told.returncode:
        raise RehearsalRefused(f"{told.stdout}\n{told.stderr}"[-4000:])
    found["said"] = json.loads(told.stdout)


def smoke(found: Found, name: str = "smoke") -> None:
    """The smoke tests of the repository pass; the log is NAME.log."""
    command = [sys.executable, "-m", "pytest", "tests/smoke", "--inventory", INVENTORY, "-q", "-p", "no:cacheprovider"]
    told = subprocess.run(command, cwd=REPOSITORY, text=True, capture_output=True)
    said = told.stdout + told.stderr
    (REPORT / f"{name}.log").write_text(said)
    found["said"] = (told.stdout.strip().splitlines() or [""])[-1]
    if told.returncode:
        raise RehearsalRefused("\n".join(said.splitlines()[-40:]))


def change(found: Found) -> None:
    """A changed release is swapped in."""
    tell(changed=True)
    _swapped(found, "deploy.py", "change")


def rollback(found: Found) -> None:
    """The release that served before serves again."""
    _swapped(found, "rollback.py", "rollback")


def forward(found: Found) -> None:
    """The changed release is forward again."""
    _swapped(found, "deploy.py", "forward")


def _swapped(found: Found, verb: str, name: str) -> None:
    before = _release()
    run = _pyinfra(verb, name)
    found["seconds"], found["from"], found["to"] = round(run.seconds, 1), before, _release()
    found["models"], found["stages"] = _loads(), {key: round(value, 1) for key, value in run.stages.items()}
    found["swap"] = json.loads(machine().run("tail -n 1 /var/lib/enginehouse/history.jsonl").stdout)
    found["memory"] = card()
    _require_good(run)
    if found["to"] == before:
        raise RehearsalRefused(f"{before} serves as before")
    found["answers"] = _ask()


def kills(found: Found) -> None:
    """A killed container, and a killed unit, are served again without anybody's help."""
    container = machine().run("docker ps --quiet --filter label=enginehouse.server=main").stdout.strip()
    ways = {"container": f"docker kill {container}", "unit": "systemctl kill --signal=KILL triton@main.service"}
    for name, command in ways.items():
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
        found[name] = {"seconds_until_ready": round(time.monotonic() - began, 1), "answers": _ask(), "models": _loads()}


def daemon_reload(found: Found) -> None:
    """The running container still has the GPU after systemd wrote its device rules anew."""
    machine().run("systemctl daemon-reload")
    container = machine().run("docker ps --quiet --filter label=enginehouse.server=main").stdout.strip()
    told = machine().run(f"docker exec {container} nvidia-smi -L", check=False)
    found["said"], found["answers"] = (told.stdout + told.stderr).strip(), _ask()
    if told.returncode or "GPU 0" not in found["said"]:
        raise RehearsalRefused(f"the container lost the GPU: {found['said']}")


def watchdog(found: Found) -> None:
    """The metrics of Triton and of the host say what nvidia-smi says."""
    metrics = machine().run(f"curl -sS --max-time 10 http://{machine().address}:8002/metrics").stdout
    found["triton"] = [line for line in metrics.splitlines() if line.startswith("nv_gpu_")]
    found["watchdog"] = machine().run("systemctl list-timers --all --no-pager 'enginehouse-*'", check=False).stdout
    found["textfiles"] = machine().run("find /var/lib -name '*.prom' -exec cat {} +", check=False).stdout.splitlines()
    found["card"] = card()
    if real() and not found["triton"]:
        raise RehearsalRefused("Triton publishes no nv_gpu_ metric although there is a GPU")
    if real():
        found["wrong"] = wrong_metrics(found["triton"], card())
        found["passed"] = not found["wrong"]


def wrong_metrics(lines: list[str], seen: dict[str, str]) -> list[str]:
    """Metrics of Triton that differ from what nvidia-smi says: total memory exactly, used memory by 2 %."""
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


def remove(found: Found) -> None:
    """Nothing of the deploy is left, and the GPU is free."""
    run = _pyinfra("remove.py", "remove", "--data", "remove=yes")
    found["seconds"], found["totals"] = round(run.seconds, 1), run.totals
    ours = "/var/lib/enginehouse /etc/enginehouse /usr/local/lib/enginehouse /etc/systemd/system/triton@.service"
    found["left"] = machine().run(f"ls -d {ours} 2>/dev/null", check=False).stdout.split()
    found["memory"] = card()
    _require_good(run)


def untouched(found: Found) -> None:
    """No log of the run has a command that changes a card."""
    logs = sorted(REPORT.glob("*.log"))
    found["logs"] = [path.name for path in logs]
    found["touching"] = [line for path in logs for line in touches_card(path.read_text(errors="replace"))]
    found["passed"] = bool(logs) and not found["touching"]


def _pyinfra(verb: str, name: str, *more: str) -> Run:
    REPORT.mkdir(parents=True, exist_ok=True)
    return pyinfra(INVENTORY, verb, "-y", *more, log=REPORT / f"{name}.log", tell=False)


def _require_good(run: Run) -> None:
    if run.code:
        raise RehearsalRefused("\n".join(run.output.splitlines()[-60:]))


def _release() -> str:
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
    """Which models answered what, asked as an operator would (`enginehouse ask`)."""
    told = subprocess.run(
        [sys.executable, "-m", "deploy", "ask", INVENTORY], cwd=REPOSITORY, text=True, capture_output=True
    )
    if told.returncode:
        raise RehearsalRefused(f"a model gave no answer\n{told.stdout[-1500:]}{told.stderr[-1500:]}")
    return [line.removeprefix("# ")[:100] for line in told.stdout.splitlines() if line.startswith("# ")]


def _unit_seconds() -> dict[str, float]:
    """Seconds of each unit that pulled or fetched, by the journal."""
    from rehearsal.rehearse import UNIT_LINE, UNITS

    times: dict[str, list[float]] = {}
    for line in filter(None, map(UNIT_LINE.match, machine().run(UNITS).stdout.splitlines())):
        times.setdefault(line[3], []).append(float(line[1]))
    return {unit: round(moments[-1] - moments[0], 1) for unit, moments in times.items()}


def _loads(server: str = "main") -> dict[str, float]:
    """Seconds of each model's load at the last start, as the server's unit told them."""
    asked = f"journalctl -u triton@{server} --no-pager -o cat | grep '^serving ' | tail -n 1"
    told = machine().run(asked, check=False)
    return {name: float(seconds) for name, seconds in re.findall(r"(\S+) \(([0-9.]+) s\)", told.stdout)}
