"""Known holes (CVEs) of the programs on a host, and the versions without them. README.md beside this file lists them.

Sources: NVIDIA's bulletins by number (github.com/NVIDIA/product-security; read up to 5875 of 2026-09-08 for Triton,
5861 of 2026-09-30 for the driver, 5840 of 2026-07-14 for TensorRT-LLM, 5850 of 2026-06-30 for the container toolkit);
CVE records (github.com/CVEProject/cvelistV5); Ubuntu's OSV files (github.com/canonical/ubuntu-security-notices); pages
of osv.dev; release notes of moby and runc. All read on `READ`.

`effect` is the worst effect that a bulletin names in its text or its CVSS vector; full loss of confidentiality and
integrity counts as "code". Left out, because this project runs none of them: Triton's DALI backend, SageMaker server
and MLflow plugin, TensorRT-LLM's own servers, vGPU, Windows. Left out too: holes that every offered release has fixed
(before 24.12). Each of the driver's bulletins is represented by one or more of its holes; a version that fixes these
fixes the bulletin's others too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from deploy.catalog.releases import OFFERED, RELEASES
from deploy.catalog.versions import at_least, debian_at_least, version

READ = date(2026, 11, 25)
OLD_AFTER_DAYS = 90
"""Age in days from which a notice calls the table old: bulletins come every month."""

Component = Literal["triton", "tensorrt-llm", "container-toolkit", "driver", "haproxy", "docker", "runc", "containerd"]
Reach = Literal["port", "hosts", "user", "image", "model"]
Effect = Literal["code", "memory", "writes", "stops"]

COMPONENTS: Mapping[Component, str] = {
    "triton": "Triton",
    "tensorrt-llm": "TensorRT-LLM",
    "container-toolkit": "container toolkit",
    "driver": "NVIDIA driver",
    "haproxy": "HAProxy",
    "docker": "Docker",
    "runc": "runc",
    "containerd": "containerd",
}
REACHES: Mapping[Reach, str] = {
    "port": "a port that strangers reach",
    "hosts": "the network between hosts",
    "user": "a local user",
    "image": "a hostile image",
    "model": "a hostile model",
}
EFFECTS: Mapping[Effect, str] = {
    "code": "runs code",
    "memory": "reads memory or files",
    "writes": "changes data",
    "stops": "stops the service",
}
_BRANCH_PARTS: Mapping[Component, int] = {"driver": 1}
"""Number of leading numbers that name a branch, by component; two for every other component."""


@dataclass(frozen=True, kw_only=True)
class Hole:
    """A known hole of one component."""

    id: str
    component: Component
    fixed: tuple[str, ...]
    """The first version without the hole, for each fixed branch, oldest first; for Triton the container release. Empty
    if the fix is unknown."""
    reach: Reach
    """Access that an attacker needs."""
    effect: Effect
    source: str
    since: str = ""
    """The first version that has it; empty for the first of all."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """The distribution's own first version without it, by OS. A backport keeps the upstream number."""
    only: str = ""
    """The only setups in which the hole is open; if `applies` is False, no host of this project is such a setup."""
    applies: bool = True
    """False: the row is listed, and no host counts as affected."""
    read: date | None = READ
    """Date on which the source was read; None: the row is written from memory."""

    def is_in(self, number: str) -> bool:
        """True if upstream version `number` has the hole.

        False for a branch that the source does not list, unless it is older than all listed ones. For the driver false
        in that case too: NVIDIA lists only supported branches.
        """
        if not version(number) or not self.fixed or (self.since and not at_least(number, self.since)):
            return False
        parts = _BRANCH_PARTS.get(self.component, 2)
        own = [fix for fix in self.fixed if version(fix)[:parts] == version(number)[:parts]]
        if len(self.fixed) == 1 or own:
            return not at_least(number, (own or self.fixed)[-1])
        return self.component != "driver" and not at_least(number, self.fixed[0])

    def is_in_package(self, os: str, number: str) -> bool:
        """True if the distribution's package of this version has the hole; False if the OS has no recorded fix."""
        return os in self.packages and not debian_at_least(number, self.packages[os])

    @property
    def opens_to_strangers(self) -> bool:
        return self.reach == "port" and self.effect == "code"


