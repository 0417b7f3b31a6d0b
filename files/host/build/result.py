"""The end of a build: published as a whole by one rename, or failed with its log and the reason kept."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import sys
from pathlib import Path
from typing import Any

from host import engine
from host.build import causes, container
from host.disk import flush, sha256

KEPT = ("build.log", "answers.jsonl", "reference.jsonl")
STATE = "no serving program was changed, and nothing was published"
DIGESTS = "{{range .RepoDigests}}{{println .}}{{end}}{{.Id}}"


class Stopped(Exception):
    """Ends the build. `cause` may have aligned rows; `log` is the step's last output."""

    def __init__(self, stage: str, cause: str, remedy: str = "", exit_status: int = 0, log: str = "") -> None:
        super().__init__(cause)
        self.stage, self.cause, self.remedy, self.exit_status = stage, cause, remedy, exit_status
        self.log = causes.last_lines(log)


def publish(settings: dict[str, Any], staging: Path, built: dict[str, Any]) -> None:
    """Moves the engine to its path, durably, with its log, its answers and engine.json."""
    made, target = staging / "engine", Path(settings["path"])
    files = sorted(path for path in made.rglob("*") if not engine.is_directory(path))
    record = {key: settings[key] for key in ("fingerprint", "fields", "model", "name")}
    record["built"] = built | {"host": socket.gethostname(), "image_digest": image_digest(settings["image"])}
    record["files"] = {str(path.relative_to(made)): measured(path) for path in files}
    for name in KEPT:
        if (staging / name).exists():
            (staging / name).rename(made / name)
    (made / engine.RECORD).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")
    for path in [made, *made.rglob("*")]:
        os.chown(path, 0, 0, follow_symlinks=False)
        path.chmod(0o755 if path.is_dir() else 0o644)
        flush(path, follow=False)
    made.rename(target)
    flush(target.parent)
    shutil.rmtree(staging)


def image_digest(image: str) -> str:
    """The image's pinned digest, or the registry's; for a local image its own id."""
    if pinned := image.partition("@")[2]:
        return pinned
    _, output = container.quietly(["docker", "image", "inspect", "--format", DIGESTS, image])
    digests = [line.rpartition("@")[2] for line in output.split()]
    return (digests or [""])[0]


def measured(path: Path) -> dict[str, Any]:
    """Size and checksum for engine.json. Raises Stopped for anything but a plain file."""
    require_plain_file(path)
    return {"bytes": path.stat().st_size, "sha256": sha256(path)}


def require_plain_file(path: Path) -> None:
    """Raises: Stopped for anything but a plain file: the container could have made a link for root to follow."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise Stopped("publish", f"{path} is not a plain file", "check the programs in this build's container")


def keep_failure(settings: dict[str, Any], stopped: Stopped) -> None:
    """Keeps the log and the reason, prints the reason, and removes the staging directory."""
    staging, failed = Path(settings["staging"]), Path(f"{settings['path']}.failed")
    rows = [("try", stopped.remedy), ("log", str(failed / "build.log")), ("state", STATE)]
    text = "\n".join(f"  {name:<6}  {value}" for name, value in rows if value)
    last_lines = "".join(f"\n  | {line}" for line in stopped.log)
    print(f"{settings['name']}: {stopped.stage}: {stopped.cause}\n{text}{last_lines}", file=sys.stderr)
    why = {"stage": stopped.stage, "exit": stopped.exit_status, "cause": stopped.cause, "remedy": stopped.remedy}
    with contextlib.suppress(OSError):  # the disk may be full; the journal has the same text
        failed.mkdir(parents=True, exist_ok=True)
        (failed / "build.log").unlink(missing_ok=True)
        if (staging / "build.log").exists():
            (staging / "build.log").rename(failed / "build.log")
        shutil.rmtree(staging, ignore_errors=True)
        (failed / "why.json").write_text(json.dumps(why | {"log": stopped.log}, indent=2) + "\n")
    shutil.rmtree(staging, ignore_errors=True)


def duration(seconds: float) -> str:
    """A duration such as `4 min 10 s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
