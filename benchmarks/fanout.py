"""Measures the transfer of a model from one host to sixteen others: each from the source, and from one another.

    python -m benchmarks.fanout                                  16 machines, 300 MB, 100 Mbit/s in both directions
    python -m benchmarks.fanout --machines 4 --megabytes 20      a look at it

The machines are network namespaces of this one. Each receives with the hosts' program (`host peers`), and has the model
once it is verified and published. A direct copy is one machine that downloads it from the source over HTTP and
publishes it with `host publish`; the naive push is all of them at once. One call measures in sequence: direct, naive,
fan-out, fan-out with two machines killed after a third of a direct copy's time.

Prints one JSON line last. `ratio` is seconds of the fan-out over seconds of a direct copy, `killed_ratio` that of the
surviving machines. `cpu_percent` is the use of all cores of this machine together: near 100, the cores limit the
figures and not the links. Exits 1 above 1.8 or 2.2, or if a file differs from the source's.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.links import Machine, network

PROGRAMS = Path(__file__).parents[1] / "files/host"
PYTHON = "/usr/bin/python3"
MANIFEST = "manifest.sha256"
AT_MOST, AT_MOST_KILLED = 1.8, 2.2
PORT, HTTP = 6881, 8080
KILLED = 2
PATIENCE = 20
"""Factor over the expected time of the naive push after which a phase has failed."""
POLL_SECONDS = 0.02


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0 if everything arrived and was verified within the bounds."""
    options = parser().parse_args(words)
    if options.take:
        return take(*options.take)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="fanout-") as folder:
        result = measured(Path(folder), options)
    print(json.dumps(result), flush=True)
    return 0 if result["ratio"] <= AT_MOST and result["killed_ratio"] <= AT_MOST_KILLED and result["verified"] else 1


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.fanout", description=__doc__.splitlines()[0])
    made.add_argument("--machines", type=int, default=16, help="that receive; the source is one more")
    made.add_argument("--megabytes", type=int, default=300)
    made.add_argument("--mbit", type=int, default=100, help="Mbit/s of each link, in each direction")
    made.add_argument("--folder", default="/dev/shm", help="where all copies lie; memory, so that no disk binds")
    made.add_argument("--take", nargs=2, metavar=("ADDRESS", "DIRECTORY"), help=argparse.SUPPRESS)
    return made


