"""Takes out of npm's lock what no installation reads: addresses of donations, and remarks of their makers."""

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
