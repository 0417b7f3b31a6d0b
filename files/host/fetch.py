"""Fetches one model's files at a pinned revision; run by enginehouse-weights@<model>.service.

    host fetch SETTINGS                   {"endpoint": …, "repository": …, "revision": …, "files": […], "target": …,
                                          "ca_file": …}: fetches every file to the staging directory
    host fetch --prepare USER SETTINGS    as root, before: gives the staging directory to USER
    host fetch --publish SETTINGS         as root, after: publishes the complete staging directory

Only the first of these reads from the network, as a user who may write only to the staging directory. It rewrites a
pytorch_model.bin as safetensors (host.convert_weights): no pickle is published. Root reads every file again before it
publishes. That takes 0.8 s of CPU per GiB (Python 3.11, one of two busy cores, 2026-11-25), with all files in parallel,
and mostly from the page cache: seconds, where the fetch took minutes.

Standard library only, so that the host needs nothing. The token is a systemd credential (file `token` in
$CREDENTIALS_DIRECTORY) and is never sent to the host of a redirect. Partial files are resumed (Range). Every file is
checked against the hub's own checksum: sha256 for large files, git's blob sha1 for small ones. Files are published all
at once, by renaming the staging directory, together with manifest.sha256.
"""

from __future__ import annotations

import fnmatch
import hashlib
import http.client
import json
import os
import shutil
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from host import convert_weights
from host import publish as publishing
from host.hub import Hub, Refused, shards_in
from host.systemd import say, words

T = TypeVar("T")
Source = Callable[[str, int], Any]  # opens a file of the hub from a byte on

# Loading a file of these types executes code inside it.
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".h5", ".msgpack")
MANIFEST = "manifest.sha256"
MIB, CHUNK, MOST_FILE_BYTES = 1 << 20, 1 << 20, 1 << 53
BROKEN = (OSError, EOFError, http.client.HTTPException)
# Statuses of a slow server and of a rate limit.
ASK_AGAIN = (408, 429)
ATTEMPTS = 8
AT_ONCE = 4


@dataclass(frozen=True)
class WantedFile:
    """A file of the listing, with the checksum of the hub."""

    path: str
    size: int
    sha256: str
    git_sha1: str


def main(arguments: list[str]) -> int:
    """0 once the step is done; 1 after printing the reason."""
    step, settings = arguments[0], json.loads(Path(arguments[-1]).read_text())
    if step in ("--prepare", "--publish"):
        os.umask(0o022)  # the unit's umask is for the files of its user
    target = Path(settings["target"])
    if (target / MANIFEST).exists():
        say(f"{target} is published already")
        return 0
    try:
        if step == "--prepare":
            prepare(target, arguments[1])
        elif step == "--publish":
            publish_checked(settings, target)
        else:
            fetch(Hub(settings), settings, target)
    except (Refused, OSError) as problem:
        print(words(f"{settings['repository']} at {settings['revision'][:12]}: {problem}"), file=sys.stderr)
        print(f"  state  {target} is not published; the fetched data stays, and the next run resumes", file=sys.stderr)
        return 1
    return 0


def staging_of(target: Path) -> Path:
    return target.parent / f".{target.name}.partial"


def prepare(target: Path, user: str) -> None:
    """Gives the staging directory to the user, including the remains of earlier fetches, rsync or peers."""
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    staging_of(target).mkdir(exist_ok=True)
    publishing.take(staging_of(target), user)


def fetch(hub: Hub, settings: dict[str, Any], target: Path) -> None:
    """Fetches every file into the staging directory, and writes the manifest of their checksums."""
    wanted = chosen(patiently("the list of files", hub.listing), settings["files"], convertible=True)
    staging = staging_of(target)
    staging.mkdir(parents=True, exist_ok=True)
    need_space(staging, wanted)
    progress = Progress(sum(file.size for file in wanted))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        sums = dict(pool.map(lambda file: (file.path, download(hub.file, file, staging, progress)), wanted))
    sums = convert_weights.converted(staging, sums)
    need_shards(staging, sums)
    (staging / MANIFEST).write_text(manifest_of(sums))
    say(f"{len(wanted)} files, {progress.total // MIB:,} MiB, are here; next they are checked again and published")


