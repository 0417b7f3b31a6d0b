#!/usr/bin/python3
"""Removes engines nobody will ask for: run by the role engines after a new one came.

    prune_engines.py KEEP PATH…     PATH: engines the plan names; KEEP: how many others of each model are left

Never removed: what the current and the previous release of any server load. What was left aside of an engine that is
there again (.failed, .refused, a cut transfer) goes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(os.environ.get("ENGINEHOUSE_ROOT", "/var/lib/enginehouse"))
FINGERPRINT = re.compile(r"^[0-9a-f]{16}$")
ASIDE = re.compile(r"^\.?([0-9a-f]{16})\.(?:failed|refused|incoming)$")


def main() -> int:
    keep, planned = int(sys.argv[1]), {Path(each) for each in sys.argv[2:]}
    protected = planned | loaded()
    for model in sorted(path for path in (ROOT / "engines").glob("*") if path.is_dir()):
        for engine in removable(model, protected, keep):
            remove(engine)
    return 0


def loaded() -> set[Path]:
    """Engines that the current and the previous release of every server load."""
    found = set()
    for told in [*ROOT.glob("servers/*/current/server.json"), *ROOT.glob("servers/*/previous/server.json")]:
        found |= {Path(each["path"]) for each in json.loads(told.read_text()).get("engines", [])}
    return found


def removable(model: Path, protected: set[Path], keep: int) -> list[Path]:
    """A model's engines beyond the newest `keep` unprotected ones, and leftovers of engines that are there again."""
    engines = [path for path in model.iterdir() if FINGERPRINT.match(path.name)]
    others = sorted((path for path in engines if path not in protected), key=lambda path: -path.stat().st_mtime)
    aside = [path for path in model.iterdir() if (found := ASIDE.match(path.name)) and model / found[1] in engines]
    return [*others[keep:], *aside]


def remove(path: Path) -> None:
    """Renamed first, so that no one finds half an engine where a whole one was."""
    gone = path.with_name(f".{path.name.strip('.')}.removing")
    path.rename(gone)
    shutil.rmtree(gone)
    print(f"removed {path}")


if __name__ == "__main__":
    sys.exit(main())
