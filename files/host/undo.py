"""The dead man's switch of a host: a change that may lock us out is reverted unless a new login confirms the change.

    host undo save NAME [--after COMMAND]… PATH…   saves the content of the paths (a missing path counts too)
    host undo watch [--making] NAME SECONDS        reverts the change after this time; exit 1 if already reverted
    host undo confirm NAME                         keeps the change; exit 1 if the change was reverted before, or is
                                                 not in force yet (its last `watch` had `--making`)
    host undo back NAME [WHY]                      reverts now, runs each COMMAND, and writes NAME.taken-back.json
    host undo boot                                 as `back`, for every change unconfirmed when the host went down

The saved content is on the root file system, so a power cut between change and confirmation counts as no confirmation.
If a change is saved twice, the older copy stays: it is the last state that is known to let us in.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from host.disk import flush, write
from host.systemd import systemctl

KEPT = Path(os.environ.get("ENGINEHOUSE_UNDO", "/etc/enginehouse/undo"))
MAKING = "making"
COMMAND_SECONDS = 120


def main(arguments: list[str]) -> int:
    """0 if it is done; 1 if there was nothing to confirm or to watch."""
    words = _words(arguments)
    KEPT.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (KEPT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if words.verb == "save":
            save(words.name, words.paths, words.after or [])
        elif words.verb == "watch":
            return watch(words.name, words.seconds, words.making)
        elif words.verb == "confirm":
            return confirm(words.name)
        elif words.verb == "back":
            back(words.name, words.why)
        else:
            for name in sorted(path.parent.name for path in KEPT.glob("*/kept.json")):
                back(name, "the host went down before the change was confirmed", run=False)
    return 0


def _words(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="undo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    saving = verbs.add_parser("save")
    saving.add_argument("name")
    saving.add_argument("--after", action="append")
    saving.add_argument("paths", nargs="+", type=Path)
    watching = verbs.add_parser("watch")
    watching.add_argument("name")
    watching.add_argument("seconds", type=int)
    watching.add_argument("--making", action="store_true")
    verbs.add_parser("confirm").add_argument("name")
    taking = verbs.add_parser("back")
    taking.add_argument("name")
    taking.add_argument("why", nargs="?", default="no new connection confirmed the change in time")
    verbs.add_parser("boot")
    return parser.parse_args(arguments)


def save(name: str, paths: list[Path], after: list[str]) -> None:
    """Saves the content of the paths, completely or not at all; `after` are run once it has been restored."""
    (KEPT / f"{name}.taken-back.json").unlink(missing_ok=True)
    if (KEPT / name).is_dir():
        return
    new = KEPT / f".{name}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    files: dict[str, dict[str, int | str] | None] = {}
    for number, path in enumerate(paths):
        files[str(path)] = _keep(path, new / str(number)) if path.is_file() else None
    write(new / "kept.json", json.dumps({"files": files, "after": after}, indent=2).encode() + b"\n")
    new.rename(KEPT / name)
    flush(KEPT)


def _keep(path: Path, copy: Path) -> dict[str, int | str]:
    write(copy, path.read_bytes())
    status = path.stat()
    return {"copy": copy.name, "mode": status.st_mode & 0o7777, "owner": status.st_uid, "group": status.st_gid}


def watch(name: str, seconds: int, making: bool) -> int:
    """Starts the timer, or restarts a running one. A change without a timer is reverted at once."""
    if not (KEPT / name).is_dir():
        print(f"{name}: the change took too long and was reverted; run again", file=sys.stderr)
        return 1
    (KEPT / name / MAKING).touch() if making else (KEPT / name / MAKING).unlink(missing_ok=True)
    unit = f"enginehouse-undo-{name}"
    systemctl("stop", f"{unit}.timer")
    host = os.path.abspath(sys.argv[0])  # the link, not the version behind it
    command = ["/usr/bin/python3", "-B", host, "undo", "back", name]
    timer = ["--quiet", "--collect", f"--unit={unit}", f"--on-active={seconds}", "--timer-property=AccuracySec=100ms"]
    started = subprocess.run(["systemd-run", *timer, *command], check=False)
    if started.returncode == 0:
        return 0
    back(name, "systemd-run started no timer to watch it")
    print(f"{name}: systemd-run started no timer, so the change was reverted; journalctl -b says why", file=sys.stderr)
    return 1


def confirm(name: str) -> int:
    """0 after confirming the change; 1 if it was reverted before, or is not in force yet, so a login proves nothing."""
    if not (KEPT / name).is_dir():
        print(f"{name}: there is nothing to confirm: the change was reverted, or never watched", file=sys.stderr)
        return 1
    if (KEPT / name / MAKING).exists():
        print(f"{name}: the change is still being made, so it cannot be confirmed yet", file=sys.stderr)
        return 1
    systemctl("stop", f"enginehouse-undo-{name}.timer")
    shutil.rmtree(KEPT / name)
    flush(KEPT)
    return 0


def back(name: str, why: str, run: bool = True) -> None:
    """Puts every path's earlier content back, runs the commands, and writes a record."""
    place = KEPT / name
    if not (place / "kept.json").exists():
        return
    kept = json.loads((place / "kept.json").read_text())
    for path, state in kept["files"].items():
        _put_back(Path(path), state, place)
    if any(path.startswith("/etc/systemd/system/") for path in kept["files"]):
        systemctl("daemon-reload")
    complaints = [_run(command) for command in kept["after"]] if run else []
    record = {"why": why, "when": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), "paths": list(kept["files"])}
    record |= {"said": [line for line in complaints if line]}
    write(KEPT / f"{name}.taken-back.json", json.dumps(record).encode() + b"\n")
    print(f"{name}: {why}; reverted: {', '.join(kept['files'])}")
    shutil.rmtree(place)
    flush(KEPT)


def _put_back(path: Path, state: dict[str, Any] | None, place: Path) -> None:
    """Restores the path to `state`, on the disk; removes it if it did not exist."""
    if state is None:
        path.unlink(missing_ok=True)
        return
    new = path.with_name(f"{path.name}.enginehouse-undo")
    write(new, (place / str(state["copy"])).read_bytes())
    os.chmod(new, int(state["mode"]))
    os.chown(new, int(state["owner"]), int(state["group"]))
    new.rename(path)
    flush(path.parent)


def _run(command: str) -> str:
    """Runs one rollback command and returns its output if it failed. A failure does not stop the others."""
    try:
        ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        return f"{command}: still running after {COMMAND_SECONDS} s"
    return "" if ended.returncode == 0 else f"{command}: {ended.stderr.strip() or ended.returncode}"
