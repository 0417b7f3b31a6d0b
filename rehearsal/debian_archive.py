"""Packages of any release of Debian or Ubuntu, fetched from the sources of the outer machine's own apt.

It uses a private apt state (own lists, own cache), which leaves the outer machine's configuration unchanged.
rehearsal/apt_sources.py finds the mirror.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from rehearsal import apt_sources


def download(
    release: str, packages: list[str], into: Path, state: Path, sources: list[apt_sources.Source] | None = None
) -> list[Path]:
    """The .deb files of `packages` from that release ("12", "24.04"), in `into`; `state` is apt's private state for
    this use.

    `sources` replaces the release's own.
    """
    surroundings = {**os.environ, "APT_CONFIG": str(_private_apt(sources or apt_sources.sources(release), state))}
    for command in (["update"], ["download", *packages]):
        subprocess.run(["apt-get", "-qq", *command], cwd=into, check=True, env=surroundings, stdout=subprocess.DEVNULL)
    return sorted(into.glob("*.deb"))


def download_missing(release: str, packages: Sequence[str], root: Path, into: Path, state: Path) -> list[Path]:
    """The .deb files that installing `packages` in the root file system at `root` would fetch, in `into`."""
    configuration = _private_apt(apt_sources.sources(release), state, root / "var/lib/dpkg/status")
    surroundings = {**os.environ, "APT_CONFIG": str(configuration)}
    install = ["install", "--yes", "--download-only", "--no-install-recommends", *packages]
    for command in (["update"], install):
        subprocess.run(["apt-get", "-qq", *command], check=True, env=surroundings, stdout=subprocess.DEVNULL)
    for deb in sorted((state / "cache/archives").glob("*.deb")):
        shutil.copy(deb, into)
    return sorted(into.glob("*.deb"))


def _private_apt(sources: list[apt_sources.Source], state: Path, status: Path = Path("/dev/null")) -> Path:
    for folder in ("lists/partial", "cache/archives/partial", "parts"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "parts/release.sources").write_text("\n".join(source.to_deb822() for source in sources))
    settings = {
        "Dir::State::lists": state / "lists", "Dir::State::status": status, "Dir::Cache": state / "cache",
        "Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": state / "parts",
        "Dir::Etc::preferences": "/dev/null", "Dir::Etc::preferencesparts": state / "parts",
        "APT::Sandbox::User": "root", "APT::Architecture": "amd64", "Acquire::Languages": "none",
    }  # fmt: skip
    lines = [f'{key} "{value}";\n' for key, value in settings.items()]
    # apt would read the outer machine's files after APT_CONFIG, and they would win, so apt reads none of them.
    lines.append(f'Dir::Etc::parts "{state / "parts"}";\nDir::Etc::main "/dev/null";\n#clear APT::Architectures;\n')
    (state / "apt.conf").write_text("".join(lines) + 'APT::Architectures "amd64";\n' + apt_sources.handed_on_settings())
    return state / "apt.conf"