def _hole(name: str, component: Component, fixed: str, reach: Reach, effect: Effect, source: str, **more: Any) -> Hole:
    """A row. `fixed` is a text of versions; of the remaining fields, only values other than defaults are given."""
    return Hole(
        id=f"CVE-{name}",
        component=component,
        fixed=tuple(fixed.split()),
        reach=reach,
        effect=effect,
        source=source,
        **more,
    )


def _holes(
    component: Component, fixed: str, source: str, reach: Reach, effect: Effect, ids: str, only: str = ""
) -> Iterator[Hole]:
    for name in ids.split():
        yield _hole(name, component, fixed, reach, effect, source, only=only)


def _bulletin(number: int) -> str:
    return f"NVIDIA bulletin {number}"


# fixed in, bulletin, what an attacker needs, effect, CVEs, condition
_TRITON: tuple[tuple[str, int, Reach, Effect, str, str], ...] = (
    ("25.05", 5687, "port", "stops", "2025-23323 2025-23324 2025-23325 2025-23326", ""),
    ("25.05", 5687, "port", "code", "2025-23327", ""),
    ("25.05", 5687, "model", "stops", "2025-23335", ""),
    ("25.06", 5687, "port", "stops", "2025-23322 2025-23331", ""),
    ("25.07", 5687, "port", "code", "2025-23310 2025-23311 2025-23317", ""),
    ("25.07", 5687, "port", "code", "2025-23318 2025-23319", "Python backend"),
    ("25.07", 5687, "port", "memory", "2025-23320 2025-23333 2025-23334", "Python backend"),
    ("25.07", 5687, "port", "stops", "2025-23321", ""),
    ("25.08", 5691, "port", "code", "2025-23316", "model control APIs, Python backend"),
    ("25.08", 5691, "port", "stops", "2025-23328 2025-23329", ""),
    ("25.08", 5691, "model", "stops", "2025-23336", ""),
    ("25.09", 5723, "port", "stops", "2025-33202", ""),
    ("25.10", 5734, "port", "stops", "2025-33201 2025-33211", ""),
    ("26.01", 5790, "port", "stops", "2025-33254 2026-24158", ""),
    ("26.02", 5816, "port", "stops", "2026-24146 2026-24173 2026-24174 2026-24175", ""),
    ("26.02", 5816, "port", "memory", "2026-24147", "model configurations that clients send"),
    ("26.03", 5828, "port", "code", "2026-24207", ""),
    ("26.03", 5828, "port", "memory", "2026-24206", ""),
    ("26.03", 5828, "port", "stops", "2026-24208 2026-24209 2026-24210", ""),
    ("26.04", 5848, "port", "stops", "2026-24264 2026-24266", ""),
    ("26.04", 5875, "port", "memory", "2026-47625", ""),
    ("26.05", 5853, "port", "code", "2026-47481", ""),
    ("26.05", 5853, "port", "stops", "2026-47476 2026-47477 2026-47478 2026-47479 2026-47480 2026-47482", ""),
    ("26.06", 5865, "port", "code", "2026-47606 2026-47627", ""),
    ("26.06", 5865, "port", "stops", "2026-47628 2026-47629", ""),
    ("26.06", 5865, "user", "code", "2026-47630", ""),
    ("26.07", 5875, "port", "stops", "2026-16497", ""),
)
_TENSORRT_LLM: tuple[tuple[str, int, Reach, Effect, str], ...] = (
    ("0.18.2", 5648, "user", "code", "2025-23254"),
    ("1.2", 5805, "user", "code", "2025-33255 2026-24142 2026-24163"),
    ("1.2", 5805, "user", "stops", "2026-24160"),
    ("1.2.1", 5805, "port", "writes", "2026-24205"),
    ("1.3.0rc13", 5840, "user", "code", "2026-24226 2026-24259"),
    ("1.3.0rc15", 5840, "model", "code", "2026-24233"),
    ("1.3.0rc17", 5840, "user", "code", "2026-47472 2026-47473"),
    ("1.3.0rc17", 5840, "hosts", "code", "2026-47471"),
)
_DRIVER: tuple[tuple[str, int, Effect, str], ...] = (
    ("535.274.02 570.195.03 580.95.05", 5703, "code", "2025-23280 2025-23282"),
    ("535.288.01 570.211.01 580.126.09", 5747, "code", "2025-33219"),
    ("535.309.01 580.159.03", 5821, "code", "2026-24193"),
    ("535.309.01 580.159.03 595.71.05", 5821, "code", "2026-24187 2026-24190 2026-24192 2026-24194"),
    ("535.309.01 580.159.03 595.71.05", 5821, "memory", "2026-24196"),
    ("535.309.01 580.159.03 595.71.05", 5821, "stops", "2026-24182 2026-24197"),
    ("580.178.04 595.91.07 610.57.04 615.71.09", 5861, "code", "2026-47595"),
)
_TOOLKIT: tuple[tuple[str, int, Effect, str], ...] = (
    ("1.17.1", 5599, "code", "2024-0135 2024-0136"),
    ("1.17.8", 5659, "code", "2025-23266"),
    ("1.17.8", 5659, "writes", "2025-23267"),
    ("1.19.1", 5850, "code", "2026-24260"),
)
_NO_CDI = "not where a GPU is attached by CDI, as here"
_NO_PLUGIN = "authorization plugins, which nothing here sets up"
# fmt: off
_UNJUDGED = (
    _hole("2024-0132", "container-toolkit", "1.16.2", "image", "code", _bulletin(5582), only=_NO_CDI, applies=False),
    _hole("2025-23359", "container-toolkit", "1.17.4", "image", "code", _bulletin(5616), only=_NO_CDI, applies=False),
    _hole("2024-41110", "docker", "27.1.1", "user", "code", "CVE record; GHSA-v23v-6jw2-98fq",
          only=_NO_PLUGIN, applies=False),
    _hole("2026-34040", "docker", "29.3.1", "user", "code", "CVE record; GHSA-x744-4wpc-v9h2",
          only=_NO_PLUGIN, applies=False),
    _hole("2026-97032", "docker", "29.9.0", "port", "stops", "moby's release notes of 29.9.0",
          only="Docker's API over a network, which nothing here opens", applies=False),
    _hole("2026-26081", "haproxy", "", "port", "stops",
          "haproxy.com, 2026-02-12; DSA-6130-1; HAProxy's own first version was not read",
          packages={"debian-13": "3.0.11-1+deb13u2"}, only="QUIC, which balancers here do not speak", applies=False),
)
_HAPROXY = (
    _hole("2023-40225", "haproxy", "2.6.15 2.7.10 2.8.2", "port", "writes", "CVE record",
          only="request smuggling by an empty Content-Length"),
    _hole("2023-45539", "haproxy", "2.8.2", "port", "memory", "CVE record; USN-6530-1",
          packages={"ubuntu-22.04": "2.4.22-0ubuntu0.22.04.3"}, only="rules on the end of a path"),
    _hole("2024-45506", "haproxy", "2.9.10 3.0.4", "port", "stops", "CVE record", since="2.9", only="HTTP/2"),
    _hole("2024-53008", "haproxy", "2.6.19 2.8.11 2.9.10 3.0.3", "port", "memory",
          "CVE record (2.6.18, 2.8.10, 2.9.9 and 3.0.2 are the last that have it)",
          only="request smuggling past rules on paths"),
    _hole("2025-11230", "haproxy", "2.4.30 2.6.23 2.8.16 3.0.12 3.1.9 3.2.6", "port", "stops",
          "CVE record; USN-7805-1",
          packages={"ubuntu-22.04": "2.4.24-0ubuntu0.22.04.3", "ubuntu-24.04": "2.8.5-1ubuntu3.4"},
          only="functions that read JSON, which balancers here do not use", applies=False),
    _hole("2025-32464", "haproxy", "3.1.7", "port", "stops",
          "CVE record (3.1.6 is the last that has it); osv.dev DEBIAN-CVE-2025-32464, UBUNTU-CVE-2025-32464",
          since="2.2", packages={"debian-12": "2.6.12-1+deb12u2", "ubuntu-22.04": "2.4.24-0ubuntu0.22.04.2"},
          only="the converter regsub, which balancers here do not use", applies=False),
    _hole("2026-110354", "haproxy", "3.0.30 3.2.26 3.3.17 3.4.7", "port", "stops",
          "osv.dev CVE-2026-110354, DEBIAN-CVE-2026-110354; mend.io",
          since="3.0", packages={"debian-12": "2.6.12-1+deb12u4"}, only="chunked requests of HTTP/1.1"),
)
_CONTAINERS = (
    _hole("2024-21626", "runc", "1.1.12", "image", "code", "CVE record; GHSA-xr7r-f8xq-vfvv"),
    _hole("2025-31133", "runc", "1.2.8 1.3.3", "image", "code", "CVE record; GHSA-9493-h29p-rfm2; USN-7851-1",
          packages={"ubuntu-22.04": "1.3.3-0ubuntu1~22.04.2", "ubuntu-24.04": "1.3.3-0ubuntu1~24.04.2"}),
    _hole("2025-52565", "runc", "1.2.8 1.3.3", "image", "code", "CVE record; GHSA-qw9x-cqr3-wc7r; no notice read"),
    _hole("2025-52881", "runc", "1.2.8 1.3.3", "image", "code", "CVE record; GHSA-cgrx-mc8f-2prm; no notice read"),
    _hole("2026-41579", "runc", "1.3.6 1.4.3", "image", "writes", "runc's release notes of 1.3.6 and 1.4.3",
          only="limited writes, of low severity in runc's own words"),
    _hole("2024-25621", "containerd", "1.7.29 2.0.7 2.1.5 2.2.0", "user", "code", "CVE record; GHSA-pwhc-rpq9-4c8w"),
    _hole("2024-40635", "containerd", "1.6.38 1.7.27 2.0.4", "image", "code", "CVE record; GHSA-265r-hfxg-fhmg"),
    _hole("2026-47262", "containerd", "1.7.33 2.0.10 2.1.9 2.2.5 2.3.2", "image", "stops",
          "GHSA-jpcc-p29g-p8mq as quoted in github.com/agntcy/dir pull request 1681"),
)
# fmt: on

