"""Preconditions of serving: tools, Docker, driver, MIG, toolkit; in two calls, one for hosts that already serve.

Every step may interrupt a container: a driver is reloaded, Docker restarted, the host rebooted. So `deploy.py` calls it
twice: before the waves for hosts on which no server runs, and inside a wave, after the drain, for the others. A fact in
each call tells them apart. Long downloads are started here as soon as the host can run them; `stage` awaits them.
"""

from pyinfra import host
from pyinfra.api import FactBase
from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from roles import base, container_toolkit, docker, mig, model_store, nvidia_driver, proxy, registry
from roles._pyinfra import fact_batch
from roles._pyinfra.steps import ask


class Serving(FactBase[list[str]]):
    """The `triton@` and `llm@` units of this host that serve, or are about to.

    A unit that keeps trying to start while Docker is down does not count: the repair of Docker would then wait for a
    drained host, and the run would fail earlier, at the image, which needs Docker.
    """

    default = list

    def command(self) -> str:
        """The command; its output is empty if systemd has no such unit."""
        return (
            "states=active,reloading; systemctl is-active --quiet docker.service && states=$states,activating; "
            "systemctl list-units --plain --no-legend --state=$states 'triton@*.service' 'llm@*.service' 2>/dev/null "
            "| cut -d' ' -f1"
        )

    def process(self, output: list[str]) -> list[str]:
        return [line.strip() for line in output if line.strip()]


fact_batch.early(Serving)


def apply(mine: Slice, drained: bool = False) -> list[OperationMeta]:
    """Gives the host driver, Docker and toolkit. Returns the steps; none if the other call acts.

    Without `drained` it acts only on hosts that do not serve, with `drained` only on serving hosts.
    """
    known = [] if drained else proxy.apply(mine)  # interrupts no server, and downloads need the proxy
    if bool(ask(host, Serving)) != drained:
        return known
    steps = [*known, *base.begin(mine)]
    if drained:
        steps += base.finish(mine)
        driver = _driver(mine)
        daemon = docker.apply(mine)
    else:
        model_store.begin(mine)  # runs beside the steps below; serving hosts fetch before their drain
        daemon = docker.apply(mine)
        registry.begin(mine)  # the longest step: runs beside the driver's installation
        driver = _driver(mine)
        model_store.begin(mine)  # a reboot may have ended both fetches; they resume
        registry.begin(mine)
        steps += base.finish(mine)  # last, so that a reboot comes early and interrupts less of the pull
    return [*steps, *driver, *daemon, *container_toolkit.apply(mine, below=[*driver, *daemon])]


def _driver(mine: Slice) -> list[OperationMeta]:
    """Loads the driver, and cuts its GPUs as declared."""
    driver = nvidia_driver.apply(mine)
    # MIG comes after the driver, whose reload removes all instances, and before CDI, which describes them. The returned
    # list is a new one, because MIG's step reads `below` when it runs.
    return [*driver, *mig.apply(mine, below=driver)]
