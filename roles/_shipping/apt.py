"""Third-party apt repositories and held packages, for roles that install packages.

Commands use two programs that are already on the host: `patient-apt`, which waits for apt's locks, and `fetch-apt-key`,
which trusts a key only by its fingerprint. Each role names its packages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from shlex import join, quote

from deploy.bundle.armour import armour
from deploy.io.local_paths import local_path
from deploy.refusals import Refusal
from deploy.spec import AptMirror
from roles._pyinfra.facts import HostFacts, Installed, ask_files, ask_value
from roles._pyinfra.steps import Command, write
from roles._shipping.places import PROGRAMS, command

KEYRINGS = "/etc/apt/keyrings"
SOURCES = "/etc/apt/sources.list.d"


@dataclass(frozen=True, kw_only=True)
class Repository:
    """An apt source and its signing key. `path` follows the base URL and may contain apt's own $(ARCH)."""

    name: str
    url: str
    path: str
    key_url: str
    key_fingerprint: str
    key_file: str = ""
    """File on the control machine that replaces the upstream key. A mirror's operator vouches for this key, so no
    fingerprint is checked."""

    def mirrored(self, mirror: AptMirror | None) -> Repository:
        """The repository with the same packages at `mirror`; this repository if there is no mirror."""
        if mirror is None:
            return self
        return Repository(
            name=self.name,
            url=mirror.url.rstrip("/"),
            path=self.path,
            key_url="",
            key_fingerprint="",
            key_file=mirror.key_file,
        )

    @property
    def key_path(self) -> str:
        """The path of the key on the host; its suffix tells apt whether the key is armoured or binary."""
        return f"{KEYRINGS}/{self.name}.asc"

    @property
    def list_path(self) -> str:
        return f"{SOURCES}/{self.name}.list"

    @property
    def content(self) -> str:
        return f"deb [signed-by={self.key_path}] {self.url}/{self.path}\n"

    def fact_commands(self) -> tuple[str, str]:
        """For the role's fact: this repository's files, and other source files with the same address."""
        # Two files that sign one repository with two keys make every apt command fail ("Conflicting values set for
        # option Signed-By").
        address = quote(f"{self.url}/{self.path.split()[0].replace('$(ARCH)', '')}".removesuffix("/"))
        named = f"grep -lsF {address} {SOURCES}/*.list {SOURCES}/*.sources /etc/apt/sources.list"
        others = f"{named} | grep -vxF {quote(self.list_path)}"
        return ask_files(self.key_path, self.list_path), ask_value(f"conflicts-{self.name}", others)

    def missing(self, facts: HostFacts) -> Iterator[Command]:
        """Commands after which the host trusts the key and has the source in one file only."""
        for path in facts.value(f"conflicts-{self.name}").splitlines():
            yield _set_aside(path, self.url)
        if self.key_file:
            key = armoured(self.key_file)
            if not facts.holds(self.key_path, key):
                yield write(self.key_path, key)
        elif self.key_path not in facts.files:
            yield f"{command('fetch-apt-key')} {join((self.key_url, self.key_fingerprint, self.key_path))}"
        if not facts.holds(self.list_path, self.content):
            yield write(self.list_path, self.content)


def armoured(key_file: str) -> str:
    """The mirror's public key as ASCII armour, whatever the file's form. Raises: a Refusal for a missing file."""
    try:
        key = local_path(key_file).read_bytes()
    except OSError as error:
        raise Refusal(
            f"the mirror's signing key {key_file} cannot be read",
            facts={"found": error.strerror or str(error)},
            attempt="name a file of the machine that runs pyinfra, relative to where it is started",
            kind="mirror-key",
        ) from error
    return armour(key)


def _set_aside(path: str, url: str) -> str:
    """Disables the file for apt, but keeps it; in a one-line list disables only the lines of this repository."""
    if path.endswith(".sources"):
        return f"mv {quote(path)} {quote(path)}.disabled"
    return f"sed -i {quote(f's|^deb.*{url}|# set aside by enginehouse: &|')} {quote(path)}"


def install(
    wanted: Mapping[str, str], facts: Mapping[str, Installed], *, repository: str = "", recommends: bool = False
) -> Iterator[Command]:
    """Commands that install each package in a version that matches its pattern (`""` means any)."""
    missing = {
        name: version
        for name, version in wanted.items()
        if name not in facts or not fnmatchcase(facts[name].version, version or "*")
    }
    if not missing:
        return
    if repository:
        yield f"{PROGRAMS}/patient-apt update {quote(repository)}"
    flags = "--allow-downgrades --allow-change-held-packages" + ("" if recommends else " --no-install-recommends")
    yield f"{PROGRAMS}/patient-apt install {flags} {specified(missing)}"


def install_masked(wanted: Mapping[str, str], facts: Mapping[str, Installed]) -> Iterator[Command]:
    """Commands that install packages whose units would start and listen on every address at once.

    The units of missing packages are masked first, and stay masked. A package that the host had before keeps its unit
    unchanged, because the host may use it.
    """
    units = [unit for name, unit in wanted.items() if name not in facts]
    if units:
        yield f"systemctl mask {join(units)}"
        yield from install(dict.fromkeys(wanted, ""), facts)


def specified(packages: Mapping[str, str]) -> str:
    return join(f"{name}={version}" if version else name for name, version in packages.items())


def hold(names: Iterable[str], facts: Mapping[str, Installed]) -> Iterator[Command]:
    """The command that holds installed packages among `names`; no command if all are held already."""
    free = sorted(name for name in names if name in facts and not facts[name].held)
    if free:
        yield f"apt-mark hold {join(free)}"


def release(names: Iterable[str], facts: Mapping[str, Installed]) -> Iterator[Command]:
    """The command that lifts the holds among `names`: apt changes a held package only if it is named."""
    held = sorted(name for name in names if name in facts and facts[name].held)
    if held:
        yield f"apt-mark unhold {join(held)}"


def keep_from_upgrades(subject: str, patterns: Iterable[str]) -> tuple[str, str]:
    """Path and content of an apt setting that keeps unattended-upgrades off packages that match the expressions.

    A hold alone is not enough: an installation with --allow-change-held-packages undoes it, and dependents of a held
    package would still be upgraded. apt joins lists of several files.
    """
    lines = "".join(f'    "{pattern}";\n' for pattern in patterns)
    return f"/etc/apt/apt.conf.d/52enginehouse-{subject}", f"Unattended-Upgrade::Package-Blacklist {{\n{lines}}};\n"


def write_missing(files: Mapping[str, str], facts: HostFacts) -> Iterator[Command]:
    for path, content in files.items():
        if not facts.holds(path, content):
            yield write(path, content)
