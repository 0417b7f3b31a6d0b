"""A client's connection to a server: to its address, or through SSH if it listens on the host's loopback."""

import contextlib
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from deploy.models.questions import authority, is_loopback
from deploy.refusals import Refusal
from deploy.slices.host import ServerSlice

TUNNEL_SECONDS = 15
ASKING = "asking; no host was changed"


@dataclass(frozen=True)
class Endpoint:
    """`host:port` of the three listeners, as a client connects to them."""

    http: str
    grpc: str
    metrics: str


@contextlib.contextmanager
def connected_endpoint(server: ServerSlice, ssh: Sequence[str]) -> Iterator[Endpoint]:
    """The server's endpoint; a tunnel is open exactly as long as the block. `ssh` logs in to the host.

    Raises `Refusal` if ssh opens no tunnel.
    """
    ports = (server.http_port, server.grpc_port, server.metrics_port)
    if not is_loopback(server.address):
        yield Endpoint(*(authority(address_of(server, ssh), port) for port in ports))
        return
    near_ports = [_free_port() for _ in ports]
    pairs = zip(near_ports, ports, strict=True)
    forwards = [f"-L127.0.0.1:{near}:{authority(server.address, far)}" for near, far in pairs]
    options = ["-N", "-oExitOnForwardFailure=yes", "-oControlMaster=no", "-oControlPath=none"]
    tunnel = subprocess.Popen([ssh[0], *options, *forwards, *ssh[1:]])
    try:
        _await_listener(tunnel, near_ports[0], ssh)
        yield Endpoint(*(f"127.0.0.1:{port}" for port in near_ports))
    finally:
        tunnel.terminate()
        tunnel.wait(timeout=10)


def address_of(server: ServerSlice, ssh: Sequence[str]) -> str:
    """The address that a client connects to: the server's own, or the host's as ssh knows it for 0.0.0.0."""
    if not ip_address(server.address).is_unspecified:
        return server.address
    shown = subprocess.run([ssh[0], "-G", *ssh[1:]], capture_output=True, text=True, check=True)
    return next(line.split()[1] for line in shown.stdout.splitlines() if line.startswith("hostname "))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_listener(tunnel: subprocess.Popen[bytes], port: int, ssh: Sequence[str]) -> None:
    deadline = time.monotonic() + TUNNEL_SECONDS
    while time.monotonic() < deadline and tunnel.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise Refusal(
        f"ssh opened no tunnel to {ssh[-1]} within {TUNNEL_SECONDS} s",
        facts={"seen": f"ssh still tries, or ended with {tunnel.poll()}"},
        attempt=shlex.join([*ssh, "true"]),
        state=ASKING,
        kind="no-tunnel",
    )
