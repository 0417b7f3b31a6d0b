"""Publishers of a host's driver packages, and its cloud image, reported before the first change. Pure.

apt knows the publisher of a package's source (`o=` of its Release file); for a version that its source no longer has,
only the version's form is evidence. A host with an earlier deploy is not asked again. Source: gpu-host facts, 1.1 to
1.8.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from deploy.catalog.versions import at_least
from deploy.refusals import PREFLIGHT, Refusal
from deploy.slices.host import Slice
from roles._pyinfra.facts import HostFacts, ask_value
from roles._shipping.places import SETTINGS

KNOWN = f"[ -e {SETTINGS}/before/packages ]"
"""Shell that succeeds on a host with an earlier deploy."""
PATTERNS = (
    *("libnvidia-compute*", "libcuda1", "nvidia-utils-*", "nvidia-driver-*", "nvidia-kernel-*", "nvidia-dkms-*"),
    *("nvidia-headless-*", "linux-modules-nvidia-*", "nvidia-open*", "cuda-drivers*", "nvidia-linux-grid-*"),
    *("nvidia-vgpu-*", "lambda-stack*"),
)
_NOT_CODE = re.compile(r"nvidia-driver-(pinning|assistant|local-repo).*|nvidia-kernel-common.*")
_VGPU = re.compile(r"nvidia-(linux-grid|vgpu)-.*")
_APT_CACHE = "apt-cache -oDir::Cache::pkgcache= -oDir::Cache::srcpkgcache="
"""apt-cache without a cache on the host, because a run with `--dry` writes nothing."""
_ASKED = (
    "names=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\\n' PATTERNS | sed -n 's/^.i *//p');"
    " [ -z \"$names\" ] || { CACHE policy; CACHE policy $names; } | awk 'SCRIPT'"
)
_HELD = "dpkg-query -W -f='${db:Status-Abbrev} ${Package}\\n' | sed -n 's/^h. *//p'"
_SCRIPT = r"""
function say() { if (installed) print package, installed, (source == "" ? "local" : source); installed = "" }
/^[^ ].*:$/ { say(); package = substr($0, 1, length($0) - 1); next }
/^ +release / { if (match($0, /[ ,]o=[^,]*/)) origins[line] = substr($0, RSTART + 3, RLENGTH - 3); next }
/^ \*\*\* / { say(); installed = $2; source = ""; next }
/^ +-?[0-9]+ (https?|file|copy|mirror|cdrom|[a-z+]+:)/ {
  line = $0; sub(/^ +-?[0-9]+ /, "", line)
  if (installed && source == "") source = (line in origins ? origins[line] : "unknown")
  next
}
/^     [^ ]/ { say() }
END { say() }"""
ORIGINS = {"Ubuntu": "canonical", "Debian": "debian", "Debian Backports": "debian", "NVIDIA": "nvidia"}
"""`o=` of a source's Release file, and the publisher: the word of `Driver.source`, or another name."""
_VERSIONS = (
    ("canonical", re.compile(r".*ubuntu0?\.\d\d\.\d\d.*|.*-0ubuntu0.*")),
    ("nvidia", re.compile(r"\d+(\.\d+)+-\d+(ubuntu\d+)?")),
    ("debian", re.compile(r".*(~|\+)(deb|bpo)\d+.*")),
)
VENDORS = {"Amazon EC2": "AWS", "Google": "Google Cloud", "Microsoft Corporation": "Azure"}
OF_RUNS = re.compile(
    r"(lib)?nvidia-.*|libcuda1|cuda-drivers.*|linux-(modules|image|headers|generic).*|docker.*|containerd.*"
)
"""Packages that a run may install, upgrade or hold."""
KEEPS = '"driver": Driver(manage=False)'


@dataclass(frozen=True)
class DriverPackage:
    """An installed package of a driver, and its publisher; empty for a file of unknown origin."""

    name: str
    version: str
    publisher: str


def fact_commands() -> list[str]:
    """Fact commands for a host without an earlier deploy: packages with origins, image, holds, upgrades."""
    patterns = " ".join(f"'{pattern}'" for pattern in PATTERNS)
    packages = _ASKED.replace("PATTERNS", patterns).replace("CACHE", _APT_CACHE).replace("SCRIPT", _SCRIPT)
    upgrades = "apt-config dump APT::Periodic::Unattended-Upgrade Unattended-Upgrade::Automatic-Reboot"
    return [
        ask_value("driver-packages", f"{KNOWN} || {{ export LC_ALL=C; {packages}; }}"),
        ask_value("vendor", "cat /sys/class/dmi/id/sys_vendor"),
        ask_value("gridd", "ls /etc/nvidia/gridd.conf"),
        ask_value("held", f"{KNOWN} || {_HELD}"),  # apt-mark would write apt's cache
        ask_value("upgrades", f"{KNOWN} || {upgrades}"),
    ]


def driver_packages(facts: HostFacts) -> list[DriverPackage]:
    """The installed packages of the driver, from lines `NAME VERSION ORIGIN`."""
    rows = (line.split(" ", 2) for line in facts.value("driver-packages").splitlines())
    known = (row for row in rows if len(row) == 3 and not _NOT_CODE.fullmatch(row[0]))
    return [DriverPackage(name, version, publisher(name, version, origin)) for name, version, origin in known]


