"""`trtllm-llmapi-launch COMMAND…`, run once for each rank under Open MPI; rank 0 runs COMMAND.

As upstream's script does (read 2026-11-27), rank 0 starts COMMAND without the variables of MPI, with the address and
the key of its own socket. COMMAND sends a token there; it goes through every rank by MPI and comes back. A COMMAND that
ends well stops the ranks; after one that ends badly they wait for ever, as upstream's do.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from typing import Any

from llm_stand_in.ranks import ADDRESS, KEY, after, line

PREFIXES = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "MPI_", "UCX_")
STOP = -1
FIRST_PORT = 10_012


def main(words: list[str]) -> int:
    """Runs this rank's part."""
    from mpi4py import MPI  # the import starts MPI

    world = MPI.COMM_WORLD
    print(f"rehearsal stand-in: rank {world.Get_rank()} of {world.Get_size()} on {socket.gethostname()}", flush=True)
    return lead(world, words) if world.Get_rank() == 0 else work(world)


def work(world: Any) -> int:
    """Runs a further rank, which changes each token of the rank before it and passes the token on."""
    rank, size = world.Get_rank(), world.Get_size()
    while True:
        state = world.recv(source=rank - 1)
        if state == STOP and rank == size - 1:
            return 0
        world.send(state if state == STOP else after(state, rank, size), dest=(rank + 1) % size)
        if state == STOP:
            return 0


def lead(world: Any, words: list[str]) -> int:
    """Runs rank 0, which passes the tokens of COMMAND through all ranks."""
    with listening() as listener:
        key = secrets.token_hex(32)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIXES)}
        environment |= {ADDRESS: f"tcp://127.0.0.1:{listener.getsockname()[1]}", KEY: key}
        command = subprocess.Popen(words, env=environment)
        listener.settimeout(0.2)
        while command.poll() is None:
            try:
                answer(listener.accept()[0], key, world)
            except OSError:
                continue  # no process listens yet, or the command has ended
    while command.returncode:
        time.sleep(60)
    if world.Get_size() > 1:
        world.send(STOP, dest=1)
    return 0


def listening() -> socket.socket:
    """A socket at the first free port, as upstream looks for one."""
    port = FIRST_PORT
    while True:
        try:
            return socket.create_server(("127.0.0.1", port))
        except OSError:
            port += 1


def answer(connection: socket.socket, key: str, world: Any) -> None:
    """Passes every token of the command through all ranks."""
    with connection:
        if line(connection).strip() != key:
            return
        while True:
            state, size = after(int(line(connection)), 0, world.Get_size()), world.Get_size()
            if size > 1:
                world.send(state, dest=1)
                state = world.recv(source=size - 1)
            connection.sendall(f"{state}\n".encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
