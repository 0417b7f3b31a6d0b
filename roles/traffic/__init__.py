"""The host's readiness for balancers: `ready` or `drain` for each server, by systemd's state.

A drain is not a step of a run. It is part of the stop of `triton@SERVER` (its first ExecStop), so every stop of a
server drains it: a swap, the watchdog, a reboot, a restart of Docker, a person. A run that stops no server drains no
server.
"""

from pyinfra import host, logger
from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from roles._pyinfra import undo
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import CachedFact, any_changed, ask, step
from roles.traffic.defaults import NOTICES_UNIT
from roles.traffic.facts import NoticesLeft, Service
from roles.traffic.operations import install, notices, retired, run, settings, unit, user


def apply(mine: Slice) -> None:
    """Runs this host's service as planned. Requests go on; balancers keep the service's last answer meanwhile."""
    if mine.traffic is None or not mine.traffic.servers:
        return
    wanted = settings(mine.traffic, [server.name for server in mine.servers if server.standalone_llm])
    service = CachedFact(Service)
    step(service, user, name="Traffic | Make the user of the service")
    fact = undo.texts_fact("traffic", [unit(), wanted])
    put = step(fact, lambda facts: install(wanted, facts), name="Traffic | Install the service")
    step(service, run, after=[put], name="Traffic | Run the service")
    if mine.machine.notices:
        _listen(mine.machine.notices, service, put)
    elif ask(host, NoticesLeft):
        step(CachedFact(NoticesLeft), retired, name="Traffic | Stop asking for notices: the inventory names no cloud")


def _listen(cloud: str, service: CachedFact[HostFacts], put: OperationMeta) -> None:
    """Runs the service that asks the cloud for notices of interruption and drains the host after a notice."""
    wanted = notices(cloud)
    placed = step(
        undo.texts_fact("notices", [unit(NOTICES_UNIT), wanted]),
        lambda facts: install(wanted, facts, NOTICES_UNIT, "notices"),
        after=[put],
        name=f"Traffic | Place the program that asks {cloud} for notices",
    )
    step(service, lambda facts: run(facts, NOTICES_UNIT), after=[placed], name="Traffic | Ask for notices")


def log_undrained(mine: Slice, steps: list[OperationMeta]) -> None:
    """Logs, before the first change, if the run will stop no server of this host."""
    if mine.traffic and mine.traffic.servers and not any_changed(steps):
        host.log("this run stops no server of this host, so the host is not drained", log_func=logger.info)
