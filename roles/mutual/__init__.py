"""Mutual TLS before the Triton servers of a host, for gateways of other hosts: HAProxy, on one port.

Triton itself reads its certificates only at its start, so a renewed certificate would cost a swap. So Triton's port
stays unchanged, and HAProxy admits clients with a certificate of the fleet's authority in the name of such a gateway.
The role is removed from a host that no other host's gateway uses. No step interrupts a server.
"""

from pyinfra import host

from deploy.slices.gateway import MutualSlice
from deploy.slices.host import Slice
from deploy.topology.mutual import common_name
from roles._pyinfra import undo
from roles._pyinfra.steps import CachedFact, ask, step
from roles._shipping import certificates, haproxy
from roles._shipping.certificates import Certified
from roles.mutual import operations
from roles.mutual.config import config
from roles.mutual.defaults import AUTHORITY, CERTIFICATE, CONFIG, UNIT_NAME
from roles.mutual.facts import MutualHost, MutualLeft


def apply(mine: Slice) -> None:
    """Lets gateways of other hosts, and no other client, reach the servers over mutual TLS; else removes the role."""
    if mine.mutual and mine.mutual.port:
        _apply(mine, mine.mutual)
    elif ask(host, MutualLeft):
        step(
            CachedFact(MutualLeft),
            operations.retired,
            name="Mutual TLS | Remove HAProxy: no gateway of another host uses this host",
        )


def _apply(mine: Slice, mutual: MutualSlice) -> None:
    fact, unit = CachedFact(MutualHost), [operations.unit()]
    wanted = Certified(
        path=CERTIFICATE,
        authority=AUTHORITY,
        use="server",
        name=common_name(mine.host),
        address=mutual.address,
        folder=certificates.authority_folder(host),
        then=f"systemctl try-reload-or-restart {UNIT_NAME}",
    )
    package = step(fact, haproxy.package, name="Mutual TLS | Install HAProxy")
    placed = undo.put_texts("mutual", unit, name="Mutual TLS | Place the unit")
    trusts = step(
        fact,
        lambda facts: certificates.trusted(facts, wanted),
        after=[placed],  # the reload of running programs needs the unit
        name="Mutual TLS | Trust the fleet's authority",
    )
    has = step(
        fact,
        lambda facts: certificates.certified(facts, wanted),
        after=[placed, trusts],
        name="Mutual TLS | Issue or renew the certificate",
    )
    written = step(
        fact,
        lambda facts: haproxy.written(facts, CONFIG, config(mine, mutual)),
        after=[package, trusts, has],
        name="Mutual TLS | Write the configuration",
    )
    step(fact, operations.in_force, after=[placed, written], name="Mutual TLS | Run HAProxy")
