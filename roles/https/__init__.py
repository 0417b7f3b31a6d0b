"""HTTPS before a host's gateway: HAProxy on one port, with a certificate of the operator's or of an ACME authority.

The gateway stays on loopback and checks keys; HAProxy ends TLS and limits each client address. certbot orders the
certificate in a separate unit, whose timer renews it without a run. No step interrupts a server or the gateway; a
reload reads a new certificate, and open streams continue. If the inventory drops HTTPS, the role is removed from the
host.
"""

from pyinfra import host
from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from deploy.spec import Acme, Https
from roles._pyinfra import undo
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import CachedFact, ask, step
from roles._shipping import haproxy
from roles.https import operations
from roles.https.config import config
from roles.https.defaults import CONFIG
from roles.https.facts import HttpsHost, HttpsLeft


def apply(mine: Slice) -> None:
    """Opens the gateway to clients from outside over TLS; removes everything of the role if that is not planned."""
    if mine.https and mine.gateway:
        _apply(mine, mine.https)
    elif ask(host, HttpsLeft):
        step(CachedFact(HttpsLeft), operations.retired, name="HTTPS | Remove HAProxy: the inventory declares none")


def _apply(mine: Slice, https: Https) -> None:
    fact = CachedFact(HttpsHost, {"certificate": operations.certificate_path(https)})
    package = step(fact, haproxy.package, name="HTTPS | Install HAProxy")
    texts = operations.texts(https)
    placed = undo.put_texts("https", texts, name="HTTPS | Place units and certificate")
    certified = _ordered(https.acme, fact, placed) if https.acme else _sent(https, fact, placed)
    written = step(
        fact,
        lambda facts: haproxy.written(facts, CONFIG, config(mine, https)),
        after=[package, placed, *certified],
        name="HTTPS | Write the configuration",
    )
    step(fact, operations.in_force, after=[placed, *certified, written], name="HTTPS | Run HAProxy")


def _sent(https: Https, fact: CachedFact[HostFacts], placed: OperationMeta) -> list[OperationMeta]:
    """Sends the private key of the operator's certificate, and stops ordering another one."""
    sent = step(
        fact, lambda facts: operations.key(facts, https), after=[placed], name="HTTPS | Send the certificate's key"
    )
    return [sent, step(fact, operations.unordered, name="HTTPS | Stop ordering certificates")]


def _ordered(acme: Acme, fact: CachedFact[HostFacts], placed: OperationMeta) -> list[OperationMeta]:
    """Orders a certificate for the names, with a timer that renews it."""
    tool = step(fact, operations.tool, name="HTTPS | Install certbot")
    ordered = step(
        fact, lambda facts: operations.ordered(facts, acme), after=[tool, placed], name="HTTPS | Order the certificate"
    )
    timed = step(fact, operations.timed, after=[placed, ordered], name="HTTPS | Run the renewal timer")
    return [tool, ordered, timed]
