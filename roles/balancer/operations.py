"""From what the balancer role saw to the commands that are missing. Pure; `step` runs them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from pyinfra.api.command import StringCommand

from deploy.slices.traffic import BalancerSlice
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, Refuse
from roles._shipping import haproxy, secrets
from roles._shipping.places import command
from roles._shipping.texts import Text, shipped
from roles.balancer.config import hold
from roles.balancer.defaults import CONFIG, HOLD, PLACES, UNIT, UNIT_NAME

KEY_SEEN = "600 root"


def certificate_path(mine: BalancerSlice) -> str:
    """Path of the certificate on the balancer; a new certificate has a new name, so that nothing is replaced in use."""
    if not mine.certificate:
        return ""
    return f"{PLACES.settings}/tls-{_digest(mine.certificate)}.pem"


def clients_path(mine: BalancerSlice) -> str:
    """Path of the authorities of clients' certificates on the balancer; empty if no client needs a certificate."""
    return f"{PLACES.settings}/clients-{_digest(mine.clients)}.pem" if mine.clients else ""


def texts(mine: BalancerSlice) -> list[Text]:
    """The unit, the Lua action, the certificate, and the authorities of clients' certificates."""
    wanted = [shipped(f"files/units/{UNIT_NAME}", UNIT), Text(HOLD, hold())]
    named = [(certificate_path(mine), mine.certificate), (clients_path(mine), mine.clients)]
    return [*wanted, *(Text(path, _content(file)) for path, file in named if file)]


def key(facts: HostFacts, mine: BalancerSlice) -> Iterator[Command]:
    """The command that sends the certificate's private key, on standard input, readable by root only."""
    secret = mine.certificate_key
    if secret is None or facts.value("key") == KEY_SEEN:
        return
    if problem := secrets.missing(secret):
        yield Refuse(problem)
        return
    path = f"{certificate_path(mine)}.key"
    yield StringCommand(
        f"mkdir -p {PLACES.settings} && umask 077 && cat > {path}.new && test -s {path}.new && sync {path}.new"
        f" && mv -T {path}.new {path} || {{ rm -f {path}.new; exit 1; }}",
        _stdin=secrets.SecretText(secret, is_whole=True),
    )


def written(facts: HostFacts, wanted: str) -> Iterator[Command]:
    """Commands after which the file is as wanted. HAProxy reads it first: one that it refuses replaces nothing."""
    yield from haproxy.written(facts, CONFIG, wanted)


def in_force(facts: HostFacts) -> Iterator[Command]:
    """Commands after which HAProxy runs as the file says, now and after a boot."""
    unit = facts.unit(UNIT_NAME)
    if not unit.starts_at_boot:
        yield f"systemctl enable {UNIT_NAME}"
    if facts.value("differs") or not unit.runs:
        yield f"{command('balancer')} follow"


def _content(file: str) -> str:
    return Path(file).expanduser().read_text().rstrip("\n") + "\n"


def _digest(file: str) -> str:
    return hashlib.sha256(_content(file).encode()).hexdigest()[:16]
