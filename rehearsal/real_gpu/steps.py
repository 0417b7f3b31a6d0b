"""Runs the steps in the control root: from an empty machine to three served models, and further events there.

    python -m rehearsal.real_gpu.steps [STEP...]      a sitting is all of its steps, in order

Each step is a process of its own with a limit of time, leaves step-NAME.json in /srv/report, and may be run again. A
failed step ends only the steps that need it. inventory.py and deploy.py decide what is deployed; this calls them over
SSH like a person and looks at the machine from outside.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import FrameType
from typing import Any

from rehearsal import machines, services
from rehearsal.places import REPOSITORY, RehearsalRefused
from rehearsal.real_gpu import deploy_steps, image, rates, two_cards, two_hosts, vllm_cost, vllm_events, vllm_steps
from rehearsal.real_gpu.measured import deployed_as, loaded_as, measured, slot, smoked_as, workspaces
from rehearsal.real_gpu.report import StepResults, described, step
from rehearsal.real_gpu.scene import (
    CHECKPOINTS,
    IMAGE,
    NAME,
    OUTER,
    REPORT,
    TORCH,
    TRAVELLED,
    card,
    given_hardware,
    gpus_of,
    outer_python,
    places,
    prepared,
    real,
    tell,
)

GRACE_SECONDS = 20
"""Seconds for a step after its time is up, to restore what it changed."""


def artefacts(results: StepResults) -> None:
    """Builds image and checkpoints concurrently, since neither was sent."""
    with ThreadPoolExecutor() as pool:
        weights = pool.submit(_timed, _make_checkpoints)
        made = pool.submit(_timed, _make_image)
        results["image"], results["seconds_image"] = made.result()
        _, results["seconds_checkpoints"] = weights.result()
    blobs = sum(path.stat().st_size for path in IMAGE.glob("sha256-*"))
    results["image_mib"] = blobs >> 20
    results["checkpoints_mib"] = sum(path.stat().st_size for path in CHECKPOINTS.rglob("*") if path.is_file()) >> 20
    tell(image_mib=blobs >> 20)


def _timed(make: Callable[[], Any]) -> tuple[Any, float]:
    began = time.monotonic()
    return make(), round(time.monotonic() - began, 1)


def _make_image() -> dict[str, Any]:
    record = IMAGE / "made.json"
    if not record.exists():
        shutil.rmtree(IMAGE, ignore_errors=True)  # left by an interrupted step
        network = dict.fromkeys((REPOSITORY / "rehearsal/real_gpu/llm").glob("network*.py"), "tensorrt_llm")
        travelled = TRAVELLED / "vllm"
        vllm = (travelled, f"{os.environ['ENGINEHOUSE_PLACE']}/vllm") if real() and any(travelled.glob("*")) else None
        made = image.make_image(IMAGE, OUTER, TORCH, TRAVELLED / "triton", network, vllm)
        record.write_text(json.dumps(made))
    return dict(json.loads(record.read_text()))


def _make_checkpoints() -> None:
    """Makes the checkpoints with the machine's own Python, which has torch for its GPU."""
    if (CHECKPOINTS / "made").exists():
        return
    shutil.rmtree(CHECKPOINTS, ignore_errors=True)  # left by an interrupted step
    words = ["-m", "rehearsal.real_gpu.weights", str(CHECKPOINTS), *([] if real() else ["--small"])]
    subprocess.run([*outer_python(), *words], check=True)
    (CHECKPOINTS / "made").touch()


def up(results: StepResults) -> None:
    """Starts the services and boots the machine with the GPU."""
    snapshot = places().snapshots / "bare"
    if not snapshot.exists():
        (snapshot / "volumes").mkdir(parents=True)
        (snapshot / "machine.json").write_text(json.dumps({"os": "debian-13", "lowers": [str(TRAVELLED / "machine")]}))
    machine_hardware = given_hardware()
    tell(gpu=machine_hardware.gpu, gpus=gpus_of(machine_hardware), changed=False, layout="one")
    began = time.monotonic()
    (booted,) = machines.up([NAME], "13", machine_hardware, snapshot="bare")
    results["seconds_boot"] = round(time.monotonic() - began, 1)
    (places().root / "services").mkdir(exist_ok=True)
    # No limit, because the machine is lent for a short time.
    (places().root / "services/large-bytes-per-second").write_text("0")
    services.services_up(served=services.Artefacts(TRAVELLED / "packages", IMAGE, CHECKPOINTS))
    results["seconds_services"] = round(time.monotonic() - began - results["seconds_boot"], 1)
    prepared(booted)
    results["state"] = booted.run("systemctl is-system-running", check=False).stdout.strip()
    results["gpu_inside"] = booted.run("nvidia-smi -L", check=False).stdout.strip() if real() else "stand-in"
    results["memory_before"] = card()
    if real() and "GPU 0" not in results["gpu_inside"]:
        raise RehearsalRefused(
            f"the machine does not see the GPU: {results['gpu_inside'] or 'nvidia-smi says nothing'}"
        )


