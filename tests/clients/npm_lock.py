"""Removes from npm's lock the fields that no installation reads: funding addresses and maintainers' remarks."""

from __future__ import annotations

import json
from pathlib import Path

LOCK = Path(__file__).parents[2] / "locks" / "clients-npm" / "package-lock.json"
UNREAD = ("deprecated", "funding", "resolved")

if __name__ == "__main__":
    lock = json.loads(LOCK.read_text("utf-8"))
    for package in lock["packages"].values():
        for name in UNREAD:
            package.pop(name, None)
    LOCK.write_text(json.dumps(lock, indent=1, ensure_ascii=False) + "\n", "utf-8")
