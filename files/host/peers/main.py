"""Gets a published directory from other hosts of the plan, then gives it to them, for a bounded time.

    host peers prepare USER SETTINGS    as root: `folder` is USER's, and what an earlier version received is in it
    host peers receive SETTINGS         as USER: the peers' files are in it, or the offer of the published directory
    host peers publish SETTINGS         as root: what verifies is published
    host peers give SETTINGS            as USER: it is given to the others
    host peers forget SETTINGS          as root: the folder of a published directory is gone

SETTINGS: {"target": …, "offer": {…} or null, "here": "address:port", "peers": {…}, "folder": …, …}. The unit
enginehouse-share@<model>.service runs the steps, with settings that a run writes into memory.

Who has the directory already writes an offer beside it, which the run carries to the others: the digest of its torrent,
and size and sha256 of every file. Who has an offer and no directory asks the peers. What the peers send is parsed by a
user who can write into the folder alone. Root publishes nothing before every file has the offer's sha256, read after
that user lost the files; so neither peers, nor torrent, nor that user are believed in anything. What was received is
kept over a kill.

`give` exits 3 if nothing is published: the peers did not deliver. What they sent whole lies where the direct way
goes on (`.NAME.partial`), which the run starts next. `receive` exits 1 if its disk cannot take it, and no other way
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
    """0 once the step is done; see above for what else. 64 without a step and settings."""
    if len(arguments) not in (2, 3) or (arguments[0] == "prepare") != (len(arguments) == 3):
        print("a step and a file of settings are wanted: host peers STEP SETTINGS", file=sys.stderr)
        return 64
    step, settings = arguments[0], Settings.read(Path(arguments[-1]))
    if step not in ("receive", "give"):
        os.umask(0o022)  # the unit's is for its user's files
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
    """`receive` and `give`, which need libtorrent."""
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
    print("  state  what was received is kept and continued next time", file=sys.stderr)
    return 1