@dataclass(frozen=True)
class Step:
    """A step's action, the steps that it needs done, and its approximate seconds on an H100."""

    body: Callable[[StepResults], None]
    needs: tuple[str, ...] = ()
    seconds: float = 30

    @property
    def limit_seconds(self) -> float:
        """Returns the seconds after which the step is ended."""
        return 60 + 2 * self.seconds


STEPS: dict[str, Step] = {
    "artefacts": Step(artefacts, (), 45),
    "machine": Step(up, ("artefacts",), 25),
    "workspaces": Step(workspaces, ("artefacts",), 95),
    "deploy": Step(deploy_steps.deploy, ("machine",), 140),
    "deploy-again": Step(deploy_steps.deploy_again, ("deploy",), 5),
    "doctor": Step(deploy_steps.doctor, ("deploy",), 15),
    "smoke": Step(deploy_steps.smoke, ("deploy",), 15),
    "slot": Step(slot, ("deploy",), 60),
    "memory": Step(measured("memory"), ("deploy",), 100),
    "filled": Step(measured("filled"), ("deploy",), 110),
    "encoders": Step(measured("encoders"), ("deploy",), 260),
    "changed-release": Step(deploy_steps.change, ("deploy",), 80),
    "rollback": Step(deploy_steps.rollback, ("changed-release",), 70),
    "forward": Step(deploy_steps.forward, ("rollback",), 80),
    "kills": Step(deploy_steps.kills, ("deploy",), 150),
    "daemon-reload": Step(deploy_steps.daemon_reload, ("deploy",), 5),
    "watchdog": Step(deploy_steps.watchdog, ("deploy",), 5),
    "remove": Step(deploy_steps.remove, ("deploy",), 30),
    "split-deploy": Step(deployed_as("one_per_gpu", "split-deploy"), ("machine",), 210),
    "split-smoke": Step(smoked_as("one_per_gpu", "split-smoke"), ("split-deploy",), 25),
    "split-load": Step(loaded_as("one_per_gpu"), ("split-deploy",), 60),
    "both-deploy": Step(deployed_as("both", "both-deploy"), ("machine",), 110),
    "both-smoke": Step(smoked_as("both", "both-smoke"), ("both-deploy",), 15),
    "both-load": Step(loaded_as("both"), ("both-deploy",), 50),
    "beside-deploy": Step(vllm_steps.deploy, ("machine",), 230),
    "beside-again": Step(vllm_steps.deploy_again, ("beside-deploy",), 8),
    "beside-doctor": Step(vllm_steps.doctor, ("beside-deploy",), 15),
    "beside-smoke": Step(vllm_steps.smoke, ("beside-deploy",), 20),
    "beside-chat": Step(vllm_steps.chat, ("beside-deploy",), 20),
    "beside-filled": Step(vllm_steps.filled, ("beside-deploy",), 50),
    "beside-kill": Step(vllm_events.kill, ("beside-deploy",), 70),
    "beside-refused": Step(vllm_events.refused, ("beside-deploy",), 250),
    "beside-swap": Step(vllm_events.swap, ("beside-deploy",), 170),
    "beside-rollback": Step(vllm_events.rollback, ("beside-swap",), 100),
    "beside-cost": Step(vllm_cost.cost, ("beside-deploy",), 480),
    "beside-cost-loaded": Step(vllm_cost.loaded_cost, ("beside-deploy",), 170),
    "beside-clients": Step(vllm_events.libraries, ("beside-deploy",), 30),
    "beside-drain": Step(vllm_events.drain, ("beside-deploy",), 70),
    "hosts-machines": Step(two_hosts.up, ("machine",), 15),
    "cards-deploy": Step(two_cards.deploy, ("machine",), 230),
    "cards-again": Step(two_cards.deploy_again, ("cards-deploy",), 8),
    "cards-smoke": Step(two_cards.smoke, ("cards-deploy",), 15),
    "cards-chat": Step(two_cards.chat, ("cards-deploy",), 20),
    "cards-alone": Step(rates.start_alone, ("cards-deploy",), 120),
    "hosts-deploy": Step(two_hosts.deploy, ("hosts-machines",), 250),
    "hosts-again": Step(two_hosts.deploy_again, ("hosts-deploy",), 10),
    "hosts-kill": Step(two_hosts.kill, ("hosts-deploy",), 90),
    "rates": Step(rates.measure, ("cards-alone", "hosts-deploy"), 110),
    "untouched": Step(deploy_steps.untouched, (), 5),
}
SITTINGS = {
    "first": (
        *("artefacts", "machine", "deploy", "deploy-again", "doctor", "smoke", "slot"),
        *("changed-release", "rollback", "forward", "kills"),
        *("daemon-reload", "watchdog", "remove", "untouched"),
    ),
    "second": ("artefacts", "machine", "workspaces", "deploy", "memory", "filled", "encoders", "untouched"),
    "third": (
        *("artefacts", "machine", "split-deploy", "split-smoke", "split-load"),
        *("both-deploy", "both-smoke", "both-load", "untouched"),
    ),
    "fourth": (
        *("artefacts", "machine", "beside-deploy", "beside-again", "beside-chat", "beside-smoke", "beside-doctor"),
        *("beside-filled", "beside-clients", "beside-cost", "beside-cost-loaded"),
        *("beside-refused", "beside-swap", "beside-rollback"),
        *("beside-kill", "beside-drain", "untouched"),
    ),
    "fifth": (
        *("artefacts", "machine", "hosts-machines", "cards-deploy", "cards-again", "cards-chat", "cards-smoke"),
        *("cards-alone", "hosts-deploy", "hosts-again", "rates", "hosts-kill", "untouched"),
    ),
}


