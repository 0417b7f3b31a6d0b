"""The runtime API of the balancer's HAProxy, over its socket."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

from host import places

ANSWER_SECONDS = 10


class HaproxyError(Exception):
    """HAProxy's answer to a command that it did not carry out."""


def socket_file() -> Path:
    return places.RUNTIME / "balancer" / "admin.sock"


def apply(command: str) -> None:
    """Runs a command that answers nothing if it succeeds. Raises: HaproxyError with HAProxy's answer."""
    if problem := answer_to(command).strip():
        raise HaproxyError(f"{command}: {problem}")


def answer_to(command: str, master: bool = False) -> str:
    """The answer of the runtime API; with `master` the answer of the workers' master process."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(ANSWER_SECONDS)
        channel.connect(str(socket_file().with_name("master.sock") if master else socket_file()))
        channel.sendall(f"{command}\n".encode())
        if master:  # the master process would otherwise wait for more commands
            channel.shutdown(socket.SHUT_WR)
        answer = b""
        while part := channel.recv(65536):
            answer += part
    return answer.decode()


def of_every_worker() -> list[Callable[[str], str]]:
    """Functions that send a command: to the process that takes requests, and to processes from before a reload with
    open requests."""
    try:
        rows = answer_to("show proc", master=True).partition("# old workers")[2].splitlines()
    except FileNotFoundError:  # a process of an older unit, without this socket
        rows = []
    numbers = [row.split()[0] for row in rows if row[:1].isdigit()]
    return [answer_to, *(partial(_of_worker, number) for number in numbers)]


def _of_worker(number: str, command: str) -> str:
    return answer_to(f"@!{number} {command}", master=True)


def end(worker: Callable[[str], str], numbers: set[str]) -> int:
    """Aborts a process's requests with these numbers; returns the number of those that were still open."""
    known = re.findall(r"(?m)^(0x[0-9a-f]+): \[.*\] id=(\d+) ", worker("show sess all") if numbers else "")
    pointers = [pointer for pointer, number in known if number in numbers]
    for pointer in pointers:
        worker(f"shutdown session {pointer}")  # no error if the session has just ended by itself
    return len(pointers)
