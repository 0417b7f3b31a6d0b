"""The host's share of a server's work inside a Slurm job, without systemd; job.sh has the other steps.

    host job serve              the two ports of the traffic service: ready once the proof of a server exists
    host job watch SERVER       ends with 1 after as many silent probes of a model as the watchdog of a host allows

A server is ready by its proof.json, unless `host traffic drained` has begun for this run of the job (INVOCATION_ID).
Settings: traffic.json of the host, and watch.json with watch_seconds, answer_seconds and misses.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from host import places, pod, watch
from host.traffic.service import Service, serve
from host.traffic.state import Unit, settings


def main(arguments: list[str]) -> int:
    """The exit status of one of the steps above."""
    step, *words = arguments or [""]
    if step == "serve" and not words:
        return asyncio.run(serve(settings(), JobService))
    if step == "watch" and len(words) == 1:
        return watched(words[0])
    print("host job serve | watch SERVER", file=sys.stderr)
    return 64


class JobService(Service):
    """The servers of this job; a server's proof replaces an active unit."""

    async def look(self) -> None:
        self.units = {name: unit_of(places.server(name) / "proof.json") for name in self.models}


def unit_of(proof: Path) -> Unit:
    """A server of this run of the job: active once every model has answered."""
    invocation = os.environ.get("INVOCATION_ID", "-")
    try:
        return Unit(bool(json.loads(proof.read_text())["ok"]), invocation, proof.stat().st_mtime)
    except (OSError, ValueError, KeyError, RecursionError):
        return Unit(False, invocation, time.time())


def watched(name: str) -> int:
    """Returns 1 once a model of this server is silent, and not earlier."""
    wanted = json.loads((places.SETTINGS / "watch.json").read_text())
    server = json.loads((places.server(name) / "current" / "server.json").read_text())
    asker = watch.Asker(server, name, wanted["answer_seconds"])
    memory = {model["name"]: pod.nothing() for model in server["models"]}
    while True:
        time.sleep(wanted["watch_seconds"])
        for model in server["models"]:
            watch.look(asker, model, memory[model["name"]])
        silent = [model for model, counts in memory.items() if counts["misses"] >= wanted["misses"]]
        if silent:
            return pod.exit_status(silent)