def main(words: Sequence[str] | None = None) -> int:
    """Runs the steps named on the command line in their order; returns 0 if none of them failed."""
    options = parser().parse_args(words)
    signal.signal(signal.SIGTERM, _end)
    if options.alone:
        return alone(options.alone)
    named = [name for word in options.steps or ["first"] for name in SITTINGS.get(word, (word,))]
    failed, end = list[str](), time.monotonic() + options.within
    for name in named:
        if options.rest and is_done(name):
            print(f"--- {name} is done", flush=True)
        elif lacking := [need for need in STEPS[name].needs if need in failed]:
            print(f"--- {name} is not begun: {', '.join(lacking)} failed", flush=True)
            failed.append(name)
        elif (left := end - time.monotonic()) < STEPS[name].seconds:
            print(f"--- {name} is not begun: it takes {STEPS[name].seconds:.0f} s, {left:.0f} are left", flush=True)
            failed.append(name)
        else:
            print(f"--- {name}", flush=True)
            if not in_time(process_of(name), min(left, STEPS[name].limit_seconds)):
                failed.append(name)
    print(f"failed: {', '.join(failed) or 'none'}", flush=True)
    return 1 if failed else 0


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="drive run", description=__doc__.splitlines()[0])
    choices = [*SITTINGS, *STEPS, []]  # argparse checks an absent list against the choices too
    made.add_argument("steps", nargs="*", choices=choices, metavar="STEP")
    made.add_argument("--rest", action="store_true", help="leave out steps that were done well here already")
    made.add_argument(
        "--within", type=float, default=86_400, metavar="SECONDS", help="begin no step that would last longer"
    )
    made.add_argument("--alone", choices=list(STEPS), help=argparse.SUPPRESS)
    return made


def is_done(name: str) -> bool:
    """Returns True if the step ended well, by its file."""
    file = REPORT / f"step-{name}.json"
    return file.exists() and bool(json.loads(file.read_text())["ok"])


def process_of(name: str) -> list[str]:
    """Returns the command that runs one step in a separate process."""
    return [sys.executable, "-m", "rehearsal.real_gpu.steps", "--alone", name]


def in_time(command: Sequence[str], seconds: float) -> bool:
    """Returns True if the command succeeded; after `seconds` terminates it, then kills it with its children."""
    with subprocess.Popen(command, cwd=REPOSITORY, start_new_session=True) as process:
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            print(f"its {seconds:.0f} s are over", file=sys.stderr, flush=True)
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_SECONDS)
            return False
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def alone(name: str) -> int:
    """Runs the step in this process; returns 0 if it is ok."""
    began = time.monotonic()
    try:
        with step(name, REPORT) as results:
            STEPS[name].body(results)
    except Exception as problem:
        print(f"{name} failed after {time.monotonic() - began:.1f} s\n{described(problem)[-4000:]}", file=sys.stderr)
        return 1
    is_ok = results.get("passed", True)
    print(
        f"    {time.monotonic() - began:.1f} s  {'' if is_ok else 'NOT PASSED '}{json.dumps(results)[:1500]}",
        flush=True,
    )
    return 0 if is_ok else 1


def _end(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("its time is up")


if __name__ == "__main__":
    sys.exit(main())
