"""Runs the ranks of one model on several hosts, with the image's Open MPI in a container on each host, without ssh.

    ranks.py lead ADDRESS PORT MEMBER… -- mpirun WORD… -- PROGRAM WORD…   on the first host: runs mpirun
    ranks.py agent MEMBER WORD…       mpirun calls it as it would call ssh, with the start line of a member's daemon
    ranks.py follow ADDRESS PORT OWN  on another host: asks the first one for its start line, and becomes that daemon
    ranks.py serve PROGRAM WORD…      rank 0's program that answers; `lead` knows its number and stops it first

Only a member's own address gets its start line, and a member starts only Open MPI's daemon, for the first host's
mpirun. The line has no secret. The firewall limits these ports, and those of the ranks, to the hosts of the group.

Before a release's first start, all ranks run an all-reduce of 64 MiB with the image's nccl-tests, if present. A wrong
sum or a dead link ends the start. The bandwidth is printed and stored in the release's cache.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

DAEMON = "orted"
URI = "orte_hnp_uri"
"""Open MPI's parameter with the address of mpirun."""
WAIT_SECONDS = 120
"""Seconds to wait for the other hosts: a container of 14 GB may start slowly."""
END_SECONDS = 10
"""Seconds the other ranks get to end after the serving program has ended."""
POLL_SECONDS = 0.1
LINE_BYTES = 65_536
AGAIN = "ENGINEHOUSE_RANKS_AGAIN"
"""Variable of mpirun's environment: a member requests a further line after this daemon has ended."""
GATE = ("all_reduce_perf_mpi", "-b", "64M", "-e", "64M", "-g", "1", "-w", "2", "-n", "5")
"""nccl-tests with one GPU a rank; it fails if a sum is wrong. NVIDIA's PyTorch image, of which TensorRT-LLM's is made,
has it in /usr/local/bin (NVIDIA's page on 26.01 and TensorRT-LLM's docker/Dockerfile.multi, read 2026-11-27)."""
GATE_SECONDS = 180
BANDWIDTH = re.compile(r"^# Avg bus bandwidth\s*:\s*([0-9.]+)", re.MULTILINE)


def folder() -> Path:
    """Directory of the start lines and the serving program's pid; only this user of the container can read it."""
    place = Path(tempfile.gettempdir()) / "enginehouse-ranks"
    place.mkdir(mode=0o700, exist_ok=True)
    return place


def lead(address: str, port: int, members: list[str], mpirun: list[str], program: list[str]) -> int:
    """The status of mpirun; 0 after SIGTERM."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    with socket.create_server((address, port)) as store:
        threading.Thread(target=hand_out, args=(store, members), daemon=True).start()
        status = gate(mpirun, stopping)
        if not status and not stopping.is_set():
            status = until_end(started([*mpirun, *program]), stopping)
    return 0 if stopping.is_set() else status


def started(command: list[str], output: int | None = None, **variables: str) -> subprocess.Popen[bytes]:
    """A running mpirun that calls this program instead of ssh."""
    agent = f"{sys.executable} -B {Path(__file__).resolve()} agent"
    environment = {**os.environ, "OMPI_MCA_plm_rsh_agent": agent, **variables}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, env=environment)


def gate(mpirun: list[str], stopping: threading.Event) -> int:
    """0 if the all-reduce of this release succeeded once, or if the image has no nccl-tests."""
    record = Path.home() / "all-reduce.txt"
    if record.exists():
        return 0
    if not shutil.which(GATE[0]):
        print(f"the image has no {GATE[0]}: the network between the hosts was not measured", flush=True)
        return 0
    with tempfile.TemporaryFile() as output:
        status = until_end(started([*mpirun, *GATE], output.fileno(), **{AGAIN: "1"}), stopping, GATE_SECONDS)
        output.seek(0)
        text = output.read().decode(errors="replace")
    measured = BANDWIDTH.search(text)
    if status or not measured:
        print(f"{text}\nthe ranks' all-reduce ended with status {status}: no start", flush=True)
        return status or 1
    record.write_text(text)
    print(f"all-reduce of 64 MiB by all ranks: {measured[1]} GB/s of bus bandwidth", flush=True)
    return 0


def until_end(mpirun: subprocess.Popen[bytes], stopping: threading.Event, seconds: float = 0) -> int:
    """The status of mpirun. The serving program ends first; ranks that still run END_SECONDS later are killed.

    With `seconds` all ranks are ended after that time.
    """
    server, deadline, is_stopped = 0, time.monotonic() + seconds if seconds else 0.0, False
    while mpirun.poll() is None:
        server = server or serving()
        if stopping.is_set() and not is_stopped:
            is_stopped = True
            stop(server or mpirun.pid)
        if server and not deadline and not Path(f"/proc/{server}").exists():
            deadline = time.monotonic() + END_SECONDS
        if deadline and time.monotonic() > deadline:
            print("the ranks are ended: their time is over", flush=True)
            stop(mpirun.pid)
            return mpirun.wait() or 1
        time.sleep(POLL_SECONDS)
    return mpirun.returncode


def stop(number: int) -> None:
    """Sends SIGTERM to a process, if it still exists."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, signal.SIGTERM)