def publish_checked(settings: dict[str, Any], target: Path) -> None:
    """Publishes `target`: exactly the requested files, each with the manifest's checksum."""
    staging = staging_of(target)
    publishing.take(staging)
    try:
        sums, wrong = publishing.differing(staging)
    except ValueError as problem:
        raise Refused(str(problem)) from None
    (staging / MANIFEST).unlink()  # the next fetch writes its own
    patterns = convert_weights.published(settings["files"])
    chosen([{"rfilename": name, "size": 0} for name in sums], patterns)
    strange = [name for name in sums if not any(fnmatch.fnmatchcase(name, glob) for glob in patterns)]
    if wrong or strange:
        raise Refused(f"{', '.join([*wrong, *strange][:5])}: different from the fetched and checked files")
    size = sum((staging / name).stat().st_size for name in sums)
    publish(staging, target, sums)
    say(f"{len(sums)} files, {size // MIB:,} MiB, published as {target}", also_print=True)


def chosen(listing: list[dict[str, Any]], patterns: list[str], convertible: bool = False) -> list[WantedFile]:
    """The listed files that match the patterns; not every family has all of them. Refuses a pickle among them.

    With `convertible`, a pytorch_model.bin that matches is included if its folder has no safetensors.
    """
    if any(type(file) is not dict or type(file.get("rfilename")) is not str for file in listing):
        raise Refused("the hub's listing has a file without a name")
    matching = [file for file in listing if any(fnmatch.fnmatchcase(file["rfilename"], glob) for glob in patterns)]
    names = [file["rfilename"] for file in matching]
    safe = {name.rpartition("/")[0] for name in names if name.endswith(".safetensors")}
    rewritten = {name for name in names if convertible and convert_weights.is_named(name, patterns)}
    names = [name for name in names if name not in rewritten or name.rpartition("/")[0] not in safe]
    for name in names:
        if name.lower().endswith(PICKLES) and name not in rewritten:
            raise Refused(f"{name} is a pickle: loading it runs its author's code; list only safetensors")
        if not publishing.is_name(name):
            raise Refused(f"{name[:80]!r} points outside the model's directory, or is not a file name")
    is_tokenizer = all(name.endswith((".json", ".jinja")) and "*" not in name for name in patterns)  # of a gateway
    needed = "tokenizer.json" if is_tokenizer else "safetensors"
    if not any(name.endswith(needed) or name in rewritten for name in names):
        has = ", ".join(sorted(file["rfilename"] for file in listing)[:12])
        raise Refused(f"no {needed} among the requested files ({', '.join(patterns)}); the repository has: {has}")
    return [wanted_of(file) for file in matching if file["rfilename"] in names]


def wanted_of(file: dict[str, Any]) -> WantedFile:
    """The file of an entry of the listing. Refuses an entry without a size."""
    large = file["lfs"] if isinstance(file.get("lfs"), dict) else {}
    size = large.get("size", file.get("size"))
    if type(size) is not int or not 0 <= size <= MOST_FILE_BYTES:
        raise Refused(f"the hub's listing has no size for {file['rfilename']}")
    return WantedFile(file["rfilename"], size, str(large.get("sha256", "")), str(file.get("blobId", "")))


def need_space(staging: Path, wanted: list[WantedFile]) -> None:
    """Refuses if the disk has too little space, before the first byte is written."""
    have = sum(path.stat().st_size for path in staging.rglob("*") if path.is_file())
    need = sum(file.size for file in wanted) - have
    free = shutil.disk_usage(staging).free
    if need > free:
        raise Refused(f"needs {need // MIB:,} MiB more and {free // MIB:,} MiB are free under {staging.parent}")


def need_shards(staging: Path, sums: dict[str, str]) -> None:
    for name in sums:
        if name.endswith(".safetensors.index.json"):
            shards = shards_in((staging / name).read_bytes(), name)
            missing = sorted(shard for shard in shards if str(Path(name).parent / shard) not in sums)
            if missing:
                raise Refused(f"{name} names {missing[0]}, which is not among the requested files")


def download(source: Source, file: WantedFile, staging: Path, progress: Progress) -> str:
    """The sha256 of a file that is now complete in `staging`. Resumes a partial file, retries broken connections."""
    path = staging / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    return patiently(file.path, lambda: download_once(source, file, path, progress))


