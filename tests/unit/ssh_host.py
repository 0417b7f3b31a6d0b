"""A host on loopback that speaks SSH and answers every command with a test's text."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko


@dataclass
class SshHost:
    """A stand-in for SSH; `answer` is the output of every command; `heard` lists commands and login keys."""

    answer: bytes = b""
    key: paramiko.PKey = field(default_factory=lambda: paramiko.ECDSAKey.generate())
    heard: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def line(self) -> str:
        """The host's line of a known_hosts file."""
        return f"[127.0.0.1]:{self.port} {self.key.get_name()} {self.key.get_base64()}\n"

    def data(self, directory: Path, **more: Any) -> dict[str, Any]:
        """Host data with which pyinfra logs in, with a key that is written to the directory."""
        file = directory / "login_key"
        paramiko.ECDSAKey.generate().write_private_key_file(str(file))
        login = {"ssh_hostname": "127.0.0.1", "ssh_port": self.port, "ssh_user": "root", "ssh_key": str(file)}
        keys = {"ssh_allow_agent": False, "ssh_look_for_keys": False}
        return login | keys | more


class _Login(paramiko.ServerInterface):
    def __init__(self, host: SshHost) -> None:
        self.host = host

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self.host.heard.append(f"key {key.get_base64()}")
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self.host.heard.append(command.decode("utf-8", "replace"))
        threading.Thread(target=self._answer, args=(channel,), daemon=True).start()
        return True

    def _answer(self, channel: paramiko.Channel) -> None:
        with contextlib.suppress(OSError, EOFError):
            channel.sendall(self.host.answer)
            channel.send_exit_status(0)
        channel.close()


@contextlib.contextmanager
def serving(host: SshHost) -> Iterator[SshHost]:
    """The host answers while the block runs."""
    listener = socket.create_server(("127.0.0.1", 0))
    host.port = listener.getsockname()[1]
    transports: list[paramiko.Transport] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(host.key)
            transports.append(transport)
            with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                transport.start_server(server=_Login(host), event=threading.Event())

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield host
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for transport in transports:
            transport.close()
