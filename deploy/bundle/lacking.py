"""Parts that a host's plan wants and its bundle lacks, named before any host is touched. Pure."""

from collections.abc import Iterable, Iterator

from deploy.bundle.contents import ARCHITECTURE, Contents
from deploy.refusals import PREFLIGHT, Refusal
from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice

Bundled = Slice | BalancerSlice | MonitorSlice


def lacking(mine: Bundled, packages: Iterable[str], contents: Contents) -> list[Refusal]:
    """A refusal for each part of this host's plan that the bundle lacks. `packages` are installed by its roles."""
    os = _os_of(mine)
    if contents.architecture != ARCHITECTURE:
        return [_refusal(mine, "is for another architecture", contents.architecture, ARCHITECTURE, "architecture")]
    if os not in contents.packages:
        seen = ", ".join(sorted(contents.packages)) or "no packages"
        return [_refusal(mine, f"has no packages for {os}", seen, os, "system")]
    missing = list(_packages(mine, packages, contents))
    return [*missing, *_images(mine, contents), *_weights(mine, contents)] if isinstance(mine, Slice) else missing


def expected_directories(slices: Iterable[Slice]) -> Iterator[str]:
    """A sentence for each directory that a host must have already, because no bundle contains it."""
    for mine in slices:
        own = [(model.name, model.directory) for server in mine.servers for model in server.own_models]
        for name, path in [*own, *((files.model, files.path) for files in mine.on_host)]:
            yield f"not in the bundle: {path} of {name}, which {mine.host} has to have itself"


def kernel_problem(mine: Slice, kernel: str, contents: Contents) -> Refusal | None:
    """A refusal if the driver's module cannot be built for the host's running kernel; None if it can."""
    os = mine.machine.os
    if not (mine.driver.manage and mine.driver.source == "nvidia") or kernel in contents.kernels(os):
        return None
    seen = ", ".join(contents.kernels(os)) or "no headers"
    again = f"enginehouse bundle INVENTORY {mine.bundle} --kernel {os}={kernel}"
    return _refusal(mine, f"has no headers for the running kernel {kernel}", seen, kernel, "kernel", again)


def _os_of(mine: Bundled) -> str:
    return mine.machine.os if isinstance(mine, Slice) else mine.os


def _packages(mine: Bundled, packages: Iterable[str], contents: Contents) -> Iterator[Refusal]:
    names = contents.packages[_os_of(mine)]
    missing = sorted(set(packages) - set(names))
    if missing:
        seen = f"{len(names)} others, with what they need"
        yield _refusal(mine, "was made for another plan: packages are missing", seen, ", ".join(missing), "packages")


def _images(mine: Slice, contents: Contents) -> Iterator[Refusal]:
    kept = sorted({part.path.split("/")[1][:12] for part in contents.below("images")})
    for image in dict.fromkeys((mine.image, *mine.runtime_images)):
        if not contents.below(f"images/{image.digest.removeprefix('sha256:')}"):
            yield _refusal(
                mine,
                f"was made for another plan: the image {image.origin_reference.partition('/')[2]} is missing",
                f"images {', '.join(kept)}" if kept else "no image",
                image.digest,
                "image",
            )


def _weights(mine: Slice, contents: Contents) -> Iterator[Refusal]:
    for weights in mine.weights:
        folder = f"weights/{weights.repository}/{weights.revision}"
        if weights.repository and not contents.below(folder):
            commits = sorted({part.path.split("/")[3][:12] for part in contents.below(f"weights/{weights.repository}")})
            yield _refusal(
                mine,
                f"was made for another plan: the files of {weights.model} are missing",
                f"commits {', '.join(commits)}" if commits else f"nothing of {weights.repository}",
                f"{weights.repository} at {weights.revision[:12]}",
                "weights",
            )


def _refusal(mine: Bundled, problem: str, seen: str, wanted: str, kind: str, again: str = "") -> Refusal:
    return Refusal(
        f"{mine.host}: the bundle {mine.bundle} {problem}",
        facts={"seen": seen, "wanted": wanted},
        attempt=f"on the connected machine: {again or f'enginehouse bundle INVENTORY {mine.bundle}'}",
        state=PREFLIGHT,
        kind=f"bundle-{kind}",
    )