def patiently(what: str, ask: Callable[[], T]) -> T:
    """The result of `ask`, retried if the connection breaks or the hub fails temporarily."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return ask()
        except BROKEN as problem:
            if attempt == ATTEMPTS:
                reason = str(problem) or type(problem).__name__
                raise OSError(f"{what} broke off {ATTEMPTS} times, the last time with: {reason}") from None
            if isinstance(problem, urllib.error.HTTPError) and problem.code < 500 and problem.code not in ASK_AGAIN:
                raise
            time.sleep(min(2**attempt, 30))
    raise AssertionError("the last attempt returns or raises")


def download_once(source: Source, file: WantedFile, path: Path, progress: Progress) -> str:
    """The sha256 of the file at `path`. Raises OSError or EOFError if it is incomplete; correct bytes are kept."""
    have = path.stat().st_size if path.exists() else 0
    sha256, sha1 = hashlib.sha256(), hashlib.sha1(f"blob {file.size}\0".encode())
    if have > file.size:
        path.unlink()
        have = 0
    if have:
        with path.open("rb") as content:
            digest_into(content, sha256, sha1)
    progress.set(file.path, have)
    if have < file.size:
        receive(source, file, path, have, progress, sha256, sha1)
    wrong = sha256.hexdigest() != file.sha256 if file.sha256 else sha1.hexdigest() != file.git_sha1
    if wrong:
        path.unlink(missing_ok=True)
        raise OSError(f"{file.path} does not have the hub's checksum")
    path.touch()  # creates an empty file, for which no byte was received
    return sha256.hexdigest()


def receive(source: Source, file: WantedFile, path: Path, have: int, progress: Progress, *sums: Any) -> None:
    """Appends the file's missing bytes, and adds them to its progress and checksums."""
    with source(file.path, have) as answer, path.open("ab") as content:
        if have and answer.status != 206:
            raise_restart(path)
        left = file.size - have
        while chunk := answer.read(min(CHUNK, left)):  # at most the listed size, so that an answer cannot fill the disk
            content.write(chunk)
            left -= len(chunk)
            for digest in sums:
                digest.update(chunk)
            progress.add(file.path, len(chunk))
        os.fsync(content.fileno())
    if path.stat().st_size < file.size:
        raise EOFError(f"{file.path} broke off at {path.stat().st_size:,} of {file.size:,} bytes")


def raise_restart(path: Path) -> None:
    """Removes the file and raises EOFError, so that it is fetched from its beginning."""
    path.unlink()
    raise EOFError(f"the hub cannot resume {path.name}; it is fetched from its beginning")


def digest_into(content: BinaryIO, *sums: Any) -> None:
    while chunk := content.read(CHUNK):
        for digest in sums:
            digest.update(chunk)


def publish(staging: Path, target: Path, sums: dict[str, str]) -> None:
    """Publishes the files readable to all, complete, in one rename; files of earlier patterns are left out."""
    for path in sorted(staging.rglob("*"), reverse=True):
        if path.is_file() and str(path.relative_to(staging)) not in sums:
            path.unlink()
        path.chmod(0o755 if path.is_dir() else 0o644) if path.exists() else None
    (staging / MANIFEST).write_text(manifest_of(sums))
    (staging / MANIFEST).chmod(0o644)
    staging.chmod(0o755)
    if not (target / MANIFEST).exists():  # left by an interrupted removal; a complete one is from another run
        shutil.rmtree(target, ignore_errors=True)
    os.sync()
    staging.rename(target)
    os.sync()


def manifest_of(sums: dict[str, str]) -> str:
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))


class Progress:
    """Bytes of all files together, reported to systemd at most once a second."""

    def __init__(self, total: int) -> None:
        self.total, self.files, self.logged_at = total, dict[str, int](), 0.0
        self.lock = threading.Lock()

    def set(self, name: str, bytes_there: int) -> None:
        with self.lock:
            self.files[name] = bytes_there
            self._log_progress()

    def add(self, name: str, more: int) -> None:
        with self.lock:
            self.files[name] = self.files.get(name, 0) + more
            self._log_progress()

    def _log_progress(self) -> None:
        if time.monotonic() - self.logged_at >= 1:
            self.logged_at = time.monotonic()
            say(f"{sum(self.files.values()) // MIB:,} of {self.total // MIB:,} MiB")
