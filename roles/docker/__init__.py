"""The Docker daemon: able to inject GPUs by CDI, its logs bounded, its data on the big disk, its settings merged.

Everything is in place before the daemon first starts, so a fresh host never restarts it. A host that already runs one
gets a restart only when the merged settings differ; whether that may happen now is decided by who calls this. That no
other Docker is in its place, preflight has judged (roles/preflight/docker.py).
"""

from __future__ import annotations

from pyinfra import host
from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from roles._pyinfra.steps import CachedFact, check, step
from roles._shipping.apt import write_missing
from roles.docker import operations, verify
from roles.docker.defaults import settings
from roles.docker.facts import DockerHost


def apply(mine: Slice) -> list[OperationMeta]:
    """The daemon runs with the merged settings, starts at boot and stays at its version. Returns the steps."""
    chosen = settings(host)
    wanted = operations.WantedDocker.of(mine, chosen)
    fact = CachedFact(DockerHost, {"repository": wanted.repository})
    known = step(fact, lambda facts: operations.repository(facts, wanted), name="Docker | Know the repository")
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
        name="Docker | Run the daemon with these settings",
    )
    hold = step(fact, operations.hold_packages, after=[packages], name="Docker | Hold the version")
    files = operations.guards()
    guard = step(fact, lambda facts: write_missing(files, facts), name="Docker | Keep upgrades and needrestart away")
    checked = check(fact, lambda facts: verify.judge(facts, chosen), after=[run], name="Docker | Verify the daemon")
    return [known, *before, run, hold, guard, checked]
