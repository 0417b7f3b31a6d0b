"""The outer machine's sources of packages, for a machine of another release of Debian or of Ubuntu.

The reachable mirror comes from the outer machine's apt configuration at each use, and this repository never names it.
The module reads both of apt's formats, deb822 (`*.sources`) and one line per source.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from rehearsal.places import RehearsalRefused

CODENAMES = {"12": "bookworm", "13": "trixie", "22.04": "jammy", "24.04": "noble", "26.04": "resolute"}
"""Releases that a machine can be of. Debian's have one number, Ubuntu's two."""

UBUNTU_KEYRING = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
UBUNTU_SUITE = re.compile(r"^(jammy|noble|resolute)(-updates|-security)?$")
SUITE = re.compile(r"^(bullseye|bookworm|trixie|forky|stable|oldstable)(-updates|-security|/updates)?$")
# Settings without which the outer machine's own mirror may not answer, or its answers would be rejected.
HANDED_ON = re.compile(
    r"^Acquire::(Check-Valid-Until|Check-Date|Retries|ForceIPv4|https?::(Proxy|CAInfo|Verify-Peer|Verify-Host)\b)"
)


@dataclass(frozen=True)
class Source:
    """An apt source of binary packages; `signed_by` is a keyring path, a key in armour, or empty."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""
    is_trusted: bool = False
    """True if the source is used without a signature."""

    def to_deb822(self) -> str:
        """Returns the source as one paragraph of a `.sources` file."""
        lines = [
            "Types: deb",
            f"URIs: {' '.join(self.uris)}",
            f"Suites: {' '.join(self.suites)}",
            f"Components: {' '.join(self.components)}",
        ]
        lines += [f"Signed-By: {self.signed_by}"] if self.signed_by else []
        return "\n".join(lines + (["Trusted: yes"] if self.is_trusted else [])) + "\n"


def system(release: str) -> str:
    """The release as an inventory writes it: `debian-13`, `ubuntu-24.04`."""
    return f"ubuntu-{release}" if "." in release else f"debian-{release}"


def sources(release: str) -> list[Source]:
    """Sources for a machine of that release of Debian or Ubuntu; refuses like the functions for each."""
    return ubuntu_sources(release) if "." in release else debian_sources(release)


def ubuntu_sources(release: str) -> list[Source]:
    """Sources for a machine of that Ubuntu release, signed by the key of Ubuntu's archive.

    Refuses: when apt here names no Ubuntu archive and ENGINEHOUSE_UBUNTU_MIRROR is not set.
    """
    mirrors = [os.environ.get("ENGINEHOUSE_UBUNTU_MIRROR", "")]
    if not mirrors[0]:
        mirrors = [source.uris[0] for source in outer_sources() if any(map(UBUNTU_SUITE.match, source.suites))]
    if not mirrors:
        raise RehearsalRefused(
            "apt on this machine names no Ubuntu archive to make a machine from\n"
            "  found   no source with an Ubuntu suite under /etc/apt\n"
            "  try     ENGINEHOUSE_UBUNTU_MIRROR=<address of an Ubuntu archive you can reach>, then run again\n"
            "  state   no machine was made"
        )
    suites = tuple(f"{CODENAMES[release]}{pocket}" for pocket in ("", "-updates", "-security"))
    return [Source((mirrors[0],), suites, ("main", "restricted", "universe"), UBUNTU_KEYRING)]


def debian_sources(release: str) -> list[Source]:
    """Sources for a machine of that Debian release, from the same mirrors the outer machine uses.

    Refuses: when apt here names no Debian archive (an Ubuntu outer machine) and ENGINEHOUSE_DEBIAN_MIRROR is not set.
    """
    mirror = os.environ.get("ENGINEHOUSE_DEBIAN_MIRROR")
    sources = [Source((mirror,), ("stable",), ("main",))] if mirror else outer_sources()
    translated = [translation for source in sources if (translation := for_release(source, CODENAMES[release]))]
    if not translated:
        raise RehearsalRefused(
            "apt on this machine names no Debian archive to make a machine from\n"
            "  found   no source with a Debian suite under /etc/apt\n"
            "  try     ENGINEHOUSE_DEBIAN_MIRROR=<address of a Debian archive you can reach>, then run again\n"
            "  state   no machine was made"
        )
    return translated


def outer_sources(etc_apt: Path = Path("/etc/apt")) -> list[Source]:
    """Returns every enabled source of binary packages that apt on the outer machine reads."""
    lists = [etc_apt / "sources.list", *sorted((etc_apt / "sources.list.d").glob("*.list"))]
    one_line = [source for path in lists if path.is_file() for source in parse_one_line(path.read_text())]
    paragraphs = sorted((etc_apt / "sources.list.d").glob("*.sources"))
    return one_line + [source for path in paragraphs for source in parse_deb822(path.read_text())]


def for_release(source: Source, codename: str) -> Source | None:
    """Returns the same mirror for another Debian release; None for a source that is not the Debian archive."""
    suites = [match for suite in source.suites if (match := SUITE.match(suite))]
    if not suites:
        return None
    # "/updates" is how security was spelled before Debian 11.
    wanted = [codename + (match[2] or "").replace("/updates", "-security") for match in suites]
    kept = tuple(part for part in source.components if part in {"main", "contrib", "non-free", "non-free-firmware"})
    return replace(source, suites=tuple(dict.fromkeys(wanted)), components=kept or ("main",))


def parse_one_line(text: str) -> list[Source]:
    """Parses a `sources.list`, `deb [options] URI suite component…` one per line."""
    sources = []
    for line in text.splitlines():
        match = re.match(r"^\s*deb\s+(?:\[(?P<options>[^\]]*)\]\s*)?(?P<rest>[^#]+)", line)
        if match and len(words := match["rest"].split()) >= 2:
            signed = re.search(r"signed-by=(\S+)", match["options"] or "")
            sources.append(Source((words[0],), (words[1],), tuple(words[2:]), signed[1] if signed else ""))
    return sources


def parse_deb822(text: str) -> list[Source]:
    """Parses a `.sources` file without disabled and pure `deb-src` paragraphs."""
    sources = []
    for paragraph in re.split(r"\n\s*\n", text):
        fields = _fields(paragraph)
        wanted = "deb" in fields.get("types", "").split() and fields.get("enabled", "yes").lower() != "no"
        if wanted and "uris" in fields and "suites" in fields:
            uris, suites, components = (tuple(fields.get(key, "").split()) for key in ("uris", "suites", "components"))
            sources.append(Source(uris, suites, components, fields.get("signed-by", "")))
    return sources


def _fields(paragraph: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    key = ""
    for line in paragraph.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace() and key:
            fields[key] += "\n" + line
        elif ":" in line:
            name, value = line.split(":", 1)
            key = name.strip().lower()
            fields[key] = value.strip()
    return fields


def handed_on_settings() -> str:
    """Returns the outer machine's apt.conf lines that the machines need too (proxy, dates, certificates)."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    lines = [line for line in dump.splitlines() if HANDED_ON.match(line) and not line.endswith('"";')]
    for scheme in ("http", "https"):
        if proxy := os.environ.get(f"{scheme}_proxy"):
            lines.append(f'Acquire::{scheme}::Proxy "{proxy}";')
    return "".join(f"{line}\n" for line in lines)
