"""The Python programs of a host, files/host, published whole in a separate directory behind a link that is replaced.

    /usr/local/lib/enginehouse/host -> versions/DIGEST/host

Every unit and command uses the link (`places.command`). So a starting unit always finds one whole version, even after a
power cut, and a running program keeps its version. The previous version is kept until the next publication, for
programs that are just starting; a version in use is kept longer.
"""

import base64
import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pyinfra.api import FactBase
from pyinfra.api.command import StringCommand
from pyinfra.api.operation import OperationMeta

from roles._pyinfra.steps import CachedFact, Command, step
from roles._shipping.places import PROGRAMS
from roles._shipping.tar import tarred
from roles._shipping.texts import HERE

SOURCE = HERE / "files" / "host"
LINK = f"{PROGRAMS}/host"
VERSIONS = f"{PROGRAMS}/versions"
SENT_WITHIN_SECONDS = 120
"""Seconds for sending: a connection that breaks while the tar is sent can leave the tar's reader waiting for hours, and
each later run waiting behind that reader."""
UNCOUNTED = "-name __pycache__ -prune -o"
"""Pattern of byte code that Python left when a person started a program without `-B`; not part of the digest."""


class Version(FactBase[str]):
    """The digest of the installed programs, including modes and owners; empty on a host without them."""

    default = str

    def command(self) -> str:
        return digest_command(LINK)

    def process(self, output: list[str]) -> str:
        return next(iter(output[0].split()), "") if output else ""


def digest_command(folder: str) -> str:
    return (
        f"cd {folder}/ 2>/dev/null && {{ find . {UNCOUNTED} -type f -print | LC_ALL=C sort | xargs sha256sum;"
        f" find . {UNCOUNTED} \\( ! -user root -o ! -type d ! -perm 644 -o -type d ! -perm 755 \\) -print; }}"
        " | sha256sum; true"
    )


def installed() -> OperationMeta:
    """Installs this repository's version of the programs and switches the link to it."""

    def decide(version: str) -> Iterator[Command]:
        if version != shipped_version():
            yield publication()

    return step(CachedFact(Version), decide, name="Programs | Publish the programs of the host")


def sources(folder: Path = SOURCE) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.py"))}


@cache
def shipped_version() -> str:
    return digest(sources())


def digest(files: dict[str, bytes]) -> str:
    """The digest that `Version` reads on a host with exactly these files, owned by root, in the modes of the tar."""
    names = sorted((f"./{name}" for name in files), key=os.fsencode)
    sums = [f"{hashlib.sha256(files[name[2:]]).hexdigest()}  {name}\n" for name in names]
    return hashlib.sha256("".join(sums).encode()).hexdigest()


def publication() -> StringCommand:
    """The command that publishes the programs from a tar on standard input."""
    files = sources()
    sent = tarred({f"host/{path}": content for path, content in files.items()})
    return StringCommand(publishing(digest(files)), _stdin=base64.encodebytes(sent).decode())


def publishing(version: str) -> str:
    """The shell command that publishes a version from the tar on its standard input.

    Every file is synced to disk before the link points to it. The current version is never modified: if it was changed
    by hand, the same version gets a second name. Unused versions are removed before the link changes, so that a killed
    run leaves the same state as a complete one, since the next run may find nothing to do. Only one run publishes at a
    time.
    """
    return (
        f"set -e; umask 022; mkdir -p {VERSIONS}; cd {PROGRAMS}; exec 9<versions; flock 9;"
        " before=$(readlink host || true);"
        # A running program holds this lock on its version (files/host/__main__.py).
        ' for old in versions/*; do [ ! -d "$old" ] || [ "$old/host" = "$before" ]'
        ' || flock -n "$old/host" rm -rf "$old" || true; done;'
        " rm -rf versions/.new; mkdir versions/.new;"
        f" timeout --foreground {SENT_WITHIN_SECONDS} base64 -d | tar -xz --no-same-owner -C versions/.new;"
        " test -f versions/.new/host/__main__.py; chown -R root:root versions/.new;"
        " chmod -R u=rwX,go=rX,g-s versions/.new; find versions/.new -exec sync {} +;"
        f" new=versions/{version[:16]}; count=1;"
        f" while [ -e $new ]; do count=$((count + 1)); new=versions/{version[:16]}.$count; done;"
        " mv -T versions/.new $new; sync versions; ln -sfn $new/host .host.new; mv -T .host.new host; sync ."
    )
