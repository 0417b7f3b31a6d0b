"""Packages of hosts with all dependencies, and the signed lists of their repositories, byte for byte.

apt itself resolves and fetches, for the host's OS and an empty system, in a separate directory; the connected machine
needs no other program and does not change. The lists are the publishers' own, so their signatures are valid on the
host, and apt there verifies the publisher of a package. The lists name more packages than the bundle has.
"""

import re
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.bundle.armour import armour
from deploy.catalog import SYSTEMS
from deploy.io.local_paths import local_path
from deploy.refusals import Refusal

APT_HELPER = "/usr/lib/apt/apt-helper"
FETCH_KEY = Path(__file__).parents[2] / "files/host"
COMPRESSED = (".xz", ".gz", ".bz2", "")
"""Forms of a package list, the smallest first; apt on a host asks in this order."""
LINE = re.compile(r"'(?P<uri>[^']+)' (?P<name>\S+) (?P<size>\d+)")
STATE = "fetched files are kept; the bundle is not finished"


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository: `lines` follow its URL in a source list. The key is a local file, or fetched by its fingerprint."""

    name: str
    url: str
    lines: tuple[str, ...]
    key_file: str = ""
    key_url: str = ""
    fingerprint: str = ""


@dataclass(frozen=True)
class Need:
    """Packages of equal hosts, `name` or `name=version`, and the repositories of these packages."""

    os: str
    packages: tuple[str, ...]
    repositories: tuple[Repository, ...]
    branch: str = ""
    """Branch of NVIDIA's driver: no other version of its packages is taken."""


@dataclass(frozen=True)
class Fetched:
    """A file of a repository: its path in the bundle, its local path, and its origin."""

    path: str
    file: Path
    source: str


class Apt:
    """apt for the hosts of one need, in the directory `work`, which is kept until the bundle is finished."""

    def __init__(self, need: Need, work: Path) -> None:
        self.need, self.work = need, work
        self.keys = {repository.name: work / "keys" / f"{repository.name}.asc" for repository in need.repositories}

    def prepare(self) -> None:
        """Fetches the lists and verifies their signatures."""
        for folder in ("lists/partial", "cache/archives/partial", "keys", "indexes"):
            (self.work / folder).mkdir(parents=True, exist_ok=True)
        (self.work / "status").touch()
        (self.work / "preferences").write_text(preferences(self.need.branch), "utf-8")
        for repository in self.need.repositories:
            self._key(repository)
        lines = (
            f"deb [signed-by={self.keys[repository.name].resolve()}] {repository.url}/{line}\n"
            for repository in self.need.repositories
            for line in repository.lines
        )
        (self.work / "sources.list").write_text("".join(lines), "utf-8")
        self._apt("-q", "update", "-o", "APT::Update::Error-Mode=any")

    def packages(self) -> list[tuple[str, str, int]]:
        """(URI, name of the file, bytes) of each package that an empty system would need."""
        empty = self.work / "no-archives"  # apt names only packages that its cache lacks
        (empty / "partial").mkdir(parents=True, exist_ok=True)
        words = ["-o", f"Dir::Cache::archives={empty.resolve()}", "-q", "-y", "--print-uris"]
        output = self._apt(*words, *self._install())
        rows = (LINE.match(line) for line in output.splitlines())
        return [(row["uri"], urllib.parse.unquote(row["name"]), int(row["size"])) for row in rows if row]

    def fetch(self) -> None:
        self._apt("-q", "-y", "--download-only", *self._install())

    def files(self) -> Iterator[Fetched]:
        """Every package, list and signature, by the path that a host requests."""
        for uri, name, _ in self.packages():
            yield Fetched(self.path_of(uri), self.archive_of(name), uri)
        yield from self._indexes()

    def archive_of(self, name: str) -> Path:
        return self.work / "cache/archives" / name.replace(":", "%3a")

    def path_of(self, uri: str) -> str:
        """The path in the bundle of a file that apt names by its URI."""
        plain = urllib.parse.unquote(uri).replace("/./", "/")
        owners = [candidate for candidate in self.need.repositories if plain.startswith(f"{candidate.url}/")]
        owner = max(owners, key=lambda repository: len(repository.url))
        return f"apt/{self.need.os}/{owner.name}/{plain.removeprefix(owner.url).strip('/')}"

    def _indexes(self) -> Iterator[Fetched]:
        form = "$(BASE_URI)|$(METAKEY)|$(CREATED_BY)"
        bases = dict[str, list[str]]()
        for line in self._apt("indextargets", "--format", form).splitlines():
            base, key, kind = line.split("|")
            if kind == "Packages":
                bases.setdefault(base, []).append(key)
        for base, keys in bases.items():
            signed = [self.work / "lists" / f"{listed(base)}{name}" for name in ("InRelease", "Release", "Release.gpg")]
            present = [file for file in signed if file.is_file()]
            for file in present:
                name = file.name.removeprefix(listed(base))
                yield Fetched(self.path_of(f"{base}{name}"), file, f"{base}{name}")
            sums = checksums(present[0].read_text("utf-8", "replace"))
            for key in keys:
                name = next(f"{key}{ending}" for ending in COMPRESSED if f"{key}{ending}" in sums)
                target = self.work / "indexes" / listed(f"{base}{name}")
                self._run([APT_HELPER, *self._options(), "-q", "download-file", f"{base}{name}", str(target),
                           f"SHA256:{sums[name]}"])  # fmt: skip
                yield Fetched(self.path_of(f"{base}{name}"), target, f"{base}{name}")

    def _key(self, repository: Repository) -> None:
        target = self.keys[repository.name]
        if repository.key_file:
            target.write_text(armour(_read_key(repository)), "utf-8")
        elif not target.exists():
            words = ["fetch-apt-key", repository.key_url, repository.fingerprint, str(target.resolve())]
            self._run([sys.executable, "-B", str(FETCH_KEY), *words])

    def _install(self) -> list[str]:
        return ["install", "--no-install-recommends", *self.need.packages]

    def _options(self) -> list[str]:
        work = self.work.resolve()
        settings = {
            "Dir::Etc::SourceList": work / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::Preferences": work / "preferences",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "Dir::State": work,
            "Dir::State::Lists": work / "lists",
            "Dir::State::status": work / "status",
            "Dir::Cache": work / "cache",
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
            "APT::Sandbox::User": "root",
            "APT::Get::List-Cleanup": "0",
            "Acquire::Languages": "none",
            "Acquire::PDiffs": "false",
            "Acquire::Check-Valid-Until": "false",
            "Acquire::Retries": "3",
            "Debug::NoLocking": "1",
        }
        return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]

    def _apt(self, *words: str) -> str:
        return self._run(["apt-get", *self._options(), *words])

    def _run(self, argv: list[str]) -> str:
        if not shutil.which(argv[0]):
            raise _failed(self.need.os, f"there is no {argv[0]} here", "a Debian or Ubuntu machine")
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=_environment())
        if done.returncode:
            lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
            errors = sorted((line for line in lines if line[:3] in ("E: ", "W: ")), reverse=True) or lines[-1:]
            raise _failed(self.need.os, " ".join(errors[:3]), "every package, and what it needs")
        return done.stdout


