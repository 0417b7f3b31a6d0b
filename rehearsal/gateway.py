"""The gateway of a rehearsal's machine, for a client on this computer: address, key, certificate authority.

A gateway listens on its machine's loopback, so an ssh in the background forwards a port of this computer's loopback to
it, for as long as the machine answers. The key is kept in the rehearsal's state, and its hash on the machine.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from deploy.inventory.gateway_keys import GatewayKey, file_in, gateway_key, key_text, text_of
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places, RehearsalRefused

FOLDER = "/etc/enginehouse/gateway"
SETTINGS, KEYS = f"{FOLDER}/settings.json", f"{FOLDER}/keys.json"
TENANT = "rehearsal"
KNOWN_SECONDS, STEP_SECONDS = 20, 0.2
ANSWER_SECONDS = 120


@dataclass(frozen=True)
class Gateway:
    """The values that a client needs. `ca` is the file of an authority; None for plain HTTP."""

    url: str
    key: str
    ca: str | None = None

    def to_json(self) -> dict[str, str | None]:
        """Returns the fields that `python -m rehearsal gateway` prints."""
        return asdict(self)


def has_one(machine: Machine) -> bool:
    """Returns True if a deploy has put a gateway on the machine."""
    return machine.run(f"test -e {SETTINGS}", check=False).returncode == 0


def opened(machine: Machine) -> Gateway:
    """Forwards a port to the machine's gateway, gives the gateway the key of this rehearsal, and returns address and
    key.

    Raises: RehearsalRefused if the machine has no gateway, or the gateway does not answer.
    """
    if not has_one(machine):
        raise RehearsalRefused(
            f"{machine.name} has no gateway\n"
            "  wanted  a machine that was deployed to alone: the only host of an inventory has a gateway\n"
            "  try     make rehearse"
        )
    listen = json.loads(machine.run(f"cat {SETTINGS}").stdout)["listen"]
    gateway = Gateway(_forwarded(machine, f"{listen['address']}:{listen['ports'][0]}"), _key(machine))
    _wait_until_known(gateway)
    return gateway


def behind(url: str, ca: str, machines: Sequence[Machine]) -> Gateway:
    """Returns the gateway at `url`, which stands before the machines' own gateways and gets the key of this rehearsal.

    Raises: RehearsalRefused if no server answers at `url`, or no machine answers behind it.
    """
    keys = {_key(machine) for machine in machines}
    gateway = Gateway(url, keys.pop(), ca)
    for _machine in machines:  # the balancer sends each request to another gateway
        _wait_until_known(gateway)
    return gateway


def models(machine: Machine, kind: str) -> list[str]:
    """Returns the models of a kind (llm, embedder, reranker) that the machine's gateway offers."""
    served = json.loads(machine.run(f"cat {SETTINGS}").stdout)["models"]
    return [name for name, model in served.items() if model["kind"] == kind]


def spoken(gateway: Gateway, model: str, text: str) -> Iterator[str]:
    """Yields the events of a chat with the model as they arrive; a model without chats completes the text."""
    length = {"model": model, "stream": True, "max_tokens": 24, "stream_options": {"include_usage": True}}
    chat = {"messages": [{"role": "user", "content": text}]}
    for path, body in (("/v1/chat/completions", chat), ("/v1/completions", {"prompt": text})):
        with contextlib.closing(connection(gateway)) as line:
            line.request(
                "POST", path, json.dumps(length | body), {"Content-Type": "application/json", **_bearer(gateway)}
            )
            answer = line.getresponse()
            if answer.status == 200:
                yield f"POST {path}"
                yield from (event.decode().strip() for event in answer if event.strip())
                return
            answer_text = answer.read().decode()
    raise RehearsalRefused(f"{model} does not answer through the gateway\n  said    {answer_text[:500]}")


