"""Removes files that no server of this host will need; the role cleanup runs it at the end of a deploy.

    host clean-up list KEPT      prints a line for each item that would be removed, and changes nothing
    host clean-up remove KEPT    prints the same lines, and removes the items

KEPT is JSON: {"weights": […], "engines": […], "images": […]} of the plan, and "keep": the number of others to keep of
each kind, the newest first. Files of the current or the previous release of any server are always kept. While a server
does not serve, or after an interrupted swap, everything is kept, because a repair may need it. Files of the last six
hours are kept too, and the files of releases of the last six hours: another run may have brought them for a later swap.
The swap itself limits the number of releases (triton_settings keep_releases); this program removes only caches of
removed releases, and directories that are no longer releases.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host import disk, places
from host.superseded_programs import superseded
from host.systemd import active_states

MOUNTED = re.compile(r"source=([^,\s]+),")
ASIDE = re.compile(r"^[0-9a-f]{16}\.(failed|refused)$")
GIVEN_UP_SECONDS = 7 * 24 * 3600
"""Seconds after which an unplanned file's transfer counts as abandoned; a planned transfer continues within days."""
FRESH_SECONDS = 6 * 3600
"""Seconds for which a new file is kept: hours pass from a pull or an engine's arrival to its swap, because others
build and waves wait."""
ENGINE = re.compile(r"^[0-9a-f]{16}$")


@dataclass(frozen=True)
class Spare:
    """An item to remove, with the reason and the function for it."""

    what: str
    why: str
    remove: Callable[[], object]


