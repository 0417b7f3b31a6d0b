"""The front door of a host: a user, an environment of locked wheels, programs, settings, and a process for each port.

It acts after the last wave: the models it offers are those that serve then. Nothing of it interrupts a server. A change
of models, limits or keys is read by processes that run; a new version restarts them one after the other, each after its
requests had their time. A host whose inventory takes the door out loses it, keys included.
"""

from __future__ import annotations

from pyinfra import host
from pyinfra.api.operation import OperationMeta

from deploy.slices.door import DoorSlice
from deploy.slices.host import Slice
from roles._pyinfra import undo
from roles._pyinfra.steps import Reading, ask, step
from roles._shipping import certificates
from roles.gateway import operations
from roles.gateway.defaults import settings
from roles.gateway.facts import DoorCertificate, DoorHost, DoorLeft, NotInForce
from roles.gateway.programs import environment_path, version_path


def apply(mine: Slice) -> None:
    """The door is as the plan says, and every process of it answers and offers the models of the plan; or none runs."""
    if mine.door:
        _apply(mine, mine.door)
    elif ask(host, DoorLeft):
        step(Reading(DoorLeft), operations.retired, name="Door | Take it off: the inventory declares none")


def _apply(mine: Slice, door: DoorSlice) -> None:
    chosen = settings(host)
    look = Reading(DoorHost, {"environment": environment_path(door), "version": version_path()})
    package = step(look, operations.package, name="Door | Install what makes virtual environments")
    made = step(
        look,
        lambda seen: operations.environment(seen, door, chosen),
        after=[package],
        name="Door | Make the environment from locked wheels",
    )
    published = step(look, operations.published, name="Door | Publish the gateway's programs")
    known = step(look, operations.user, name="Door | Make user and folder")
    keyed = step(
        look, lambda seen: operations.first_keys(seen, door), after=[known], name="Door | Begin a file of keys"
    )
    certified = _certified(mine, known) if door.others else []
    wanted = operations.texts(mine, door)
    written = step(
        undo.look("gateway", wanted),
        lambda seen: undo.put_watched("gateway", wanted, seen),
        after=[known, keyed, *certified],
        name="Door | Write unit, settings and keys",
    )
    step(
        Reading(NotInForce),  # asked anew: nothing before it in this run says what runs
        operations.in_force,
        after=[made, published, written],
        name="Door | Run every process, and hear it answer",
    )


def _certified(mine: Slice, known: OperationMeta) -> list[OperationMeta]:
    """The door can show servers of other hosts who it is, and knows whom to believe."""
    look, wanted = Reading(DoorCertificate), operations.certified(mine, certificates.authority_folder(host))
    trusts = step(
        look,
        lambda seen: certificates.trusted(seen, wanted),
        after=[known],
        name="Door | Trust the fleet's authority",
    )
    has = step(
        look,
        lambda seen: certificates.certified(seen, wanted),
        after=[known, trusts],
        name="Door | Have a certificate that lasts",
    )
    return [trusts, has]
