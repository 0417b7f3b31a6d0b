"""The operating systems that this project supports, and the features of each.

Sources (2026-11-20): Ubuntu and Debian package indexes for docker.io; Docker release notes for CDI (opt-in from 25,
spec 0.7.0 from 26.1); container toolkit release notes for the floor (CVE-2026-24260, fixed in 1.19.1). NVIDIA signs its
Debian 13 repository with another key than its older repositories (read in five public recipes, 2026-11-21). HAProxy and
Python: package indexes of both (2026-11-22). Ubuntu 26.04: its archive's indexes (2026-11-28); `make test-ubuntu`
runs the whole path on a machine of that archive, with sudo-rs and the coreutils of uutils.
"""

from dataclasses import dataclass
from typing import Literal

TOOLKIT_FLOOR = "1.19.1"
DOCKER_FLOOR = "26.1"
"""The first Docker that reads CDI schema 0.7.0, which the container toolkit writes since 1.19."""

HAPROXY_FLOOR = "2.6"
"""The oldest HAProxy of an OS that runs agent-checks for servers added at run time (2.5 does too, but no OS has it)."""

DOCKER_SOURCES = {"docker": "Docker's own repository", "distribution": "the package of the OS"}


@dataclass(frozen=True)
class System:
    """An OS release.

    `distribution_docker` is the version of its own docker.io package; `has_cdi` is true if that version can attach a
    GPU by CDI.
    """

    name: str
    codename: str
    driver_source: Literal["canonical", "nvidia"]
    kernel: str
    """The kernel series of the release; on Ubuntu the series of the flavour `generic`, without hardware enablement."""
    distribution_docker: str
    has_cdi: bool
    haproxy: str
    """The branch of the distribution's HAProxy package."""
    python: str
    """The version of the distribution's Python."""
    nvidia_key: str = "3bf863cc.pub"
    nvidia_fingerprint: str = "EB693B3035CD5710E231E123A4B469963BF863CC"

    @property
    def nvidia_path(self) -> str:
        """The folder of NVIDIA's repository: ubuntu2404."""
        return self.name.replace("-", "").replace(".", "")

    @property
    def distribution(self) -> str:
        return self.name.partition("-")[0]

    @property
    def archive(self) -> tuple[tuple[str, str], ...]:
        """(folder below a mirror of the distribution, suite) for each part of its archive."""
        if self.distribution == "debian":
            updates = ("debian", f"{self.codename}-updates"), ("debian-security", f"{self.codename}-security")
            return ("debian", self.codename), *updates
        return tuple(("ubuntu", f"{self.codename}{suffix}") for suffix in ("", "-updates", "-security"))

    @property
    def components(self) -> str:
        return "main contrib" if self.distribution == "debian" else "main restricted universe"

    @property
    def archive_keyring(self) -> str:
        return f"/usr/share/keyrings/{self.distribution}-archive-keyring.gpg"


_KEY_OF_2025 = {
    "nvidia_key": "8793F200.pub",
    "nvidia_fingerprint": "02182E60104FCDC26EAE1B8597A5D4CB8793F200",
}
_ROWS = (
    # name, codename, source of the driver, kernel, Docker, CDI, HAProxy, Python
    System("ubuntu-22.04", "jammy", "canonical", "5.15", "29.1.3", True, "2.4", "3.10"),
    System("ubuntu-24.04", "noble", "canonical", "6.8", "29.1.3", True, "2.8", "3.12"),
    System("ubuntu-26.04", "resolute", "canonical", "7.0", "29.1.3", True, "3.2", "3.14"),
    System("debian-12", "bookworm", "nvidia", "6.1", "20.10.24", False, "2.6", "3.11"),
    System("debian-13", "trixie", "nvidia", "6.12", "26.1.5", True, "3.0", "3.13", **_KEY_OF_2025),
)

SYSTEMS: dict[str, System] = {row.name: row for row in _ROWS}