def main(arguments: list[str]) -> int:
    """0 after listing the removable files, and with `remove` removing them."""
    verb, kept = arguments[0], json.loads(arguments[1])
    with alone() if verb == "remove" else contextlib.nullcontext():
        if unsettled():
            return 0
        for spare in spares(kept):
            print(f"{spare.what}: {spare.why}", flush=True)
            if verb == "remove":
                spare.remove()
    return 0


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """A lock against other runs: a second one waits, and then examines the remaining files."""
    handle = os.open(places.ROOT, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def unsettled() -> bool:
    """True if a server with a release does not serve it, or is being changed."""
    for place in places.ROOT.glob("servers/*"):
        units = [f"triton@{place.name}.service", f"enginehouse-swap@{place.name}.service"]
        if (place / "current" / "llm" / "run").exists() and active_states(f"llm@{place.name}.service")[0] != "active":
            return True
        if (place / "current").is_symlink() and (
            (place / "swap.json").exists() or active_states(*units)[0] != "active"
        ):
            return True
        if active_states(*units)[1] not in ("inactive", "failed", "unknown"):
            return True
    return False


def spares(kept: dict[str, Any]) -> Iterator[Spare]:
    """Every item that may be removed."""
    keep, used = kept["keep"], releases_that_served() | releases_that_may_serve()
    mounted = {path for release in used for path in mounts(release)}
    yield from left_behind()
    yield from programs()
    yield from directories("weights", {*kept["weights"], *mounted}, keep["weights"], lambda name: name[:1] != ".")
    yield from directories("engines", {*kept["engines"], *mounted}, keep["engines"], ENGINE.match)
    yield from directories("engines", set(), keep["failed"], ASIDE.match)
    of_releases = {image for release in used for image in images_of(release)}
    yield from images({*kept["images"], *of_releases}, keep["images"])


def releases_that_served() -> set[Path]:
    """The releases behind `current` and `previous` of every server."""
    links = [*places.ROOT.glob("servers/*/current"), *places.ROOT.glob("servers/*/previous")]
    return {link.resolve() for link in links if link.exists()}


def releases_that_may_serve() -> set[Path]:
    """The releases that were requested or published within six hours, whose swap may still come."""
    releases = {path.parent for path in places.ROOT.glob("releases/[!.]*/server.json") if fresh(path.parent)}
    for wanted in filter(fresh, places.ROOT.glob("servers/*/wanted.json")):
        release = places.ROOT / "releases" / json.loads(wanted.read_text())["release"]
        releases |= {release} if (release / "server.json").exists() else set()
    return {path.resolve() for path in releases}


def mounts(release: Path) -> set[str]:
    """Directories of the host that a release's containers read."""
    lines = [release / "run", release / "llm" / "run"]
    return {path for line in lines if line.exists() for path in MOUNTED.findall(line.read_text())}


def images_of(release: Path) -> set[str]:
    """The images of a release: Triton's, and that of an LLM beside it."""
    server = json.loads((release / "server.json").read_text())
    return {str(server["image"]["pull_reference"]), *([str(server["llm"]["image"])] if "llm" in server else [])}


def left_behind() -> Iterator[Spare]:
    """Remains of interrupted removals, caches of removed releases, and files of transfers of received engines."""
    for path in sorted(path for depth in ("", "*/", "*/*/") for path in places.ROOT.glob(f"{depth}.*.removing")):
        yield Spare(str(path), "an interrupted removal left it", functools.partial(forgotten, path))
    for path in sorted(places.ROOT.glob("engines/*/.*.incoming")):
        if path.with_name(path.name.strip(".").removesuffix(".incoming")).is_dir() and not arrived_lately(path):
            yield directory(path, "the engine is there")
    for path in sorted(
        [
            *places.ROOT.glob("releases/.*.partial"),
            *places.ROOT.glob("weights/*/.*.partial"),
            *places.ROOT.glob("blobs/.*.partial"),
        ]
    ):
        if time.time() - last_written(path) > GIVEN_UP_SECONDS:
            yield directory(path, "its transfer broke off, and was not continued for a week")
    linked = releases_that_served()
    for path in sorted(path for path in places.ROOT.glob("releases/[!.]*") if path.is_dir()):
        if not (path / "server.json").exists() and path.resolve() not in linked and not fresh(path):
            yield directory(path, "a partial release, whose removal was interrupted")
    for path in sorted(places.ROOT.glob("cache/[!.]*")):
        if not (places.ROOT / "releases" / path.name.removesuffix(".llm")).exists():
            yield directory(path, "its release is gone")


def programs() -> Iterator[Spare]:
    for path in superseded():
        yield Spare(str(path), "a program of an earlier version that no unit starts", path.unlink)


def directories(kind: str, used: set[str], keep: int, counts: Callable[[str], object]) -> Iterator[Spare]:
    """Unused directories of each model, except for the newest."""
    is_new = arrived_lately if kind == "engines" else fresh
    for model in sorted(path for path in places.ROOT.glob(f"{kind}/*") if path.is_dir()):
        idle = [path for path in model.iterdir() if path.is_dir() and str(path) not in used and counts(path.name)]
        for path in newest_first(idle)[keep:]:
            if not is_new(path):
                why = f"no planned, current or previous release uses it, and {keep} newer ones are kept"
                yield directory(path, why)


def images(used: set[str], keep: int) -> Iterator[Spare]:
    """Images that this project pulled and no release uses; an image of any container is kept."""
    idle = []
    for record in places.ROOT.glob("images/*.json"):
        reference = json.loads(record.read_text())["reference"]
        if reference not in used and not docker("ps", "--all", "--quiet", "--filter", f"ancestor={reference}"):
            idle.append(record)
    for record in newest_first(idle)[keep:]:
        reference = json.loads(record.read_text())["reference"]
        if fresh(record) or active_states(f"enginehouse-pull@{record.stem}.service")[0] == "activating":
            continue
        yield Spare(f"image {reference}", "no planned, current or previous release uses it", forget(record, reference))


def forget(record: Path, reference: str) -> Callable[[], None]:
    """A function that removes an image, the blobs that no other record names, its record and its pull's settings."""

    def remove() -> None:
        docker("image", "rm", reference)
        blobs = blobs_of(record)
        if blobs and blobs not in map(blobs_of, set(record.parent.glob("*.json")) - {record}):
            disk.remove(Path(blobs))
            for offered in Path(blobs).parent.glob(f".{Path(blobs).name}.*"):
                offered.unlink() if offered.is_file() else shutil.rmtree(offered)
        (places.SETTINGS / "pull" / record.name).unlink(missing_ok=True)
        record.unlink()

    return remove


def blobs_of(record: Path) -> str:
    return str(json.loads(record.read_text()).get("blobs", ""))


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=False).stdout.strip()


def newest_first(paths: list[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: (-path.stat().st_mtime, path.name))


def fresh(path: Path) -> bool:
    """True for a file written within six hours. A clock that was ahead makes it fresh for longer, never for less."""
    return time.time() - path.stat().st_mtime < FRESH_SECONDS


def arrived_lately(engine: Path) -> bool:
    """True if an engine arrived within six hours. rsync keeps the build time, so the later rename counts."""
    return fresh(engine) or time.time() - engine.stat().st_ctime < FRESH_SECONDS


def last_written(path: Path) -> float:
    return max(inner.lstat().st_mtime for inner in (path, *path.rglob("*")))


def directory(path: Path, why: str) -> Spare:
    return Spare(f"{path} ({mib(path):,} MiB)", why, lambda: forgotten(disk.set_aside(path)))


def forgotten(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def mib(path: Path) -> int:
    return -(-sum(file.lstat().st_size for file in path.rglob("*") if not file.is_dir()) // (1 << 20))