HOLES: tuple[Hole, ...] = (
    *(hole for row in _TRITON for hole in _holes("triton", row[0], _bulletin(row[1]), *row[2:])),
    *(hole for row in _TENSORRT_LLM for hole in _holes("tensorrt-llm", row[0], _bulletin(row[1]), *row[2:])),
    *(hole for row in _TOOLKIT for hole in _holes("container-toolkit", row[0], _bulletin(row[1]), "image", *row[2:])),
    *(hole for row in _DRIVER for hole in _holes("driver", row[0], _bulletin(row[1]), "user", *row[2:])),
    *_HAPROXY,
    *_CONTAINERS,
    *_UNJUDGED,
)


def holes_in(component: Component, number: str) -> tuple[Hole, ...]:
    """The holes that upstream version `number` of a component has; Triton's number is the container release."""
    return tuple(hole for hole in HOLES if hole.component == component and hole.applies and hole.is_in(number))


def holes_in_package(component: Component, os: str, number: str) -> tuple[Hole, ...]:
    """The holes of the distribution's package. Holes without a fix of that OS are left out."""
    return tuple(
        hole for hole in HOLES if hole.component == component and hole.applies and hole.is_in_package(os, number)
    )


def release_of_core(core: str, otherwise: str = "") -> str:
    """The container release whose holes a Triton core version has.

    The release is `otherwise` if `otherwise` has the same core (25.06 and 25.07 share a core); else the oldest release
    with the newest core that is not newer. A core older than the catalog counts as the oldest release; a text that is
    not a version gives an empty one.
    """
    if otherwise in RELEASES and RELEASES[otherwise].triton_core == core:
        return otherwise
    older = [row for row in RELEASES.values() if at_least(core, row.triton_core)]
    newest = max((version(row.triton_core) for row in older), default=())
    oldest = min(RELEASES) if version(core) else ""
    return min((row.name for row in older if version(row.triton_core) == newest), default=oldest)


def is_mended_on_offer(hole: Hole) -> bool:
    """False if the hole is in an image and every offered release has it."""
    if hole.component == "triton":
        return not hole.is_in(OFFERED[-1])
    if hole.component == "tensorrt-llm":
        return not hole.is_in(RELEASES[OFFERED[-1]].trtllm)
    return True


def table_age(today: date) -> str:
    """A sentence about a table that has not been checked for a long time; empty for a recently checked one."""
    days = (today - READ).days
    if days <= OLD_AFTER_DAYS:
        return ""
    return f"the table of known holes was read on {READ}, {days} days ago; update the clone: git pull"
