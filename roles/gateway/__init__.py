"""The gateway of a host: a user, an environment of locked wheels, programs, settings, and a process for each port.

The role acts after the last wave, so that the gateway offers the models that serve then. No step interrupts a server.
Running processes read a change of models, limits or keys; a new version restarts them one after the other, each after
its open requests had time to end. If the inventory drops the gateway, the host loses it, including its keys.
"""

from pyinfra import host
from pyinfra.api.operation import OperationMeta

from deploy.slices.gateway import GatewaySlice
from deploy.slices.host import Slice
from roles._pyinfra import undo
from roles._pyinfra.steps import CachedFact, ask, step
from roles._shipping import certificates
from roles.gateway import operations
from roles.gateway.defaults import settings
from roles.gateway.facts import GatewayCertificate, GatewayHost, GatewayLeft, NotInForce
from roles.gateway.programs import environment_path, version_path


def apply(mine: Slice) -> None:
    """Runs the gateway as planned and confirms that each process offers the plan's models; removes a gateway that is
    not planned."""
    if mine.gateway:
        _apply(mine, mine.gateway)
    elif ask(host, GatewayLeft):
        step(
            CachedFact(GatewayLeft),
            operations.retired,
            name="Gateway | Remove the gateway: the inventory declares none",
        )


def revert(mine: Slice, returned: list[OperationMeta]) -> None:
    """After a rollback, restores the gateway's settings of the releases that serve again."""
    if mine.gateway:
        step(
            CachedFact(GatewayLeft),
            operations.restored,
            only_after=returned,
            name="Gateway | Offer the restored models",
        )


def _apply(mine: Slice, gateway: GatewaySlice) -> None:
    chosen = settings(host)
    fact = CachedFact(GatewayHost, {"environment": environment_path(gateway), "version": version_path()})
    package = step(fact, operations.package, name="Gateway | Install packages")
    made = step(
        fact,
        lambda facts: operations.environment(facts, gateway, chosen),
        after=[package],
        name="Gateway | Make the environment from locked wheels",
    )
    published = step(fact, operations.published, name="Gateway | Publish the gateway's programs")
    known = step(fact, operations.user, name="Gateway | Make user and folder")
    keyed = step(
        fact,
        lambda facts: operations.first_keys(facts, gateway),
        after=[known],
        name="Gateway | Create the file of keys",
    )
    salted = step(
        fact,
        lambda facts: operations.salt(facts, mine, gateway),
        after=[known],
        name="Gateway | Make the secret for the prefix cache",
    )
    certified = _certified(mine, known) if gateway.others else []
    wanted = operations.texts(mine, gateway)
    written = undo.put_texts(
        "gateway", wanted, after=[known, keyed, salted, *certified], name="Gateway | Write unit, settings and keys"
    )
    step(
        CachedFact(NotInForce),  # a new fact: earlier answers of this run may be outdated
        operations.in_force,
        after=[made, published, written],
        name="Gateway | Run every process and check its answer",
    )


def _certified(mine: Slice, known: OperationMeta) -> list[OperationMeta]:
    """Gives the gateway its certificate for servers of other hosts, and the authorities to trust."""
    fact, wanted = CachedFact(GatewayCertificate), operations.certified(mine, certificates.authority_folder(host))
    trusts = step(
        fact,
        lambda facts: certificates.trusted(facts, wanted),
        after=[known],
        name="Gateway | Trust the fleet's authority",
    )
    has = step(
        fact,
        lambda facts: certificates.certified(facts, wanted),
        after=[known, trusts],
        name="Gateway | Issue or renew the certificate",
    )
    return [trusts, has]
