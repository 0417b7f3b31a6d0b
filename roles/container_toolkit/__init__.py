"""NVIDIA Container Toolkit: four packages of one version, a CDI specification of the loaded driver, and the proof.

GPUs are attached by CDI alone (`--device nvidia.com/gpu=…`), so no runtime is registered with Docker. Comes after
driver and Docker: the specification describes the one, the proof needs the other.
"""

from __future__ import annotations

from pyinfra import host
from pyinfra.api.operation import OperationMeta

from deploy.slices.host import Slice
from roles._pyinfra.steps import Reading, check, step
from roles._shipping.apt import write_missing
from roles.container_toolkit import operations, verify
from roles.container_toolkit.defaults import settings
from roles.container_toolkit.facts import ToolkitHost


def apply(mine: Slice, below: list[OperationMeta] | None = None) -> list[OperationMeta]:
    """Containers see every GPU, proven for these versions. `below`: steps of driver and Docker. Returns the steps."""
    repository = operations.repository(mine, settings(host))
    look = Reading(ToolkitHost, {"repository": repository})
    under = list(below or ())
    known = step(look, lambda seen: operations.know(seen, repository), name="Toolkit | Know the repository")
    packages = step(
        look, lambda seen: operations.packages(seen, mine, repository), after=[known], name="Toolkit | Install packages"
    )
    hold = step(look, operations.hold, after=[packages], name="Toolkit | Hold the version")
    files = operations.guards()
    guard = step(look, lambda seen: write_missing(files, seen), name="Toolkit | Keep unattended upgrades away")
    placed = step(look, operations.program, name="Toolkit | Place the GPU probe")
    spec = step(
        look,
        lambda seen: operations.refresh(seen, mine),
        after=[*under, packages],
        name="Toolkit | Describe the GPUs for CDI",
    )
    proof = step(
        look,
        lambda seen: operations.prove(seen, mine),
        after=[*under, packages, spec, placed],
        name="Toolkit | Prove GPUs in a container",
    )
    judged = check(
        look,
        lambda seen: verify.judge(seen, mine),
        after=[*under, spec, proof],
        name="Toolkit | Verify the CDI specification",
    )
    return [known, packages, hold, guard, placed, spec, proof, judged]
