"""The steps of the run, in the control root: from nothing to three served models, and what happens to them there.

    python -m rehearsal.real_gpu.steps [STEP...]      `first` and `second` are all steps of that sitting, in order

Each step leaves step-NAME.json in /srv/report and may be run again. What is deployed and how is inventory.py's and
deploy.py's business; this calls them over SSH, as a person would, and looks at the machine from outside.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rehearsal import apt_repository, hardware, machines, services
from rehearsal.places import REPOSITORY, RehearsalRefused
from rehearsal.real_gpu import happenings, image
from rehearsal.real_gpu.report import Found, step
from rehearsal.real_gpu.scene import (
    CHECKPOINTS,
    IMAGE,
    INVENTORY,
    NAME,
    OUTER,
    REPORT,
    TORCH,
    TRAVELLED,
    card,
    gpus_of,
    machine,
    outer_python,
    places,
    real,
    tell,
)


def artefacts(found: Found) -> None:
    """Image and checkpoints are made, side by side: nothing of them travelled."""
    with ThreadPoolExecutor() as pool:
        weights = pool.submit(_timed, _make_checkpoints)
        made = pool.submit(_timed, _make_image)
        found["image"], found["seconds_image"] = made.result()
        _, found["seconds_checkpoints"] = weights.result()
    blobs = sum(path.stat().st_size for path in IMAGE.glob("sha256-*"))
    found["image_mib"] = blobs >> 20
    found["checkpoints_mib"] = sum(path.stat().st_size for path in CHECKPOINTS.rglob("*") if path.is_file()) >> 20
    tell(image_mib=blobs >> 20)


def _timed(make: Callable[[], Any]) -> tuple[Any, float]:
    began = time.monotonic()
    return make(), round(time.monotonic() - began, 1)


def _make_image() -> dict[str, Any]:
    record = IMAGE / "made.json"
    if not record.exists():
        network = dict.fromkeys((REPOSITORY / "rehearsal/real_gpu/llm").glob("network*.py"), "tensorrt_llm")
        made = image.make_image(IMAGE, OUTER, TORCH, TRAVELLED / "triton", network)
        record.write_text(json.dumps(made))
    return dict(json.loads(record.read_text()))


def _make_checkpoints() -> None:
    """By the machine's own Python, which has torch for its GPU."""
    if (CHECKPOINTS / "made").exists():
        return
    words = ["-m", "rehearsal.real_gpu.weights", str(CHECKPOINTS), *([] if real() else ["--small"])]
    subprocess.run([*outer_python(), *words], check=True)
    (CHECKPOINTS / "made").touch()


def up(found: Found) -> None:
    """The services answer, and the machine has booted with the GPU in it."""
    snapshot = places().snapshots / "bare"
    if not snapshot.exists():
        (snapshot / "volumes").mkdir(parents=True)
        (snapshot / "machine.json").write_text(json.dumps({"debian": "13", "lowers": [str(TRAVELLED / "machine")]}))
    given = hardware.real_gpus("h100-80") if real() else hardware.h100()
    tell(gpu=given.gpu, gpus=gpus_of(given), changed=False)
    began = time.monotonic()
    (booted,) = machines.up([NAME], "13", given, snapshot="bare")
    found["seconds_boot"] = round(time.monotonic() - began, 1)
    (places().root / "services").mkdir(exist_ok=True)
    (places().root / "services/large-bytes-per-second").write_text("0")  # as fast as it goes: minutes are borrowed
    services.services_up(served=services.Artefacts(TRAVELLED / "packages", IMAGE, CHECKPOINTS))
    found["seconds_services"] = round(time.monotonic() - began - found["seconds_boot"], 1)
    debian = f"{apt_repository.URL}/debian"
    booted.put("/usr/share/keyrings/rehearsal.asc", (TRAVELLED / "packages/debian/key.asc").read_text())
    source = f"Types: deb\nURIs: {debian}\nSuites: ./\nSigned-By: /usr/share/keyrings/rehearsal.asc\n"
    booted.put("/etc/apt/sources.list.d/debian.sources", source)
    found["state"] = booted.run("systemctl is-system-running", check=False).stdout.strip()
    found["gpu_inside"] = booted.run("nvidia-smi -L", check=False).stdout.strip() if real() else "stand-in"
    found["memory_before"] = card()
    if real() and "GPU 0" not in found["gpu_inside"]:
        raise RehearsalRefused(f"the machine does not see the GPU: {found['gpu_inside'] or 'nvidia-smi says nothing'}")


