"""Every Triton server of the host serves its planned release, proven by one real answer per model.

A release is rendered here, published as an immutable directory, and put into service by a transaction on the host
(files/host/swap.py): stop, switch `current`, start, load in order, probe; or restore the previous release. pyinfra
requests it and waits. A planned release that already serves is not touched. A server that the plan no longer has is
removed last, because it may have to serve again until every planned server serves.
"""

from pyinfra import host
from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from roles._pyinfra import undo
from roles._pyinfra.settings import overridden
from roles._pyinfra.steps import CachedFact, step
from roles.triton.defaults import Defaults
from roles.triton.facts import Probed, TritonServers
from roles.triton.operations import prove_cuda, publish, retire, swap, sweep, texts
from roles.triton.release import release_of
from roles.triton.reverting import restore, reversal_of, revert
from roles.triton.swapping import Asking

__all__ = ["apply", "planned", "restore", "reversal_of", "revert"]


def planned(mine: Slice | None) -> dict[str, str]:
    """The id of each server's planned release, by the server's name; none on a host without servers."""
    if mine is None:
        return {}
    settings = overridden(host, "triton", Defaults())
    return {server.name: release_of(server, settings, mine.drain_seconds).id for server in mine.servers}


def apply(mine: Slice, plan: str, wave: int) -> list[OperationMeta]:
    """Installs, publishes, proves CUDA and swaps, in that order, each only if it is needed.

    The digest `plan` and the number of the wave are written to the host's history. Returns the steps that stop a server
    if they change something.
    """
    settings, asking = overridden(host, "triton", Defaults()), Asking.of(host.state, plan, wave)
    releases = [release_of(server, settings, mine.drain_seconds) for server in mine.servers]
    wanted = texts(releases)
    installed = undo.put_texts("triton", wanted, name="Triton | Install programs and units")
    serving, stops = CachedFact(TritonServers), list[OperationMeta]()
    step(serving, sweep, name="Triton | Remove containers that lost their unit")
    for release in host.loop(releases):
        name, gpus = release.server.name, release.server.gpus
        published = step(serving, publish(release), name=f"Triton | Publish release {release.id} for {name}")
        proven = step(
            CachedFact(Probed, {"image": release.server.image.pull_reference, "gpus": gpus}),
            prove_cuda(release, settings),
            name=f"Triton | Prove CUDA inside the image for {name}",
        )
        swapped = step(
            serving,
            swap(release, releases, asking, settings),
            after=[installed, published, proven],
            name=f"Triton | Swap in release {release.id} on {name}",
        )
        stops.append(swapped)
    return [*stops, step(serving, retire(releases), name="Triton | Stop unplanned servers")]
