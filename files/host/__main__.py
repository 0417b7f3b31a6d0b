"""Starts one of a host's programs: python3 -B /usr/local/lib/enginehouse/host PROGRAM ARGUMENT…

That path is a link to the current version, and a deploy replaces the link by rename. A running program keeps its
version: its imports come from the directory behind the link at its start, and this directory is not removed while the
program runs (the publishing command checks the lock that `hold` takes).
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import sys

PROGRAMS = {
    "balancer": "host.balancer",
    "build": "host.build.main",
    "certificates": "host.certificates",
    "clean-up": "host.clean_up",
    "gateway": "host.gateway",
    "engine": "host.engine",
    "fetch": "host.fetch",
    "fetch-apt-key": "host.fetch_apt_key",
    "group": "host.group.main",
    "gpu-state": "host.gpu_state",
    "job": "host.job",
    "metrics": "host.metrics",
    "mig": "host.mig",
    "notices": "host.notices.main",
    "peers": "host.peers.main",
    "pod": "host.pod",
    "prove": "host.prove",
    "prove-llm": "host.prove_llm",
    "publish": "host.publish",
    "pull": "host.pull",
    "repair": "host.repair.main",
    "swap": "host.swap",
    "tell": "host.server_report",
    "traffic": "host.traffic.main",
    "undo": "host.undo",
    "watch": "host.watch",
}


def main() -> int:
    """The program's exit status; 64 for an unknown program."""
    name, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if name not in PROGRAMS:
        print(f"{name or 'no program'}: the programs are {', '.join(PROGRAMS)}", file=sys.stderr)
        return 64
    return int(importlib.import_module(PROGRAMS[name]).main(arguments))


def hold(version: str) -> int:
    """A lock on this version, which the kernel releases when the process ends."""
    handle = os.open(version, os.O_RDONLY)
    with contextlib.suppress(OSError):  # a missing lock must not keep a program from starting
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return handle


if __name__ == "__main__":
    here = os.path.dirname(os.path.realpath(__file__))
    held = hold(here)
    sys.path[0] = os.path.dirname(here)
    sys.exit(main())
