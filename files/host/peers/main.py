"""Gets a published directory from other hosts of the plan, then gives it to them, for a bounded time.

    host peers SETTINGS    {"target": …, "offer": {…} or null, "here": "address:port", "peers": {…}, …}

The unit enginehouse-share@<model>.service runs it, with settings that a run writes into memory.

Who has the directory already writes an offer beside it, which the run carries to the others: the digest of its torrent,
and size and sha256 of every file. Who has an offer and no directory asks the peers. Nothing is published before every
file has the offer's sha256; so peers and torrent are believed in nothing. What was received is kept over a kill.

Exit 3: the peers did not deliver. What they sent whole lies where the direct way goes on (`.NAME.partial`), which the
run starts next. Exit 1: its disk cannot take it, and no other way would help.
"""

from __future__ import annotations

import sys
from pathlib import Path

from host.peers.settings import Settings

NOT_DELIVERED = 3


def main(arguments: list[str]) -> int:
    """0 once it is published and was given to the others; see above for what else. 64 without settings."""
    if len(arguments) != 1:
        print("one file of settings is wanted: host peers SETTINGS", file=sys.stderr)
        return 64
    settings = Settings.read(Path(arguments[0]))
    try:
        from host.peers import sharing
    except ImportError as missing:
        print(f"{settings.target.name}: {missing}; python3-libtorrent brings it", file=sys.stderr)
        return NOT_DELIVERED
    try:
        sharing.share(settings)
    except sharing.NotDelivered as problem:
        kept = sharing.keep_whole(settings)
        print(f"{settings.target.name}: {problem}", file=sys.stderr)
        print(f"  state  not published; {kept} whole files are kept for the direct way", file=sys.stderr)
        return NOT_DELIVERED
    except (sharing.Refused, OSError) as problem:
        print(f"{settings.target.name}: {problem}", file=sys.stderr)
        print("  state  what was received is kept and continued next time", file=sys.stderr)
        return 1
    return 0