def _environment() -> dict[str, str]:
    import os

    return os.environ | {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


def preferences(branch: str) -> str:
    """Pins NVIDIA's driver to its branch, as the package nvidia-driver-pinning does on a host."""
    if not branch:
        return ""
    names = "*nvidia* libcuda* libnv* cuda-drivers* libxnvctrl*"
    return f"Package: {names}\nPin: version {branch}.*\nPin-Priority: 1001\n"


def listed(uri: str) -> str:
    """The name that apt gives the list of a URI."""
    special = '\\|{}[]<>"^~_=!@#$%^&*'
    plain = uri.partition("://")[2]
    return "".join(f"%{ord(letter):02x}" if letter in special else letter for letter in plain).replace("/", "_")


def checksums(release: str) -> dict[str, str]:
    """sha256 of each file that a Release file lists."""
    sums, is_inside = dict[str, str](), False
    for line in release.splitlines():
        if not line.startswith(" "):
            is_inside = line.startswith("SHA256:")
        elif is_inside and len(words := line.split()) == 3:
            sums[words[2]] = words[0]
    return sums


def system_repository(os: str, url: str, key_file: str) -> Repository:
    """The distribution's own archive at `url`; if `url` is empty, at the address that apt on this machine uses.

    Raises: a Refusal if apt here names no archive of that distribution.
    """
    system = SYSTEMS[os]
    lines = tuple(f"{folder} {suite} {system.components}" for folder, suite in system.archive)
    return Repository(
        name="system",
        url=url or _mirror_here(os, system.distribution),
        lines=lines,
        key_file=key_file or system.archive_keyring,
    )


def _mirror_here(os: str, distribution: str) -> str:
    """The URL above the distribution's folder, from apt's sources on this machine."""
    for url in _archives_here():
        base, _, folder = url.rstrip("/").rpartition("/")
        if folder == distribution:
            return base
    raise Refusal(
        f"no archive of {os} is known",
        facts={"seen": f"no source of {distribution} in apt's configuration of this machine", "wanted": "a mirror"},
        attempt='Mirrors(system=AptMirror(url="http://MIRROR", key_file="FILE")) on the hosts',
        state="no bundle was begun",
        kind="bundle-archive",
    )


def _archives_here() -> list[str]:
    if not shutil.which("apt-get"):
        return []
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return list(dict.fromkeys(done.stdout.splitlines()))


def united(needs: Iterable[Need]) -> Mapping[str, tuple[str, ...]]:
    """All requested packages, by OS."""
    packages = dict[str, set[str]]()
    for need in needs:
        packages.setdefault(need.os, set()).update(need.packages)
    return {os: tuple(sorted(names)) for os, names in packages.items()}


def _read_key(repository: Repository) -> bytes:
    """The key in its local file. Raises: a Refusal for a file that cannot be read."""
    try:
        key = local_path(repository.key_file).read_bytes()
    except OSError as error:
        raise Refusal(
            f"the signing key of {repository.url} cannot be read",
            facts={"seen": f"{repository.key_file}: {error.strerror}", "wanted": "the public key of the repository"},
            attempt=f"apt-get install {Path(repository.key_file).stem}; or Mirrors({repository.name}=AptMirror(…))",
            state=STATE,
            kind="bundle-key",
        ) from None
    return key


def _failed(os: str, seen: str, wanted: str) -> Refusal:
    return Refusal(
        f"apt cannot fetch the packages for {os}",
        facts={"seen": seen, "wanted": wanted},
        attempt="correct what apt reports (a mirror, a proxy, the plan), then type the same command again",
        state=STATE,
        kind="bundle-apt",
    )
