"""How a smoke test gets to a server: straight to its address, or through SSH where it listens on loopback."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from deploy.slice import ServerSlice, Slice

TUNNEL_SECONDS = 15


@dataclass(frozen=True)
class Endpoint:
    """`host:port` of the three listeners, as a client dials them."""

    http: str
    grpc: str
    metrics: str


@contextlib.contextmanager
def reach(mine: Slice, server: ServerSlice, ssh_config: Path) -> Iterator[Endpoint]:
    """The server's endpoint; a tunnel lives exactly as long as the block."""
    ports = (server.http_port, server.grpc_port, server.metrics_port)
    if not ip_address(server.address).is_loopback:
        address = server.address if not ip_address(server.address).is_unspecified else _ssh_name(mine, ssh_config)
        yield Endpoint(*(f"{address}:{port}" for port in ports))
        return
    local = [_free_port() for _ in ports]
    forwards = [f"-L127.0.0.1:{near}:{server.address}:{far}" for near, far in zip(local, ports, strict=True)]
    options = ["-N", "-oExitOnForwardFailure=yes", "-oControlMaster=no", "-oControlPath=none"]
    tunnel = subprocess.Popen(["ssh", "-F", str(ssh_config), *options, *forwards, mine.host])
    try:
        _await_listener(tunnel, local[0])
        yield Endpoint(*(f"127.0.0.1:{port}" for port in local))
    finally:
        tunnel.terminate()
        tunnel.wait(timeout=10)


def _ssh_name(mine: Slice, ssh_config: Path) -> str:
    shown = subprocess.run(["ssh", "-G", "-F", str(ssh_config), mine.host], capture_output=True, text=True, check=True)
    return next(line.split()[1] for line in shown.stdout.splitlines() if line.startswith("hostname "))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_listener(tunnel: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + TUNNEL_SECONDS
    while time.monotonic() < deadline and tunnel.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError(f"ssh opened no tunnel to the server within {TUNNEL_SECONDS} s (exit {tunnel.poll()})")
