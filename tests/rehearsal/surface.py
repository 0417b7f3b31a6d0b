"""A machine that serves behind a declared firewall, seen from an allowed and from a denied network."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import tritonclient.grpc
import tritonclient.http

from rehearsal import machines
from rehearsal.machine import Machine
from rehearsal.network import Network
from rehearsal.places import REPOSITORY, Places
from tests.rehearsal.engine_fleet import environment
from tests.rehearsal.operator import Operator, Run
from tests.smoke import ask

PLACES = Places(REPOSITORY / ".rehearsal" / "number-2", 2)
NETWORK = Network(PLACES.number)
INVENTORY = "tests/rehearsal/inventories/surface.py"
INSIDE, OUTSIDE = NETWORK.bridge_address, "192.0.2.1"
INSIDE_V6, MACHINE_V6, PREFIX_V6 = "fd00:213::1", "fd00:213::10", 64
DECLARED = {"SURFACE_ALLOW": str(NETWORK.subnet), "SURFACE_REST": "closed", "SURFACE_VERBOSE": "9"}
CONNECT_SECONDS = 0.7
AT_ONCE = 256


@dataclass
class Surface:
    """The machine and its operator; `deploy` changes the inventory through the environment."""

    machine: Machine
    operator: Operator
    first: Run

    def run(self, *words: str, verb: str = "deploy.py", **changes: str) -> Run:
        """Runs `pyinfra INVENTORY VERB WORDS` with the declared inventory and `changes`."""
        with environment(DECLARED | changes):
            return self.operator.pyinfra(*words, inventory=INVENTORY, verb=verb)

    def says(self, command: str) -> list[str]:
        """Returns output lines of a command on the machine, even if the command fails."""
        return self.machine.run(command, check=False).stdout.splitlines()

    def endpoint(self, port: int) -> str:
        """Returns the URL that a client uses."""
        return f"{self.machine.address}:{port}"

    def container_address(self) -> str:
        """Returns the address of Triton's container on the machine's own bridge."""
        template = "{{.NetworkSettings.Networks.enginehouse.IPAddress}}"
        return self.says(f"docker inspect -f '{template}' triton-main")[0]

    def status(self, method: str, path: str, body: bytes = b"{}") -> int:
        """Returns the status of Triton's answer over HTTP."""
        request = Request(f"http://{self.endpoint(8000)}{path}", body if method == "POST" else None, method=method)
        try:
            with urlopen(request, timeout=60) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code

    def vector(self) -> list[float]:
        """Returns the embedding of one fixed sentence."""
        with tritonclient.http.InferenceServerClient(self.endpoint(8000)) as client:
            return [round(float(value), 5) for value in ask.embed(client, "minilm", [["a boiler makes steam"]])[0][0]]

    def text(self) -> str:
        """Returns the LLM's answer to a fixed prompt."""
        with tritonclient.grpc.InferenceServerClient(self.endpoint(8001)) as client:
            return "".join(ask.generate(client, "gpt-oss-tiny", "a boiler makes", 8))

    def starts(self) -> list[str]:
        """Returns a value that changes with every start of the unit or of the container."""
        return self.says(
            "systemctl show -p NRestarts,InvocationID triton@main; docker inspect -f '{{.Id}}' triton-main"
        )


@contextlib.contextmanager
def routed(address: str, gateway: str) -> Iterator[None]:
    """Routes packets to `address` through `gateway` during the block, like a neighbour on its network."""
    subprocess.run(["ip", "route", "replace", f"{address}/32", "via", gateway], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "route", "delete", f"{address}/32"], check=True)


def answering(address: str, ports: Iterable[int], source: str) -> list[int]:
    """Returns the ports of `address` that accept a connection from `source`."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        wanted = list(ports)
        answers = pool.map(lambda port: connects(address, port, source), wanted)
        return [port for port, is_open in zip(wanted, answers, strict=True) if is_open]


def connects(address: str, port: int, source: str) -> bool:
    """Returns True if a TCP connection from `source` succeeds."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as dialled:
        dialled.settimeout(CONNECT_SECONDS)
        dialled.bind((source, 0))
        return dialled.connect_ex((address, port)) == 0


@contextlib.contextmanager
def surface() -> Iterator[Surface]:
    """Yields the deployed, serving machine; removes it before and afterwards."""
    operator = Operator.fresh(PLACES)
    _throw_away(operator)
    try:
        (machine,) = machines.up(["s13"], places=PLACES)
        started = operator.python("-m", "rehearsal.services", "up")
        assert started.returncode == 0, started.stderr
        with environment(DECLARED):
            first = operator.pyinfra(inventory=INVENTORY)
        assert first.code == 0, first.output[-4000:]
        _other_networks(machine)
        yield Surface(machine, operator, first)
    finally:
        _throw_away(operator)


def _other_networks(machine: Machine) -> None:
    """Adds an undeclared address and an IPv6 one to the outer machine, with routes back on the machine."""
    for address in (f"{OUTSIDE}/32", f"{INSIDE_V6}/{PREFIX_V6}"):
        words = ["ip", "address", "replace", address, "dev", NETWORK.bridge, *(["nodad"] if ":" in address else [])]
        subprocess.run(words, check=True)
    machine.run(f"ip route replace {OUTSIDE}/32 dev host0; ip address replace {MACHINE_V6}/{PREFIX_V6} dev host0 nodad")


def _throw_away(operator: Operator) -> None:
    machines.down(PLACES)
    operator.python("-m", "rehearsal.services", "down")