def connection(gateway: Gateway, seconds: float = ANSWER_SECONDS) -> http.client.HTTPConnection:
    """Returns a connection to the gateway, opened by the first request; over TLS if the gateway has a certificate
    authority."""
    place = urlsplit(gateway.url)
    if gateway.ca is None:
        return http.client.HTTPConnection(str(place.hostname), place.port, timeout=seconds)
    trusting = ssl.create_default_context(cafile=gateway.ca)
    return http.client.HTTPSConnection(str(place.hostname), place.port, timeout=seconds, context=trusting)


def shut(places: Places) -> None:
    """Ends this rehearsal's ssh forwards to a gateway."""
    for control in places.root.glob("gateway-*.ssh"):
        _ssh(places, "-S", _near(control), "-O", "exit", "any")
        control.unlink(missing_ok=True)
        control.with_suffix(".port").unlink(missing_ok=True)


def _forwarded(machine: Machine, far: str) -> str:
    """Returns the local address that leads to `far` on the machine; reuses an earlier forward that still works."""
    places = machine.places
    control = places.root / f"gateway-{machine.name}.ssh"
    noted = control.with_suffix(".port")
    if noted.exists() and not _ssh(places, "-S", _near(control), "-O", "check", machine.name):
        return f"http://127.0.0.1:{noted.read_text()}"
    control.unlink(missing_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    # ControlPersist of the configuration would end it a while after the last client of its socket.
    alive = ["-oControlPersist=no", "-oExitOnForwardFailure=yes", "-oServerAliveInterval=5", "-oServerAliveCountMax=3"]
    forward = ["-f", "-N", "-M", "-S", _near(control), *alive, "-L", f"127.0.0.1:{port}:{far}", machine.name]
    if code := _ssh(places, *forward):
        raise RehearsalRefused(f"ssh forwards no port to {machine.name}\n  seen    it ended with {code}")
    noted.write_text(str(port))
    return f"http://127.0.0.1:{port}"


def _ssh(places: Places, *words: str) -> int:
    """Runs ssh in the repository, where a control socket's path is short; returns its exit code."""
    command = ["ssh", "-F", str(places.ssh_config), *words]
    quiet = subprocess.DEVNULL  # an ssh in the background keeps its standard streams open
    return subprocess.run(command, cwd=REPOSITORY, stdin=quiet, stdout=quiet, stderr=quiet, check=False).returncode


def _near(control: Path) -> str:
    return os.path.relpath(control, REPOSITORY)


def _key(machine: Machine) -> str:
    """Returns the rehearsal's key, whose hash the machine gets."""
    file = machine.places.root / "secrets" / "gateway_key"
    if not file.exists():
        text = ""
        while not text:
            text = key_text(secrets.token_bytes(64))
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as stream:
            stream.write(text)
    text = file.read_text()
    line = gateway_key(text, TENANT, (), "never", datetime.now(UTC))
    known = file_in(machine.run(f"cat {KEYS} 2>/dev/null || echo '{{\"keys\": []}}'").stdout, KEYS).keys
    if line.sha256 not in {key.sha256 for key in known}:
        _write_keys(machine, (*known, line))
    return text


def _write_keys(machine: Machine, keys: tuple[GatewayKey, ...]) -> None:
    """Writes by rename, so that the gateway never reads a part of the file; keeps the group's rights."""
    machine.run(f"cat >{KEYS}.new && chmod 640 {KEYS}.new && mv {KEYS}.new {KEYS}", input=text_of(keys))


def _wait_until_known(gateway: Gateway) -> None:
    """Waits until the gateway accepts a new key, which it reads within a second."""
    end = time.monotonic() + KNOWN_SECONDS
    while (status := _status(gateway)) != 200:
        if time.monotonic() > end:
            raise RehearsalRefused(f"the gateway at {gateway.url} answers {status or 'nothing'} to the rehearsal's key")
        time.sleep(STEP_SECONDS)


def _status(gateway: Gateway) -> int:
    """Returns the HTTP status of a request for the models; 0 without an answer."""
    try:
        with contextlib.closing(connection(gateway)) as line:
            line.request("GET", "/v1/models", headers=_bearer(gateway))
            return line.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0


def _bearer(gateway: Gateway) -> dict[str, str]:
    return {"Authorization": f"Bearer {gateway.key}"}