def serving() -> int:
    """The pid of the serving program; 0 if it has not started."""
    try:
        return int((folder() / "server").read_text())
    except (OSError, ValueError):
        return 0


def hand_out(store: socket.socket, members: list[str]) -> None:
    """Sends each connecting member its own start line, once mpirun has written it."""
    while True:
        connection, source = store.accept()
        threading.Thread(target=answer, args=(connection, source[0], members), daemon=True).start()


def answer(connection: socket.socket, member: str, members: list[str]) -> None:
    """Sends a member its line once; other addresses get no line."""
    deadline, line = time.monotonic() + WAIT_SECONDS, folder() / member
    with connection:
        while member in members and time.monotonic() < deadline:
            try:
                connection.sendall(line.read_bytes())
                line.unlink()
                return
            except FileNotFoundError:
                time.sleep(POLL_SECONDS)
            except OSError:
                return


def agent(member: str, words: list[str]) -> int:
    """Stores the start line of a member's daemon; mpirun then waits until the daemon reports."""
    line = folder() / f".{member}"
    line.write_text(json.dumps({"words": words, "again": AGAIN in os.environ}) + "\n")
    line.rename(folder() / member)
    return 0


def follow(address: str, port: int, own: str) -> int:
    """Runs the daemons of all received start lines; executes the last one in place of this process.

    Returns 1 if no start line arrives, or a wrong one.
    """
    try:
        while True:
            line = json.loads(line_of(address, port, own))
            words = daemon(line["words"], address)
            if not line["again"]:
                break
            subprocess.run(words, check=False)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        print(f"no start line of {address}: {problem}", flush=True)
        return 1
    os.execvp(words[0], words)


def line_of(address: str, port: int, own: str) -> str:
    """The start line of this member. Raises: OSError if none arrives in time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            with socket.create_connection((address, port), WAIT_SECONDS, (own, 0)) as connection:
                line = connection.makefile("rb").readline(LINE_BYTES)
            if line.endswith(b"\n"):
                return line.decode()
        except OSError:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise OSError(f"nothing came in {WAIT_SECONDS} seconds")
        time.sleep(POLL_SECONDS)


def daemon(line: object, leader: str) -> list[str]:
    """The arguments of the daemon's start line, split as by a shell.

    Raises: ValueError unless they are Open MPI's daemon and its parameters, for mpirun at the leader's address.
    """
    if not isinstance(line, list) or not all(isinstance(word, str) for word in line):
        raise ValueError("it is no list of words")
    words = shlex.split(" ".join(line))
    program, marks, names, values = words[:1], words[1::3], words[2::3], words[3::3]
    if program != [DAEMON] or not {*marks} <= {"-mca", "--mca"} or not len(marks) == len(names) == len(values):
        raise ValueError(f"it is no start line of {DAEMON}")
    addresses = [value.split(";")[1:] for name, value in zip(names, values, strict=True) if name == URI]
    if len(addresses) != 1 or len(addresses[0]) != 1 or not is_at(addresses[0][0], leader):
        raise ValueError("its mpirun is not at the address of the first host")
    return words


def is_at(uri: str, address: str) -> bool:
    """True for `tcp://ADDRESS:PORT`; Open MPI writes an IPv6 address in brackets, and its scheme as tcp6."""
    scheme, _, place = uri.partition("://")
    host, _, port = place.rpartition(":")
    return scheme in ("tcp", "tcp6") and host.strip("[]") == address and port.isdigit()


def serve(words: list[str]) -> None:
    """Executes the serving program in place of this process."""
    (folder() / "server").write_text(str(os.getpid()))
    os.execvp(words[0], words)


def main(words: list[str]) -> int:
    verb, *rest = words
    if verb == "lead":
        first = rest.index("--")
        second = rest.index("--", first + 1)
        return lead(rest[0], int(rest[1]), rest[2:first], rest[first + 1 : second], rest[second + 1 :])
    if verb == "agent":
        return agent(rest[0], rest[1:])
    if verb == "follow":
        return follow(rest[0], int(rest[1]), rest[2])
    serve(rest)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
