"""Names of the driver's packages: wanted ones, installed ones, and their publishers. Pure.

Source: gpu-host facts, 1.1, 1.4, 1.5 (2026-11). Canonical's names end with the branch and `-server`; NVIDIA's Debian
packages have no suffix, and its Ubuntu packages none from branch 590 on.
"""

import re
from collections.abc import Iterable, Mapping

from deploy.slices.host import Slice
from roles._pyinfra.facts import Installed

PATTERNS = (
    *("nvidia-*", "libnvidia-*", "libcuda1", "cuda-drivers*", "firmware-nvidia*", "linux-modules-nvidia-*"),
    *("linux-objects-nvidia-*", "linux-signatures-nvidia-*", "linux-image-*", "linux-headers-*", "linux-generic*"),
)
"""dpkg patterns of all packages in this module."""

_TOOLKIT = r"(nvidia-container-|libnvidia-container).*"
# Not held: these packages contain no code and exclude each other, and a hold would prevent a change of the branch.
_PINNING = r"nvidia-driver-pinning-.*"
_CANONICAL = r"(linux-modules-nvidia-|nvidia-headless-|libnvidia-compute-|nvidia-utils-)\d+-server.*"
_NVIDIA = (
    r"(nvidia-driver-cuda|nvidia-kernel-open-dkms|nvidia-open|cuda-drivers|nvidia-dkms-(\d+-)?open|libnvidia-compute)"
)
_VERSION_OF_CANONICAL = r".*ubuntu0?\.\d\d\.\d\d.*|.*-0ubuntu0.*"
"""Form of Canonical's versions. Canonical's desktop drivers have names that NVIDIA's repository also uses."""
_DEBIAN = r"(nvidia-kernel-dkms|nvidia-open-kernel-dkms|nvidia-driver|nvidia-tesla-.*)"
_FLAVOURS = r"(generic|aws|azure|gcp|gke|ibm|kvm|lowlatency|nvidia|oracle|virtual|cloud-amd64|amd64)"
_KERNEL = rf"linux-(image-|headers-)?{_FLAVOURS}(-hwe-\d\d\.\d\d|-\d\d\.\d\d)?"


def origins(packages: Mapping[str, Installed]) -> set[str]:
    """Publishers of the installed driver: canonical, nvidia, debian; empty without a driver."""
    kinds = {"canonical": _CANONICAL, "nvidia": _NVIDIA, "debian": _DEBIAN}
    publishers = set[str]()
    for name, package in packages.items():
        named = {origin for origin, expression in kinds.items() if re.fullmatch(expression, name)}
        is_canonical = "nvidia" in named and re.fullmatch(_VERSION_OF_CANONICAL, package.version)
        publishers |= {"canonical"} if is_canonical else named
    return publishers


def of_driver(names: Iterable[str]) -> list[str]:
    """The driver's packages among the installed ones; the container toolkit's packages are excluded."""
    expression = (
        r"(lib)?nvidia-.*|libcuda1|cuda-drivers.*|firmware-nvidia.*|linux-(modules|objects|signatures)-nvidia-.*"
    )
    others = rf"{_TOOLKIT}|{_PINNING}"
    return sorted(name for name in names if re.fullmatch(expression, name) and not re.fullmatch(others, name))


def of_kernel(names: Iterable[str]) -> list[str]:
    """Kernel metapackages: upgraded alone, they boot a kernel without a published or built module."""
    return sorted(name for name in names if re.fullmatch(_KERNEL, name))


def pinning(mine: Slice) -> dict[str, str]:
    """Packages to install before NVIDIA's driver, because apt would take the newest branch; none for Canonical's."""
    if mine.driver.source != "nvidia":
        return {}
    return {f"nvidia-driver-pinning-{mine.driver.version or mine.driver.branch}": ""}


def wanted(mine: Slice, kernel: str) -> dict[str, str]:
    """The compute-only packages with open modules: name and version pattern, empty for any. `kernel` is `uname -r`."""
    branch, version = mine.driver.branch, mine.driver.version
    if mine.driver.source == "canonical":
        names = [
            f"linux-modules-nvidia-{branch}-server-open-{mine.machine.kernel_flavour}",
            f"nvidia-headless-no-dkms-{branch}-server-open",
            f"nvidia-utils-{branch}-server",
        ]
    elif mine.machine.os.startswith("debian"):
        names = [f"linux-headers-{kernel}", "nvidia-kernel-open-dkms", "nvidia-driver-cuda", "nvidia-persistenced"]
    else:
        mark = f"-{branch}" if int(branch) < 590 else ""
        names = [
            *(f"linux-headers-{kernel}", f"nvidia-dkms{mark}-open", f"libnvidia-compute{mark}"),
            *(f"nvidia-utils{mark}", f"nvidia-compute-utils{mark}"),
        ]
    # Canonical's package names contain the branch; NVIDIA's do not, so their version pattern does.
    pattern = f"{version}-*" if version else "" if mine.driver.source == "canonical" else f"{branch}.*"
    return {name: "" if name.startswith("linux-") else pattern for name in names}


def fabric_manager(mine: Slice, driver_version: str) -> dict[str, str]:
    """The fabric manager of exactly the driver's version: it refuses to run with any other."""
    name = f"nvidia-fabricmanager-{mine.driver.branch}" if mine.driver.source == "canonical" else "nvidia-fabricmanager"
    return {name: f"{driver_version}-*"}
