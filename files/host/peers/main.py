"""Gets a published directory from peers, then shares it with them for a bounded time.

    host peers prepare USER SETTINGS    as root: gives `folder`, with earlier partial files, to USER
    host peers receive SETTINGS         as USER: receives the peers' files, or writes the published directory's offer
    host peers publish SETTINGS         as root: publishes the verified files
    host peers give SETTINGS            as USER: shares the published directory with peers
    host peers forget SETTINGS          as root: removes the folder of a published directory

SETTINGS: {"target": …, "offer": {…} or null, "here": "address:port", "peers": {…}, "folder": …, …}. The unit
enginehouse-share@<model>.service runs the steps, with settings that a run writes into memory.

A host with the directory writes an offer beside it, which the run passes to the others: the digest of its torrent, and
size and sha256 of every file. A host with an offer and no directory asks the peers. A user who can write only to the
folder parses the peers' data. Root publishes only files with the offer's sha256, which it reads after that user lost
access; so peers, torrent and that user need not be trusted. Received data survives a kill.

`give` exits 3 if nothing is published: the peers did not deliver. Complete files from them are in `.NAME.partial`,
where the direct fetch resumes, which the run starts next. `receive` exits 1 if the disk has no room, which no other way
would help.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from host.peers import publishing
from host.peers.settings import Settings

NOT_DELIVERED = 3
ROOT_STEPS: dict[str, Callable[[Settings], object]] = {
    "publish": publishing.publish,
    "forget": publishing.forget,
}


def main(arguments: list[str]) -> int:
    """Returns 0 once the step is done, 64 without step and settings; the module's docstring has the other statuses."""
    if len(arguments) not in (2, 3) or (arguments[0] == "prepare") != (len(arguments) == 3):
        print("usage: host peers STEP SETTINGS, with a file of settings", file=sys.stderr)
        return 64
    step, settings = arguments[0], Settings.read(Path(arguments[-1]))
    if step not in ("receive", "give"):
        os.umask(0o022)  # the unit's umask is for the files of its user
    try:
        if step == "prepare":
            publishing.prepare(settings, arguments[1])
        elif step in ROOT_STEPS:
            ROOT_STEPS[step](settings)
        else:
            return with_peers(step, settings)
    except (OSError, ValueError) as problem:
        return _broken(settings, problem)
    return 0


def with_peers(step: str, settings: Settings) -> int:
    """Runs `receive` or `give`, which need libtorrent."""
    try:
        from host.peers import sharing
    except ImportError as missing:
        print(f"{settings.target.name}: {missing}; install python3-libtorrent", file=sys.stderr)
        return 0 if step == "receive" else NOT_DELIVERED
    if step == "give" and not settings.is_published:
        return NOT_DELIVERED
    try:
        sharing.receive(settings) if step == "receive" else sharing.give(settings)
    except sharing.NotDelivered as problem:
        print(f"{settings.target.name}: {problem}", file=sys.stderr)
    except sharing.Refused as problem:
        return _broken(settings, problem)
    return 0


def _broken(settings: Settings, problem: Exception) -> int:
    print(f"{settings.target.name}: {problem}", file=sys.stderr)
    print("  state  the received data is kept, and the next run resumes", file=sys.stderr)
    return 1
