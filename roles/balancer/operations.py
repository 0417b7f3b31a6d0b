"""Commands for the difference between a balancer's facts and its wanted state. Pure; `step` runs them."""

from collections.abc import Iterator

from deploy.slices.traffic import BalancerSlice
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command
from roles._shipping import haproxy
from roles._shipping.places import command
from roles._shipping.texts import Text, shipped
from roles.balancer.config import hold
from roles.balancer.defaults import HOLD, PLACES, UNIT, UNIT_NAME


def certificate_path(mine: BalancerSlice) -> str:
    """Path of the certificate on the balancer; a new certificate has a new name, so that a file in use is kept."""
    return haproxy.pem_path(f"{PLACES.settings}/tls", mine.certificate)


def clients_path(mine: BalancerSlice) -> str:
    """Path of the authorities of clients' certificates on the balancer; empty if clients need no certificate."""
    return haproxy.pem_path(f"{PLACES.settings}/clients", mine.clients)


def texts(mine: BalancerSlice) -> list[Text]:
    """The unit, the Lua action, the certificate, and the authorities of clients' certificates."""
    wanted = [shipped(f"files/units/{UNIT_NAME}", UNIT), Text(HOLD, hold())]
    named = [(certificate_path(mine), mine.certificate), (clients_path(mine), mine.clients)]
    return [*wanted, *(Text(path, haproxy.pem(file)) for path, file in named if file)]


def key(facts: HostFacts, mine: BalancerSlice) -> Iterator[Command]:
    if mine.certificate_key is not None:
        yield from haproxy.key(facts, certificate_path(mine), mine.certificate_key)


def in_force(facts: HostFacts) -> Iterator[Command]:
    """Commands after which HAProxy runs with the current file, now and after a boot."""
    unit = facts.unit(UNIT_NAME)
    if not unit.starts_at_boot:
        yield f"systemctl enable {UNIT_NAME}"
    if facts.value("differs") or not unit.runs:
        yield f"{command('balancer')} follow"
