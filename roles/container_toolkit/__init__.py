"""NVIDIA Container Toolkit: four packages of one version, a CDI specification of the loaded driver, and the proof.

GPUs are attached only by CDI (`--device nvidia.com/gpu=…`), so no runtime is registered with Docker. The role comes
after driver and Docker: the specification describes the driver, and the proof needs Docker.
"""

from pyinfra import host
from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from roles._pyinfra.steps import CachedFact, check, step
from roles._shipping.apt import write_missing
from roles.container_toolkit import operations, verify
from roles.container_toolkit.defaults import settings
from roles.container_toolkit.facts import ToolkitHost


def apply(mine: Slice, below: list[OperationMeta] | None = None) -> list[OperationMeta]:
    """Makes every GPU visible to containers, proven for these versions. `below`: steps of driver and Docker."""
    repository = operations.repository(mine, settings(host))
    fact = CachedFact(ToolkitHost, {"repository": repository})
    under = list(below or ())
    known = step(fact, lambda facts: operations.know(facts, repository), name="Toolkit | Add the repository")
    packages = step(
        fact,
        lambda facts: operations.packages(facts, mine, repository),
        after=[known],
        name="Toolkit | Install packages",
    )
    hold = step(fact, operations.hold, after=[packages], name="Toolkit | Hold the version")
    files = operations.guards()
    guard = step(fact, lambda facts: write_missing(files, facts), name="Toolkit | Keep unattended upgrades away")
    placed = step(fact, operations.program, name="Toolkit | Place the GPU probe")
    spec = step(
        fact,
        lambda facts: operations.refresh(facts, mine),
        after=[*under, packages],
        name="Toolkit | Describe the GPUs for CDI",
    )
    proof = step(
        fact,
        lambda facts: operations.prove(facts, mine),
        after=[*under, packages, spec, placed],
        name="Toolkit | Prove GPUs in a container",
    )
    judged = check(
        fact,
        lambda facts: verify.judge(facts, mine),
        after=[*under, spec, proof],
        name="Toolkit | Verify the CDI specification",
    )
    return [known, packages, hold, guard, placed, spec, proof, judged]
