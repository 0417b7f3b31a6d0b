"""Runs one command of a build in the release's container and keeps its output.

The container is as strict as a serving one: a user without rights, a read-only file system, no capabilities, no
network. Only the staging directory is writable; weights and calibration texts have the same paths as on the host.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import selectors
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

UID = 61140
"""The containers' user (roles/triton/render.py), which has no login."""
LABEL = "enginehouse.build"
TMP_MIB = 4096
PIDS_LIMIT = 16384
# A build gets only the CPU time that servers leave.
CPU_SHARES = 64
TAIL_BYTES = 1 << 20
# The container has no network, so a request to a hub would only time out.
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
# The image's own path, if set, comes after the repairs.
REPAIRED = 'export PYTHONPATH="$ENGINEHOUSE_REPAIRS${PYTHONPATH:+:$PYTHONPATH}"; exec "$@"'
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def name_of(model: str) -> str:
    return f"enginehouse-build-{model}"


def options(settings: dict[str, Any], staging: Path, read_only: list[str]) -> list[str]:
    """The arguments of `docker run` up to the command."""
    environment = {"HOME": str(staging / "home"), "USER": "enginehouse", "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    # Packages that repair a known defect of the image take precedence, as on a serving host.
    repairs = [settings["python_path"]] if settings.get("python_path") else []
    environment |= {"ENGINEHOUSE_REPAIRS": repairs[0]} if repairs else {}
    mounts = dict.fromkeys([*settings["mounts"], *read_only, *repairs])
    return [
        *("docker", "run", "--rm", "--name", name_of(settings["model"]), "--pull", "never"),
        *("--label", f"{LABEL}={settings['fingerprint']}", "--network", "none"),
        # MPI and NCCL resolve the hostname, and the container has no name service.
        *("--hostname", "localhost"),
        *(word for device in settings["devices"] for word in ("--device", device)),
        *("--user", f"{UID}:{UID}", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        # `exec` is explicit, because Docker's default for a tmpfs is noexec, and compilers load their results from
        # there.
        *("--tmpfs", f"/tmp:rw,exec,nosuid,nodev,size={TMP_MIB}m", "--pids-limit", str(PIDS_LIMIT)),
        *("--shm-size", f"{settings['shm_mib']}m", "--cpu-shares", str(CPU_SHARES)),
        *("--ulimit", f"memlock={memlock()}", "--ulimit", "stack=67108864"),
        *(word for place in mounts for word in ("--mount", f"type=bind,source={place},target={place},readonly")),
        *("--mount", f"type=bind,source={staging},target={staging}"),
        # The builder writes its timing cache to the working directory.
        *("--workdir", str(staging / "work"), "--log-driver", "none"),
        *(word for name, value in (environment | OFFLINE).items() for word in ("--env", f"{name}={value}")),
        settings["image"],
        *(("/bin/sh", "-c", REPAIRED, "sh") if repairs else ()),
    ]


def memlock() -> str:
    """Unlimited locked memory, or the machine's limit for root (some VMs have one)."""
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return "-1"
    except (ValueError, OSError):
        return str(resource.getrlimit(resource.RLIMIT_MEMLOCK)[1])


def run(argv: list[str], log: BinaryIO, progress: Callable[[str], None]) -> tuple[int, str]:
    """Exit status and the end of the output; all output goes to `log`, the last line to `progress` once a second."""
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert child.stdout
    tail, last, next_progress = b"", "", 0.0
    with selectors.DefaultSelector() as ready:
        ready.register(child.stdout, selectors.EVENT_READ)
        while True:
            if ready.select(timeout=1):
                if not (chunk := os.read(child.stdout.fileno(), 1 << 16)):
                    break
                log.write(chunk)
                tail = (tail + chunk)[-TAIL_BYTES:]
                last = last_line(tail) or last
            if time.monotonic() >= next_progress:
                next_progress = time.monotonic() + 1
                progress(last)
    progress(last)
    child.stdout.close()
    return child.wait(), tail.decode(errors="replace")


def last_line(tail: bytes) -> str:
    """The last line with text, without colours; a progress bar's last state counts as a line."""
    lines = re.split(r"[\r\n]+", ANSI.sub("", tail[-4096:].decode(errors="replace")))
    return next((line.strip()[:160] for line in reversed(lines) if line.strip()), "")


def quietly(argv: list[str]) -> tuple[int, str]:
    """Exit status and output of a command that is not logged."""
    ended = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def sweep() -> None:
    with contextlib.suppress(OSError):
        _, containers = quietly(["docker", "ps", "--all", "--quiet", "--filter", f"label={LABEL}"])
        for container in containers.split():
            quietly(["docker", "rm", "--force", container])
