"""Cuts this host's GPUs into the MIG instances of /etc/enginehouse/mig.json, or makes them whole; idempotent.

    host mig apply      exit 0: done · 1: failed, with the reason · 75: the mode is pending until a reboot

Instances are lost at every boot, on Hopper and later the mode too (MIG user guide), so enginehouse-mig.service runs
this before any program attaches a GPU. Known units that hold a GPU open (a Triton of this host, DCGM, NVSM) are stopped
and started again; while any other program holds a GPU, nvidia-smi refuses, and no instance is destroyed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from host import places

PENDING = 75
HOLDERS = ("triton@*.service", "llm@*.service", "nvidia-dcgm.service", "dcgm.service", "nvsm.service")
PERSISTENCE = "nvidia-persistenced.service"
DRIVER_SECONDS = 60
GPU = re.compile(r"GPU (\d+):")
DEVICE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+:")


class NotDone(Exception):
    """Nvidia-smi refused the change; the text is its message."""


class ModePending(Exception):
    """The mode was accepted, but changes only at a reset or a reboot."""


def main(arguments: list[str]) -> int:
    """Exit status, after printing one line for every action or refusal."""
    if arguments != ["apply"]:
        print("usage: host mig apply", file=sys.stderr)
        return 2
    wanted = json.loads((places.SETTINGS / "mig.json").read_text())
    try:
        wait_for_driver()
        apply(wanted["gpus"], wanted["instances"])
    except NotDone as problem:
        print(problem, file=sys.stderr)
        return 1
    except ModePending as problem:
        print(f"{problem}; a reboot makes it so", file=sys.stderr)
        return PENDING
    return 0


def apply(gpus: int, instances: list[dict[str, object]]) -> None:
    """Cuts every GPU as wanted; makes it whole if `instances` is empty."""
    names = [str(instance["profile"]) for instance in instances]
    wrong = [gpu for gpu in range(gpus) if not is_done(gpu, names)]
    if not wrong:
        return
    waiting = []
    with let_go():
        for gpu in wrong:
            try:
                cut(gpu, instances) if instances else make_whole(gpu)
                print(f"GPU {gpu}: {' + '.join(names) or 'whole'}")
            except ModePending as problem:  # one reboot for all of them
                waiting.append(problem)
    if waiting:
        raise waiting[0]
    left = [gpu for gpu in wrong if not is_done(gpu, names)]
    if left:
        raise NotDone(f"GPU {left[0]} has {devices(left[0]) or 'no instances'} now; wanted, in this order: {names}")


def is_done(gpu: int, names: list[str]) -> bool:
    """True if the mode is right and the instances are the wanted ones, in CDI's order."""
    now, wanted = mode(gpu), "Enabled" if names else "Disabled"
    if now == ("[N/A]", "[N/A]"):
        return not names
    return now == (wanted, wanted) and devices(gpu) == names


def cut(gpu: int, instances: list[dict[str, object]]) -> None:
    """Creates exactly these instances on the GPU, each with one compute instance over all of it."""
    switch(gpu, "1")
    destroy(gpu)
    tuples = ",".join(f"{instance['id']}:{instance['start']}" for instance in instances)
    smi("mig", "-i", str(gpu), "-cgi", tuples, "-C")


def make_whole(gpu: int) -> None:
    """Makes the GPU one device again."""
    destroy(gpu)
    switch(gpu, "0")


def destroy(gpu: int) -> None:
    """Removes instances, compute instances first, because they keep a GPU instance in use. A GPU without instances is
    not an error."""
    for what in ("-dci", "-dgi"):
        smi("mig", "-i", str(gpu), what, ends_well=("No MIG-enabled devices found", "Not Found"))


def switch(gpu: int, to: str) -> None:
    """Turns the mode on or off; a mode that stays pending is set once more without the persistence daemon.

    Raises: ModePending if the mode is still pending (a guest that may not reset its GPU, or a foreign process).
    """
    wanted = {"1": "Enabled", "0": "Disabled"}[to]
    if mode(gpu)[0] == wanted:
        return
    output = smi("-i", str(gpu), "-mig", to)
    if mode(gpu)[0] != wanted and active(PERSISTENCE):
        run("systemctl", "stop", PERSISTENCE)
        output = smi("-i", str(gpu), "-mig", to)
        run("systemctl", "start", PERSISTENCE)
    if mode(gpu)[0] != wanted:
        raise ModePending(output.splitlines()[0].strip() if output.strip() else f"MIG mode of GPU {gpu} is pending")


@contextmanager
def let_go() -> Iterator[None]:
    """Stops the units that are known to hold GPUs, for the time of the block."""
    units = active(*HOLDERS)
    if units:
        run("systemctl", "stop", *units)
    try:
        yield
    finally:
        if units:
            run("systemctl", "start", "--no-block", *units)


def active(*patterns: str) -> list[str]:
    """The units among these that run or are starting."""
    listed = run("systemctl", "list-units", "--plain", "--no-legend", "--state=active,activating", *patterns)
    return [line.split()[0] for line in listed.stdout.splitlines() if line.strip()]


def mode(gpu: int) -> tuple[str, ...]:
    """Current and pending mode, in nvidia-smi's words."""
    modes = smi("-i", str(gpu), "--query-gpu=mig.mode.current,mig.mode.pending", "--format=csv,noheader")
    return tuple(field.strip() for field in modes.strip().split(","))


def devices(gpu: int) -> list[str]:
    """The profiles of a GPU's MIG devices, in the order of their numbers."""
    number, profiles = -1, []
    for line in smi("-L").splitlines():  # `-i` is not valid with it
        if heading := GPU.match(line):
            number = int(heading[1])
        elif number == gpu and (device := DEVICE.match(line)):
            profiles.append(device[1])
    return profiles


def wait_for_driver() -> None:
    """Waits until nvidia-smi answers: at boot the module may still be loading."""
    deadline = time.monotonic() + DRIVER_SECONDS
    while True:
        answer = run("nvidia-smi", "-L")
        if answer.returncode == 0:
            return
        if time.monotonic() > deadline:
            raise NotDone(answer.stdout.strip() or answer.stderr.strip() or "nvidia-smi does not answer")
        time.sleep(1)


def smi(*arguments: str, ends_well: tuple[str, ...] = ()) -> str:
    """The output of nvidia-smi.

    Raises: NotDone with its message, unless that contains one of `ends_well`.
    """
    answer = run("nvidia-smi", *arguments)
    output = answer.stdout + answer.stderr
    if answer.returncode and not any(words in output for words in ends_well):
        raise NotDone(f"nvidia-smi {' '.join(arguments)}: {output.strip() or f'exit status {answer.returncode}'}")
    return output


def run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, text=True, capture_output=True, timeout=300)
    except (FileNotFoundError, subprocess.TimeoutExpired) as problem:
        return subprocess.CompletedProcess(command, 127, "", str(problem))
