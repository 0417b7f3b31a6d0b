"""Every Triton server of the host serves its planned release, proven by one real answer per model.

A release is rendered here, published as an immutable directory, and taken into service by a transaction that lives on
the host (files/host/swap.py): stop, switch `current`, start, load in order, ask; or put back what served before.
pyinfra asks for it and waits. Where the planned release already serves, nothing happens. A server the plan no longer
names is forgotten last: until every planned one serves, it may be what has to serve again.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand

from deploy.slice import ServerSlice, Slice
from roles import undo
from roles.settings import overridden
from roles.steps import Reading, step
from roles.triton.defaults import Defaults
from roles.triton.facts import Probed, TritonServers, TritonState
from roles.triton.operations import Decide, prove_cuda, publish, retire, swap, sweep, texts
from roles.triton.release import release_of
from roles.triton.swapping import ask_for, swap_seconds
from roles.triton.times import change_seconds


def apply(mine: Slice, plan: str) -> None:
    """Install, publish, prove CUDA, swap: in that order, each only where it is needed. `plan` goes into the history."""
    settings = overridden(host, "triton", Defaults())
    releases = [release_of(server, settings) for server in mine.servers]
    wanted = texts(releases)
    installed = step(
        undo.look("triton", wanted),
        lambda found: undo.put_watched("triton", wanted, found),
        name="Triton | Install programs and units",
    )
    serving = Reading(TritonServers)
    step(serving, sweep, name="Triton | Remove containers that lost their unit")
    for release in host.loop(releases):
        name, gpus = release.server.name, release.server.gpus
        published = step(serving, publish(release), name=f"Triton | Publish release {release.id} for {name}")
        proven = step(
            Reading(Probed, {"image": release.server.image.pull_reference, "gpus": gpus}),
            prove_cuda(release, settings),
            name=f"Triton | Prove CUDA inside the image for {name}",
        )
        step(
            serving,
            swap(release, releases, plan, settings),
            after=[installed, published, proven],
            name=f"Triton | Swap in release {release.id} on {name}",
        )
    step(serving, retire(releases), name="Triton | Stop what is no longer planned")


def back(mine: Slice, plan: str) -> None:
    """Every server serves what served before its last swap; the same transaction, the other way round."""
    settings = overridden(host, "triton", Defaults())
    serving = Reading(TritonServers)
    for server in host.loop(mine.servers):
        step(serving, _back(server, plan, settings), name=f"Triton | Put back the previous release on {server.name}")


def tell_what_stays(mine: Slice) -> None:
    """Says, before anything happens, what going back to a release does not undo."""
    host.log(
        "going back changes model repository, settings and start line of " + ", ".join(s.name for s in mine.servers)
    )
    host.log("it does not undo: driver, Docker, container toolkit, weights, pulled images, ports opened elsewhere")
    host.log("the next deploy.py brings the inventory's release again; change the inventory to stay")


def _back(server: ServerSlice, plan: str, settings: Defaults) -> Decide:
    def decide(serving: TritonState) -> Iterator[PyinfraCommand]:
        yield from ask_for(server.name, "previous", plan, settings, swap_seconds(change_seconds(server), settings))

    return decide
