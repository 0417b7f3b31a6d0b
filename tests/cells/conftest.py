"""A Prefect server, a worker beside each of two cells, and hosts that do not exist: `make cells`.

Under test is `cells.py` with the real Prefect and the real pyinfra. The deploy file stands in for the
project's: it takes the plan like deploy.py and records the hosts that it reached.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 600

if importlib.util.find_spec("prefect") is None:  # the project's own environment has no Prefect
    collect_ignore_glob = ["test_*.py"]

INVENTORY = """
from pathlib import Path

from deploy.spec import LLM, Balancer, Machine, Route, Server, Weights

_llm = LLM(
    name="gpt-oss-20b",
    checkpoint="gpt-oss-20b",
    weights=Weights.hub("openai/gpt-oss-20b", "6cee5e81ee83917806bbde320786a8fb61efebee"),
)
_arrives = {"success": not Path("broken").exists()}
_fake = {"fake_delay": 0, "fake_delay_jitter": 0, "fake_responses": {"arrive": _arrives}}
_serving = {
    "machine": Machine(os="debian-12", gpu="h100-80"),
    "servers": (Server(name="main", address="0.0.0.0", protection="balancer", models=(_llm,)),),
}


def _cell(name, number):
    route = Route(pool=name, http_port=8443, grpc_port=8444)
    balancer = Balancer(os="debian-12", address=f"10.0.{number}.5", routes=(route,), open_to_all=True)
    serving = _serving | {"pool": name}
    hosts = [(f"@fake/{name}-{n}", serving | {"peer_address": f"10.0.{number}.1{n}"}) for n in (1, 2)]
    return ([*hosts, (f"@fake/{name}-edge", {"balancer": balancer})], _fake)


east = _cell("east", 1)
west = _cell("west", 2)
"""
DEPLOY = """
import time
from pathlib import Path

from pyinfra import host, inventory
from pyinfra.operations import python, server

from deploy.io.inventory import planned

planned(inventory, host)  # another plan than the expected one is refused here


def come(to):
    print("at the gate", flush=True)
    while Path("gate").exists():
        time.sleep(0.1)
    with open("brought", "a") as brought:
        print(to, file=brought)


server.shell(name="Arrive", commands=["arrive"])
python.call(name="Bring over", function=come, to=host.name)
"""


class Scene:
    """The folder in which all processes run, and the actions of a test there."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.started = folder, list[subprocess.Popen[bytes]]()
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.health = f"http://127.0.0.1:{port}/api/health"
        self.environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
            "PREFECT_RUNNER_POLL_FREQUENCY": "1",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "ENGINEHOUSE_CELLS_POLL_SECONDS": "1",
        }

    def start(self, log: str, *words: str) -> subprocess.Popen[bytes]:
        """Starts a process in the scene's folder, in its own process group; a file there takes its output."""
        with (self.folder / log).open("ab") as file:
            process = subprocess.Popen(
                words,
                cwd=self.folder,
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def cells(self, log: str, *words: str) -> subprocess.Popen[bytes]:
        """Starts `cells.py` with these arguments."""
        return self.start(log, sys.executable, str(ROOT / "cells.py"), *words)

    def roll(self, log: str) -> subprocess.Popen[bytes]:
        """Starts a driver with the operator's command line."""
        return self.cells(log, "roll", "fleet.py", "east", "west")

    def serve(self, cell: str) -> None:
        """Starts a worker beside the cell, which waits for work."""
        served = self.read(f"{cell}.log").count("is being served")
        self.workers[cell] = self.cells(f"{cell}.log", "serve", cell)
        self.until(lambda: self.read(f"{cell}.log").count("is being served") > served, f"{cell} is served")

    def read(self, name: str) -> str:
        """Returns the text of a file in the folder; empty if it does not exist."""
        return (self.folder / name).read_text() if (self.folder / name).exists() else ""

    def until(self, happens: Callable[[], bool], what: str) -> None:
        """Returns once the condition holds; fails with all logs on a timeout."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not happens():
            if time.monotonic() > end or self.started[0].poll() is not None:
                logs = "\n\n".join(f"{log.name}\n{log.read_text()[-3000:]}" for log in self.folder.glob("*.log"))
                pytest.fail(f"{what}: not within {PATIENCE_SECONDS} s, or Prefect ended\n{logs}")
            time.sleep(0.2)

    def answers(self) -> bool:
        """Returns True if the Prefect server answers."""
        try:
            return urllib.request.urlopen(self.health, timeout=5).status == 200
        except (OSError, urllib.error.URLError):
            return False


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and its children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Yields a folder with an inventory, a deploy file and a Prefect server."""
    folder = tmp_path_factory.mktemp("cells")
    (folder / "fleet.py").write_text(INVENTORY)
    (folder / "deploy.py").write_text(DEPLOY)
    (folder / "deploy").symlink_to(ROOT / "deploy")  # deploy.py beside it is no module while there is a package
    port = free_port()
    made = Scene(folder, port)
    prefect = str(Path(sys.executable).with_name("prefect"))
    try:
        made.start("server.log", prefect, "server", "start", "--port", str(port), "--no-ui")
        made.until(made.answers, "the Prefect server answers")
        yield made
    finally:
        (folder / "gate").unlink(missing_ok=True)
        for process in reversed(made.started):
            end(process)
