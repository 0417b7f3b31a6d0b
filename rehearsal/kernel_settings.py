"""The few kernel settings of the outer machine that machines need, raised while a rehearsal is up and then restored.

They belong to the outer machine, not to one rehearsal, so the original values are kept outside every state directory.
"""

from __future__ import annotations

import json
from pathlib import Path

FOUND = Path("/run/rehearsal-kernel-settings.json")
WANTED = {
    Path("/proc/sys/net/ipv4/ip_forward"): 1,
    # To the kernel, all machines belong to one user: 7 idle ones hold 79 of the default 128 instances (counted), Docker
    # and logins take more. systemd cannot start without one, and a machine started beside 7 others once hung before it
    # had a network.
    Path("/proc/sys/fs/inotify/max_user_instances"): 2048,
}


def raise_all() -> None:
    """Raises every setting to at least the machines' need; saves the original values before the first rehearsal."""
    present = {str(path): int(path.read_text()) for path in WANTED}
    if not FOUND.exists():
        FOUND.write_text(json.dumps(present))
    for path, value in WANTED.items():
        if present[str(path)] < value:
            path.write_text(f"{value}\n")


def put_back() -> None:
    """Restores the original settings; tolerates absent saved values and another rehearsal that restores them first."""
    try:
        remembered = json.loads(FOUND.read_text())
    except FileNotFoundError:
        return
    for path, value in remembered.items():
        Path(path).write_text(f"{value}\n")
    FOUND.unlink(missing_ok=True)
