"""The repair itself: GPUs reset or the host rebooted while no server runs, and the proof that every server answers.

A start of triton@SERVER sends every model its test request (`prove`), as after a swap: an active unit is that proof.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from host import gpu_state, history, mig, places, systemd
from host.server import Server
from host.traffic.draining import units

HOLDERS = (*mig.HOLDERS, "enginehouse-dcgm.service", mig.PERSISTENCE)
READERS = ("enginehouse-gpu-state.timer", "enginehouse-gpu-state.service")
"""Units that run nvidia-smi, which refuses a reset while another nvidia-smi runs."""
REBOOT_SECONDS = 300.0
LOOK_SECONDS = 1.0


class NotDone(Exception):
    """The repair was not made; the text is the reason."""


@contextlib.contextmanager
def host_to_itself(traffic: dict[str, Any]) -> Iterator[str]:
    """Keeps runs and swaps away during the repair. Yields the current user of the host, else an empty text."""
    with contextlib.ExitStack() as stack:
        for name in traffic["servers"]:
            server = Server(name)
            if not server.place.is_dir():
                continue
            if not stack.enter_context(server.locked(wait=False)) or server.swap_file.exists():
                yield f"a swap of server {name} is under way"
                return
        yield "" if stack.enter_context(_run_lock()) else "a run is changing this host"


@contextlib.contextmanager
def _run_lock() -> Iterator[bool]:
    """True while this host's repair holds the lock of runs; a new run is then refused with this record."""
    record = {"run": "repair", "who": "this host's repair of its GPUs", "since": history.now(), "plan": "none"}
    handle = os.open(places.LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        os.ftruncate(handle, 0)
        os.write(handle, f"{json.dumps(record)}\n".encode())
        try:
            yield True
        finally:
            places.LOCK.unlink(missing_ok=True)
    finally:
        os.close(handle)


def serving(traffic: dict[str, Any]) -> dict[str, Any]:
    return traffic | {
        "servers": {name: row for name, row in traffic["servers"].items() if Server(name).release("current")}
    }


def stop_servers(traffic: dict[str, Any]) -> None:
    """Stops every server. The stop itself waits until balancers have no request there (`traffic drained`)."""
    systemd.systemctl("stop", *units(traffic))


def start_servers(traffic: dict[str, Any]) -> None:
    """Starts every server that has a release, with systemd's count of failed starts reset."""
    names = units(serving(traffic))
    if names:
        systemd.systemctl("reset-failed", *names)
        systemd.systemctl("start", "--no-block", *names)


def reset(gpus: tuple[int, ...], traffic: dict[str, Any]) -> None:
    """Resets the GPUs and starts servers. Raises NotDone with nvidia-smi's reason for a refusal."""
    held = mig.active(*HOLDERS, *READERS)
    try:
        stop_servers(traffic)
        if held:
            systemd.systemctl("stop", *held)
        answer = mig.run("nvidia-smi", "--gpu-reset", "-i", ",".join(map(str, gpus)))
        if answer.returncode:
            words = (answer.stdout + answer.stderr).strip().splitlines()
            raise NotDone(" ".join(line.strip() for line in words[:2]) or f"exit status {answer.returncode}")
        gpu_state.main(["mended"])
    finally:
        if held:
            systemd.systemctl("start", "--no-block", *held)
        start_servers(traffic)


def reboot(traffic: dict[str, Any]) -> None:
    """Reboots the host, and does not return then. Raises NotDone if it fails; servers are then starting."""
    stop_servers(traffic)
    systemd.systemctl("reboot")
    time.sleep(REBOOT_SECONDS)
    start_servers(traffic)
    raise NotDone(f"the host did not reboot within {REBOOT_SECONDS:.0f} s")


def prove_seconds(traffic: dict[str, Any]) -> float:
    """The longest time in which the servers may start."""
    seconds = [300.0]
    for name in traffic["servers"]:
        with contextlib.suppress(OSError, ValueError, KeyError):
            text = (places.server(name) / "current" / "server.json").read_text()
            seconds.append(float(json.loads(text)["start_seconds"]))
    return max(seconds) + 120


def prove(traffic: dict[str, Any], until: float) -> str:
    """Empty once every server answers; else the units that do not answer at the end of the time."""
    names = units(serving(traffic))
    while True:
        states = dict(zip(names, systemd.active_states(*names), strict=True)) if names else {}
        waiting = {name: state for name, state in states.items() if state != "active"}
        if not waiting:
            return ""
        if time.time() >= until or set(waiting.values()) == {"failed"}:
            return ", ".join(f"{name} is {state}" for name, state in waiting.items())
        systemd.say(f"proving: {', '.join(waiting)}")
        time.sleep(LOOK_SECONDS)