def publisher(name: str, version: str, origin: str) -> str:
    """Publisher of a package: by its source, else by the form of its version."""
    if name.startswith("lambda-stack") or "lambda" in origin.lower():
        return "lambda"
    if origin in ORIGINS:
        return ORIGINS[origin]
    if origin not in ("local", "unknown"):
        return origin
    plain = version.rpartition(":")[2]
    return next((word for word, form in _VERSIONS if form.fullmatch(plain)), "")


def image_of(facts: HostFacts) -> str:
    """The cloud that published this image, as far as visible; else empty."""
    if any(package.publisher == "lambda" for package in driver_packages(facts)):
        return "Lambda"
    return VENDORS.get(facts.value("vendor"), "")


def is_kept(facts: HostFacts, mine: Slice) -> bool:
    """True if the driver role keeps the loaded driver: the declared branch or a newer one, at least the floor."""
    loaded = facts.value("loaded").strip()
    if not loaded or not at_least(loaded, mine.driver.floor):
        return False
    return loaded == mine.driver.version if mine.driver.version else at_least(loaded, mine.driver.branch)


def keep_line(facts: HostFacts, mine: Slice) -> str:
    """The inventory's line that keeps the driver, and its publisher; empty if the driver is too old for the image."""
    loaded = facts.value("loaded").strip()
    if not loaded or not at_least(loaded, mine.driver.floor):
        return ""
    image = image_of(facts)
    return f"{KEEPS} keeps {loaded}" + (f" of this image of {image}" if image else "")


def driver_origins(facts: HostFacts, mine: Slice) -> Iterator[Refusal]:
    """A refusal for a driver that this project must not replace, or whose packages do not belong together."""
    if not mine.driver.manage:
        return
    packages = driver_packages(facts)
    keeps = keep_line(facts, mine)
    grid = [package.name for package in packages if _VGPU.fullmatch(package.name)]
    if grid or facts.value("gridd"):
        yield _refusal(
            mine,
            "this is the guest driver of NVIDIA vGPU, which has a licence and follows its hypervisor",
            ", ".join(grid) or facts.value("gridd"),
            "a driver of Canonical or NVIDIA, or one that stays",
            keeps or f"{KEEPS}, with a guest driver of {mine.driver.floor} or newer from the provider",
            "vgpu-driver",
        )
        return
    sets: dict[str, list[DriverPackage]] = {}
    for package in packages:
        if package.publisher:
            sets.setdefault(package.publisher, []).append(package)
    if len(sets) > 1:
        listed = "; ".join(f"{', '.join(_named(sets[word])[:3])} of {word}" for word in sorted(sets))
        yield _refusal(
            mine,
            "the driver's packages come from several publishers, who split it differently",
            listed,
            f"all of one publisher, {mine.driver.source}",
            _purge(keeps),
            "mixed-driver",
        )
    elif sets and mine.driver.source not in sets and not is_kept(facts, mine):
        (word,) = sets
        source = f'"driver": Driver(source="{word}") takes {word}\'s' if _offers(word, mine) else ""
        yield _refusal(
            mine,
            f"the installed driver is of {word}, the wanted one of {mine.driver.source}",
            ", ".join(_named(sets[word])[:6]),
            f"{mine.driver.branch} of {mine.driver.source}; packages of the two must not be mixed",
            "; or ".join(part for part in (source, _purge(keeps)) if part),
            "foreign-driver",
        )


def notes(facts: HostFacts, mine: Slice) -> Iterator[str]:
    """Sentences about the host's state before its first deploy."""
    loaded, image = facts.value("loaded").strip(), image_of(facts)
    if mine.driver.manage and loaded and is_kept(facts, mine):
        whose = f"this image of {image} came with driver {loaded}" if image else f"driver {loaded} is loaded already"
        yield f"{whose}; it is kept, and held. {KEEPS} leaves it entirely to the provider"
    if held := [name for name in facts.value("held").split() if OF_RUNS.fullmatch(name)]:
        yield f"held packages: {', '.join(held)}; the run changes those that it needs, and holds them again"
    upgrades = dict(re.findall(r'^(\S+) "([^"]*)";$', facts.value("upgrades"), re.M))
    if upgrades.get("APT::Periodic::Unattended-Upgrade", "0") not in ("", "0"):
        yield "unattended upgrades are on; files of this project keep them from driver, Docker and toolkit"
        if upgrades.get("Unattended-Upgrade::Automatic-Reboot", "false").lower() in ("true", "1", "yes"):
            yield (
                "unattended upgrades may reboot this host at any time: set Unattended-Upgrade::Automatic-Reboot to "
                '"false" in /etc/apt/apt.conf.d to be asked'
            )


def _offers(word: str, mine: Slice) -> bool:
    return word == "nvidia" or (word == "canonical" and mine.machine.os.startswith("ubuntu"))


def _named(packages: list[DriverPackage]) -> list[str]:
    return [f"{package.name} {package.version}" for package in packages]


def _purge(keeps: str) -> str:
    """Commands that keep the driver, if possible, and that remove it."""
    purge = "apt-get purge '^nvidia-.*' '^libnvidia-.*' '^linux-modules-nvidia-.*' '^libcuda1$' on the host, and reboot"
    return f"{keeps}; or {purge}" if keeps else purge


def _refusal(mine: Slice, problem: str, actual: str, wanted: str, attempt: str, kind: str) -> Refusal:
    facts = {"found": actual, "wanted": wanted}
    return Refusal(f"{mine.host}: {problem}", facts=facts, attempt=attempt, state=PREFLIGHT, kind=kind)
