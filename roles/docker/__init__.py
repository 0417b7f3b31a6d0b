"""The Docker daemon with CDI for GPUs, bounded logs, its data on the big disk, and merged settings.

Everything is in place before the daemon's first start, so a fresh host never restarts it. A host with a running daemon
gets a restart only if the merged settings differ; the caller decides whether that may happen now. Preflight has refused
a host with another Docker (roles/preflight/docker.py).
"""

from pyinfra import host
from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from roles._pyinfra.steps import CachedFact, check, step
from roles._shipping.apt import write_missing
from roles.docker import operations, verify
from roles.docker.defaults import settings
from roles.docker.facts import DockerHost


def apply(mine: Slice) -> list[OperationMeta]:
    """Runs the daemon with the merged settings, at boot too, and holds its version. Returns the steps."""
    chosen = settings(host)
    wanted = operations.WantedDocker.of(mine, chosen)
    fact = CachedFact(DockerHost, {"repository": wanted.repository})
    known = step(fact, lambda facts: operations.repository(facts, wanted), name="Docker | Add the repository")
    daemon = step(fact, lambda facts: operations.daemon(facts, wanted), name="Docker | Merge daemon.json")
    packages = step(
        fact, lambda facts: operations.packages(facts, wanted), after=[known], name="Docker | Install Docker"
    )
    before = [packages, daemon]
    if wanted.data_root:
        moved = step(
            fact,
            lambda facts: operations.image_store(facts, wanted),
            after=[packages, daemon],
            name="Docker | Move the image store",
        )
        before = [packages, daemon, moved]
    run = step(
        fact,
        lambda facts: operations.run(facts, wanted),
        after=before,
        name="Docker | Run the daemon with its settings",
    )
    hold = step(fact, operations.hold_packages, after=[packages], name="Docker | Hold the version")
    files = operations.guards()
    guard = step(fact, lambda facts: write_missing(files, facts), name="Docker | Keep upgrades and needrestart away")
    checked = check(fact, lambda facts: verify.judge(facts, chosen), after=[run], name="Docker | Verify the daemon")
    return [known, *before, run, hold, guard, checked]