def _measured(name: str) -> Callable[[Found], None]:
    """The step that takes this measure of the deployed server (measure.py)."""

    def take(found: Found) -> None:
        from deploy.edge.inventory import load_plan
        from rehearsal.real_gpu import measure
        from rehearsal.real_gpu.generating import Shape

        setting = measure.Setting.of(
            load_plan(INVENTORY).for_host(NAME),
            machine(),
            machine().address,
            CHECKPOINTS,
            python=outer_python(),
            device="cuda:0" if real() else "cpu",
            small=not real(),
            runs=3,
            **({} if real() else {"prompts": Shape((64, 64), 16)}),
        )
        with tempfile.TemporaryDirectory(prefix="measure-") as work:
            result = measure.MEASURES[name](setting, Path(work), found.update)
        if not real():
            result.pop("passed", None)  # nothing is judged by figures of a stand-in
        found.update(result)

    return take


def workspaces(found: Found) -> None:
    """What an empty card gives: a bare context, and each encoder at three budgets of tokens."""
    words = [*outer_python(), "-m", "rehearsal.real_gpu.workspaces", str(CHECKPOINTS)]
    if not real():
        found["said"] = "there is no card to measure"
        return
    told = subprocess.run(words, text=True, capture_output=True, check=True)
    found.update(json.loads(told.stdout.splitlines()[-1]))


FIRST_SITTING: dict[str, Callable[[Found], None]] = {
    "artefacts": artefacts,
    "machine": up,
    "deploy": happenings.deploy,
    "deploy-again": happenings.deploy_again,
    "smoke": happenings.smoke,
    "changed-release": happenings.change,
    "rollback": happenings.rollback,
    "forward": happenings.forward,
    "kills": happenings.kills,
    "daemon-reload": happenings.daemon_reload,
    "watchdog": happenings.watchdog,
    "remove": happenings.remove,
    "untouched": happenings.untouched,
}
SECOND_SITTING: dict[str, Callable[[Found], None]] = {
    "artefacts": artefacts,
    "machine": up,
    "workspaces": workspaces,
    "deploy": happenings.deploy,
    "memory": _measured("memory"),
    "filled": _measured("filled"),
    "encoders": _measured("encoders"),
    "untouched": happenings.untouched,
}
STEPS = FIRST_SITTING | SECOND_SITTING
SITTINGS = {"first": FIRST_SITTING, "second": SECOND_SITTING}


def main() -> int:
    """The steps named on the command line have run, in their order; the first that fails is the last."""
    parser = argparse.ArgumentParser(prog="drive run", description=__doc__.splitlines()[0])
    choices = [*SITTINGS, *STEPS, []]  # argparse compares the list with them where no step is named
    parser.add_argument("steps", nargs="*", choices=choices, metavar="STEP")
    named = parser.parse_args().steps or ["first"]
    for name in [each for word in named for each in SITTINGS.get(word, [word])]:
        began = time.monotonic()
        print(f"--- {name}", flush=True)
        try:
            with step(name, REPORT) as found:
                STEPS[name](found)
        except (RehearsalRefused, subprocess.CalledProcessError) as refused:
            print(f"{name} failed after {time.monotonic() - began:.1f} s\n{refused}", file=sys.stderr)
            if getattr(refused, "stderr", None):
                print(str(getattr(refused, "stderr", ""))[-3000:], file=sys.stderr)
            return 1
        print(f"    {time.monotonic() - began:.1f} s  {json.dumps(found)[:1500]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
