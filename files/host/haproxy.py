"""The runtime API of the balancer's HAProxy, over its socket."""

from __future__ import annotations

import socket
from pathlib import Path

from host import places

ANSWER_SECONDS = 10


class HaproxyError(Exception):
    """What HAProxy said instead of doing it."""


def socket_file() -> Path:
    """The runtime API."""
    return places.RUNTIME / "balancer" / "admin.sock"


def told(command: str) -> None:
    """Nothing is returned. Raises: HaproxyError with what HAProxy says against it."""
    if said := asked(command).strip():
        raise HaproxyError(f"{command}: {said}")


def asked(command: str) -> str:
    """The answer of the runtime API."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(ANSWER_SECONDS)
        channel.connect(str(socket_file()))
        channel.sendall(f"{command}\n".encode())
        answer = b""
        while part := channel.recv(65536):
            answer += part
    return answer.decode()
