"""The few settings of the outer kernel that machines need, raised while any rehearsal is up and then put back.

They belong to the outer machine and not to one rehearsal, so what was found is kept outside every state directory.
"""

from __future__ import annotations

import json
from pathlib import Path

FOUND = Path("/run/rehearsal-kernel-settings.json")
WANTED = {
    Path("/proc/sys/net/ipv4/ip_forward"): 1,
    # All machines are one user to the kernel, and 7 idle ones hold 79 of the usual 128 (counted); Docker and logins
    # take more. systemd cannot start without one; a machine started beside 7 others once hung before it had a network.
    Path("/proc/sys/fs/inotify/max_user_instances"): 2048,
}


def raise_all() -> None:
    """Every setting is at least what machines need; what was found before the first rehearsal is remembered."""
    present = {str(path): int(path.read_text()) for path in WANTED}
    if not FOUND.exists():
        FOUND.write_text(json.dumps(present))
    for path, value in WANTED.items():
        if present[str(path)] < value:
            path.write_text(f"{value}\n")


def put_back() -> None:
    """The settings are as they were found; nothing remembered is fine, and so is another rehearsal that is quicker."""
    try:
        remembered = json.loads(FOUND.read_text())
    except FileNotFoundError:
        return
    for path, value in remembered.items():
        Path(path).write_text(f"{value}\n")
    FOUND.unlink(missing_ok=True)
