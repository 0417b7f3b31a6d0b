"""Starts the sampler and ends it; its results are available after the block."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rehearsal import cgroups
from rehearsal.machine import Machine
from tests.secrets.forms import Forms

SAMPLER = Path(__file__).with_name("sampler.py")
MARKER = "enginehouse-canary-marker"
"""A harmless word that appears briefly in a process, to prove that the sampler sees brief appearances."""
MOST_SECONDS = 600
PROGRAMS = "/usr/bin/python3 -B /usr/local/lib/enginehouse/host "
# Programs that hold a secret while they work, as their command lines begin: a core would put the secret on the disk.
# `fetch --prepare` and `fetch --publish` hold none; systemd starts them with "+", which leaves LimitCORE out.
HOLDERS = (f"{PROGRAMS}pull", f"{PROGRAMS}fetch /etc/enginehouse/weights/", f"{PROGRAMS}prove", "tritonserver")


@dataclass
class Watch:
    """Sampled processes of this machine; empty until the block ends."""

    figures: dict[str, Any] = field(default_factory=dict)

    def sights(self, *keys: str) -> list[tuple[str, ...]]:
        """Returns every sight of a secret once, by these of its keys, without the marker."""
        seen = (sight for sight in self.figures["sights"] if not sight["name"].startswith(MARKER))
        return sorted({tuple(sight[key] for key in keys) for sight in seen})

    def marked(self) -> list[tuple[str, str]]:
        """Returns the side and the place at which the marker was seen."""
        seen = (sight for sight in self.figures["sights"] if sight["name"].startswith(MARKER))
        return sorted({(sight["side"], sight["where"]) for sight in seen})

    def __str__(self) -> str:
        figures = self.figures
        return (
            f"{figures['samples']} samples in {figures['seconds']} s of {figures['processes']} processes,"
            f" most of them {figures['median_ms']} ms apart, longest gap {figures['longest_ms']} ms"
        )


@contextlib.contextmanager
def watched(looked_for: Forms, machine: Machine) -> Iterator[Watch]:
    """Samples every process during the block, in a separate process that gets the texts on standard input."""
    group = cgroups.of_machine(machine.places.number, machine.name)[0].name
    request = {"forms": looked_for | {MARKER: MARKER}, "machine": f"/{group}/", "programs": HOLDERS}
    watch, program = Watch(), [sys.executable, "-S", str(SAMPLER)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sampler:
        assert sampler.stdin and sampler.stdout
        try:
            print(json.dumps(request | {"seconds": MOST_SECONDS}), file=sampler.stdin, flush=True)
            assert sampler.stdout.readline() == "looking\n"
            yield watch
            watch.figures = json.loads(sampler.communicate(timeout=30)[0])
        finally:
            sampler.kill()


def show_marker(machine: Machine) -> None:
    """Shows the marker in two processes of the machine for a tenth of a second, in arguments and in the environment."""
    machine.run(f"sh -c 'sleep 0.1; :' {MARKER}; MARKED={MARKER} sleep 0.1")