def measured(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the results of the four phases, run in sequence."""
    source = folder / "source/model"
    make_model(source, options.megabytes * 1_000_000)
    with network(options.machines + 1, options.mbit) as (server, *machines):
        scene = Scene(folder, source, server, options)
        direct = scene.phase("direct", machines[:1], scene.naive)
        naive = scene.phase("naive", machines, scene.naive)
        fanned = scene.phase("fanout", machines, scene.fan_out)
        after = direct["seconds"] / 3
        killed = scene.phase("killed", machines, lambda all_of_them: scene.fan_out(all_of_them, kill_after=after))
    phases = {"direct": direct, "naive": naive, "fanout": fanned, "killed": killed}
    return {
        "ratio": round(fanned["seconds"] / direct["seconds"], 2),
        "killed_ratio": round(killed["seconds"] / direct["seconds"], 2),
        "naive_ratio": round(naive["seconds"] / direct["seconds"], 2),
        "machines": options.machines,
        "megabytes": options.megabytes,
        "mbit": options.mbit,
        "cores": os.cpu_count(),
        "libtorrent": subprocess.run(
            [PYTHON, "-c", "import libtorrent; print(libtorrent.__version__)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip(),
        "verified": all(phase["verified"] for phase in phases.values()),
        "seconds": {name: phase["seconds"] for name, phase in phases.items()},
        "cpu_percent": {name: phase["cpu_percent"] for name, phase in phases.items()},
    }


def make_model(directory: Path, size: int) -> None:
    """Writes a model of random bytes: three shards and a small file, with the manifest for the direct copy."""
    directory.mkdir(parents=True)
    (directory / "config.json").write_bytes(b"{}")
    for number in range(3):
        (directory / f"model-{number}.safetensors").write_bytes(os.urandom(size // 3))
    sums = [f"{digest(path)}  {path.name}\n" for path in sorted(directory.iterdir())]
    (directory / MANIFEST).write_text("".join(sums))


def digest(path: Path) -> str:
    """Returns the file's sha256."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


class Scene:
    """The source's directory and machine, and the receiving machines' copies."""

    def __init__(self, folder: Path, source: Path, server: Machine, options: argparse.Namespace) -> None:
        self.folder, self.source, self.server, self.options = folder, source, server, options
        self.longest = PATIENCE * options.machines * options.megabytes * 8 / options.mbit / 16 + 60

    def phase(self, name: str, machines: list[Machine], way: Callable[[list[Machine]], float]) -> dict[str, Any]:
        """Returns seconds until the last machine has the model, the use of the cores, and whether copies are right."""
        for machine in machines:
            (self.folder / machine.name).mkdir()
        busy = Busy()
        seconds = way(machines)
        result = {"seconds": round(seconds, 2), "cpu_percent": busy.percent()}
        copies = [self.target(machine) for machine in machines]
        left = [copy for copy in copies if copy.exists()]
        expected = len(machines) - (KILLED if name == "killed" else 0)
        result["verified"] = len(left) >= expected and all(self.is_right(copy) for copy in left)
        for machine in machines:
            shutil.rmtree(self.folder / machine.name)
        print(f"{name:8} {result}", file=sys.stderr, flush=True)
        return result

    def target(self, machine: Machine) -> Path:
        """Returns the path at which the machine publishes its copy."""
        return self.folder / machine.name / "model"

    def is_right(self, copy: Path) -> bool:
        """Returns True if every file has the source's bytes."""
        names = [path.name for path in self.source.iterdir()]
        return sorted(names) == sorted(path.name for path in copy.iterdir()) and all(
            (copy / name).read_bytes() == (self.source / name).read_bytes() for name in names
        )

    def naive(self, machines: list[Machine]) -> float:
        """Returns seconds until all machines have copied the model from the source concurrently."""
        serve = [PYTHON, "-m", "http.server", str(HTTP), "--directory", str(self.source)]
        address = f"http://{self.server.address}:{HTTP}"
        with running(self.server, serve):
            wait_for(lambda: answers(self.server), self.longest)
            began = time.monotonic()
            with contextlib.ExitStack() as stack:
                for machine in machines:
                    taking = [sys.executable, "-m", "benchmarks.fanout", "--take", address, str(self.target(machine))]
                    stack.enter_context(running(machine, taking))
                self.published(machines)
                return time.monotonic() - began

    def fan_out(self, machines: list[Machine], kill_after: float | None = None) -> float:
        """Returns seconds until all surviving machines have the model, from the source and from one another."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(running(self.server, self.peers(self.server, machines, self.source, None)))
            offer_file = self.source.with_name(".model.offer.json")
            wait_for(offer_file.exists, self.longest)
            offer = json.loads(offer_file.read_text())
            began = time.monotonic()
            others = [self.server, *machines]
            programs = [
                stack.enter_context(running(machine, self.peers(machine, others, self.target(machine), offer)))
                for machine in machines
            ]
            killed = KILLED if kill_after is not None else 0
            if kill_after is not None:
                time.sleep(max(0.0, began + kill_after - time.monotonic()))
                for program in programs[:killed]:
                    stop(program)
            self.published(machines[killed:], programs[killed:])
            return time.monotonic() - began

    def peers(self, machine: Machine, others: list[Machine], target: Path, offer: dict[str, Any] | None) -> list[str]:
        """Writes the settings of one machine's program; returns its command."""
        settings = self.folder / f"{machine.name}.json"
        peers = {f"{peer.address}:{PORT}": peer.name for peer in others if peer != machine}
        written = {"target": str(target), "offer": offer, "here": f"{machine.address}:{PORT}", "peers": peers}
        settings.write_text(json.dumps(written | {"folder": str(target.with_name(".sharing"))}))
        steps = " && ".join(f'"$@" {step} "$0"' for step in ("prepare root", "receive", "publish", "give"))
        return ["/bin/sh", "-c", steps, str(settings), PYTHON, "-B", str(PROGRAMS), "peers"]

    def published(self, machines: list[Machine], programs: Sequence[subprocess.Popen[bytes]] = ()) -> None:
        """Returns once the last machine has published the model. Raises RuntimeError with the output of a program
        that failed."""

        def there() -> bool:
            for program in programs:
                if program.poll():
                    raise RuntimeError(f"exit {program.returncode}: {program.communicate()[1].decode()}")
            return all((self.target(machine) / MANIFEST).exists() for machine in machines)

        wait_for(there, self.longest)


def take(address: str, target: str) -> int:
    """Downloads a direct copy over HTTP; the program for rsync's copies verifies and publishes it."""
    staging = Path(target).with_name(".model.partial")
    staging.mkdir()
    with urllib.request.urlopen(f"{address}/{MANIFEST}") as answer:
        manifest = answer.read()
    (staging / MANIFEST).write_bytes(manifest)
    for line in manifest.decode().splitlines():
        name = line.split("  ", 1)[1]
        with urllib.request.urlopen(f"{address}/{name}") as answer, (staging / name).open("wb") as file:
            shutil.copyfileobj(answer, file, 1 << 20)
    return subprocess.run([PYTHON, "-B", str(PROGRAMS), "publish", str(staging), target], check=False).returncode


@contextlib.contextmanager
def running(machine: Machine, words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the program on the machine during the block."""
    program = subprocess.Popen(
        machine.command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        yield program
    finally:
        stop(program)
        program.wait()


def stop(program: subprocess.Popen[bytes]) -> None:
    """Ends the program and its running step."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)


def answers(server: Machine) -> bool:
    """Returns True if the source's HTTP server listens."""
    listening = subprocess.run(server.command("ss", "-ltnH", f"sport = :{HTTP}"), capture_output=True, check=True)
    return bool(listening.stdout)


def wait_for(holds: Callable[[], bool], seconds: float) -> None:
    """Returns once the condition holds. Raises TimeoutError after `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:,.0f} s")
        time.sleep(POLL_SECONDS)


class Busy:
    """The use of this machine's cores since the object was made."""

    def __init__(self) -> None:
        self.before = self.now()

    @staticmethod
    def now() -> tuple[int, int]:
        """Returns ticks of all cores: idle, and all."""
        with open("/proc/stat") as stat:
            ticks = [int(word) for word in stat.readline().split()[1:9]]
        return ticks[3] + ticks[4], sum(ticks)

    def percent(self) -> int:
        """Returns percent of all cores together."""
        idle, total = (after - before for after, before in zip(self.now(), self.before, strict=True))
        return round(100 * (1 - idle / total)) if total else 0


if __name__ == "__main__":
    sys.exit(main())
