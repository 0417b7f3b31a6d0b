"""Ranks on several hosts: a state that goes through every rank for every token.

vLLM's meet at the leader's store; those of trtllm-serve are reached through rank 0's launcher (launcher.py).

Each rank changes the state by its own number, and the result must equal that of so many ranks in order. So a missing,
doubled or misplaced rank changes the answer; a lost one ends the program, like vLLM's engine.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from dataclasses import dataclass, field

PRIME = 65_521
ADDRESS = "TLLM_SPAWN_PROXY_PROCESS_IPC_ADDR"
"""Variable with the address of rank 0's launcher, under upstream's name."""
KEY = "TLLM_SPAWN_PROXY_PROCESS_IPC_HMAC_KEY"
JOIN_SECONDS = 60
EXCHANGE_SECONDS = 20


@dataclass
class Ranks:
    """The ranks of this host, `first` to `last`, of `world`; the leader has a connection to every other host."""

    first: int
    last: int
    world: int
    hosts: list[socket.socket] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def through(self, state: int) -> int:
        """Returns the state after all ranks of this host."""
        for rank in range(self.first, self.last + 1):
            state = after(state, rank, self.world)
        return state

    def exchange(self, token: int) -> bool:
        """Returns True if the state comes back as expected. The program ends if a host does not answer."""
        with self.lock:
            try:
                state = self.through(token)
                for host in self.hosts:
                    host.sendall(f"{state}\n".encode())
                    state = int(line(host))
            except (OSError, ValueError) as problem:
                print(f"EngineDeadError: a rank is lost: {problem}", flush=True)
                os._exit(1)
        return state == around(token, self.world)

    def follow(self) -> int:
        """Answers the leader; returns 1 once its connection ends, 0 after SIGTERM."""
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        (leader,) = self.hosts
        leader.settimeout(None)
        try:
            while True:
                leader.sendall(f"{self.through(int(line(leader)))}\n".encode())
        except (OSError, ValueError) as problem:
            print(f"RuntimeError: the leader is lost: {problem}", flush=True)
            return 1


class Launched:
    """The ranks that the start line names, `world`, reached through the launcher; MPI may have started another
    number."""

    def __init__(self, address: str, key: str, world: int) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self.launcher = socket.create_connection((host, int(port)), EXCHANGE_SECONDS)
        self.launcher.sendall(f"{key}\n".encode())
        self.world, self.lock = world, threading.Lock()

    def exchange(self, token: int) -> bool:
        """Returns True if the token comes back as changed by that many ranks in their order."""
        with self.lock:
            try:
                self.launcher.sendall(f"{token}\n".encode())
                return int(line(self.launcher)) == around(token, self.world)
            except (OSError, ValueError) as problem:
                print(f"RuntimeError: a rank is lost: {problem}", flush=True)
                os._exit(1)


def around(state: int, world: int) -> int:
    """Returns the state after all ranks have changed it."""
    for rank in range(world):
        state = after(state, rank, world)
    return state


def after(state: int, rank: int, world: int) -> int:
    """Returns the state after a rank."""
    return (state * (rank + 3) + 7 * rank + world) % PRIME


def line(connection: socket.socket) -> str:
    """Returns the next line.

    Raises: OSError if the connection has ended.
    """
    text = b""
    while not text.endswith(b"\n"):
        part = connection.recv(1)
        if not part:
            raise OSError("the connection ended")
        text += part
    return text.decode()


def joined(options: dict[str, str]) -> Ranks | Launched | None:
    """The ranks of this host, joined to those of the others; None for a program on one host.

    Raises: OSError or ValueError if the ranks do not come together.
    """
    if address := os.environ.get(ADDRESS):
        return Launched(address, os.environ[KEY], int(options["--tp_size"]) * int(options["--pp_size"]))
    nodes = int(options.get("--nnodes", "1"))
    if nodes < 2:
        return None
    number = int(options.get("--node-rank", "0"))
    world = int(options.get("--tensor-parallel-size", "1")) * int(options.get("--pipeline-parallel-size", "1"))
    if world % nodes:
        raise ValueError(f"{world} ranks on {nodes} nodes")
    share = world // nodes
    ranks = Ranks(number * share, (number + 1) * share - 1, world)
    address = (options.get("--master-addr", "127.0.0.1"), int(options.get("--master-port", "29501")))
    card = {"number": number, "world": world, "nodes": nodes}
    ranks.hosts = welcomed(address, card) if number == 0 else [met(address, card)]
    print(f"ranks {ranks.first} to {ranks.last} of {world} have met", flush=True)
    return ranks


def welcomed(address: tuple[str, int], card: dict[str, int]) -> list[socket.socket]:
    """Returns a connection from every other host, in the order of their ranks.

    Raises: ValueError for a host of another world.
    """
    hosts: dict[int, socket.socket] = {}
    with socket.create_server(address) as store:
        store.settimeout(JOIN_SECONDS)
        while len(hosts) < card["nodes"] - 1:
            connection, _ = store.accept()
            connection.settimeout(EXCHANGE_SECONDS)
            theirs = json.loads(line(connection))
            if (theirs["world"], theirs["nodes"]) != (card["world"], card["nodes"]):
                raise ValueError(f"a host of another world: {theirs}")
            hosts[int(theirs["number"])] = connection
    return [hosts[number] for number in sorted(hosts)]


def met(address: tuple[str, int], card: dict[str, int]) -> socket.socket:
    """Returns the connection to the leader, whose store may start later than this host.

    Raises: OSError if it does not start.
    """
    until = time.monotonic() + JOIN_SECONDS
    while True:
        try:
            connection = socket.create_connection(address, timeout=5)
            connection.sendall(json.dumps(card).encode() + b"\n")
            return connection
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)
