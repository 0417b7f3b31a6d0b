"""Searches files and command output for texts; the same program on a host (as root) and on the control machine.

    look.py < REQUEST   {"forms": {text: name}, "roots": […], "without": […], "since": time, "commands": {name: words}}

Without roots it searches every file system that any process of this machine sees, except the kernel's own. It answers
with names, never with a text: {"seen": [[where, name]…], "files", "bytes", "unpacked", "said": {name: bytes}, "cores":
[…], "unread": […]}. grep gets the texts through a pipe, so that the search writes them nowhere. Standard library
only.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

KERNELS = {
    *("proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "debugfs", "tracefs", "bpf", "fusectl"),
    *("hugetlbfs", "nsfs", "autofs", "pstore", "securityfs", "configfs", "efivarfs", "binfmt_misc", "rpc_pipefs"),
}
ENGINES = ("/var/lib/docker/", "/var/lib/containerd/")
UNPACK: dict[bytes, Callable[[str], Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ": lzma.open, b"BZh": bz2.open}
ZSTD = b"\x28\xb5\x2f\xfd"
"""zstd's magic number; the standard library cannot read it, so such a file is reported as unread."""
AT_ONCE, CHUNK = 500, 1 << 22


class Looker:
    """A search of the file systems, and its findings."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request, self.names = request, {text.encode(): name for text, name in request["forms"].items()}
        self.seen: set[tuple[str, str]] = set()
        self.answer: dict[str, Any] = {"files": 0, "bytes": 0, "unpacked": 0, "said": {}, "cores": [], "unread": []}

    def look(self) -> dict[str, Any]:
        """Searches files first, then commands."""
        batch: list[str] = []
        for path in walk(self.request.get("roots") or everywhere(), set(self.request.get("without", ()))):
            self._name(path)
            if self._is_worth_reading(path):
                batch.append(path)
            if len(batch) == AT_ONCE:
                self._grep(batch)
                batch = []
        self._grep(batch)
        for name, command in self.request.get("commands", {}).items():
            self._search_output(name, command)
        return {**self.answer, "seen": sorted(self.seen)}

    def _name(self, path: str) -> None:
        """Searches a file's name and a link's target."""
        texts = os.fsencode(path)
        with contextlib.suppress(OSError):
            texts += b" " + os.fsencode(os.readlink(path))
        self.seen |= {(path, name) for text, name in self.names.items() if text in texts}

    def _is_worth_reading(self, path: str) -> bool:
        """Returns True for a changed file with content; searches packed files immediately."""
        try:
            known = os.lstat(path)
            if not stat.S_ISREG(known.st_mode) or not known.st_size:
                return False
            if max(known.st_mtime, known.st_ctime) < self.request.get("since", 0):
                return False
            with open(path, "rb") as content:
                start = content.read(18)
        except OSError:
            return False
        self.answer["files"] += 1
        self.answer["bytes"] += known.st_size
        self._judge_start(path, start)
        return True

    def _judge_start(self, path: str, start: bytes) -> None:
        if start[:4] == b"\x7fELF" and start[16:18] == b"\x04\x00":
            self.answer["cores"].append(path)
        if start[:4] == ZSTD:
            self.answer["unread"].append(path)
        for magic, opened in UNPACK.items():
            if start.startswith(magic):
                self._unpacked(path, opened)

    def _unpacked(self, path: str, opened: Callable[[str], Any]) -> None:
        try:
            with opened(path) as content:
                kept = b""
                while chunk := content.read(CHUNK):
                    self.seen |= {(path, name) for text, name in self.names.items() if text in kept + chunk}
                    kept = chunk[-256:]
            self.answer["unpacked"] += 1
        except (OSError, EOFError, lzma.LZMAError):
            self.answer["unread"].append(path)

    def _grep(self, paths: list[str]) -> None:
        for path in self._grepped("-slaF", paths) if paths else []:
            self.seen |= {(os.fsdecode(path), self.names[text]) for text in self._grepped("-saoFh", [path])}

    def _search_output(self, name: str, command: str) -> None:
        """Pipes a command's output through grep, and counts its bytes."""
        with self._texts() as reading:
            words = ["grep", "-aoF", "-f", f"/dev/fd/{reading}"]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "pass_fds": (reading,)}
            process = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            grep = subprocess.Popen(words, **pipes)
        pump = threading.Thread(target=self._pump, args=(name, process.stdout, grep.stdin))
        pump.start()
        self.seen |= {(name, self.names[text]) for text in set(grep.stdout.read().splitlines())}
        pump.join()
        process.wait()
        grep.wait()

    def _pump(self, name: str, output: IO[bytes], grep: IO[bytes]) -> None:
        self.answer["said"][name] = 0
        while chunk := output.read(CHUNK):
            self.answer["said"][name] += len(chunk)
            grep.write(chunk)
        grep.close()

    def _grepped(self, how: str, paths: Sequence[str | bytes]) -> list[bytes]:
        with self._texts() as reading:
            words = ["grep", how, "-f", f"/dev/fd/{reading}", "--", *paths]
            ended = subprocess.run(words, stdout=subprocess.PIPE, pass_fds=(reading,), check=False)
            return ended.stdout.splitlines()

    @contextlib.contextmanager
    def _texts(self) -> Iterator[int]:
        """Yields a pipe with the texts, which fit into a pipe's buffer."""
        reading, writing = os.pipe()
        os.write(writing, b"\n".join(self.names) + b"\n")
        os.close(writing)
        try:
            yield reading
        finally:
            os.close(reading)


def everywhere() -> list[str]:
    """Returns mount points of every file system that any process here sees, containers and units included."""
    places: dict[tuple[str, str], str] = {}
    mine = os.readlink("/proc/self/ns/mnt")
    for process in ["/proc/self", *map(str, Path("/proc").glob("[0-9]*"))]:
        with contextlib.suppress(OSError):
            is_mine = os.readlink(f"{process}/ns/mnt") == mine
            for device, root, place, kind in mounts(process):
                # A container's overlay shows layers that lie below the engine's directory, which is searched by itself.
                layered = kind == "overlay" and (not is_mine or place.startswith(ENGINES))
                if kind not in KERNELS and not layered:
                    places.setdefault((device, root), place if is_mine else f"{process}/root{place}")
    return list(places.values())


def mounts(process: str) -> Iterator[tuple[str, str, str, str]]:
    """Yields device, directory on it, mount point and kind of each mount a process sees."""
    for line in Path(f"{process}/mountinfo").read_text().splitlines():
        words = line.split()
        yield words[2], words[3], words[4].replace("\\040", " "), words[words.index("-") + 1]


def walk(roots: list[str], without: set[str]) -> Iterator[str]:
    """Yields every path below each root, on that root's file system only; a root may be a file."""
    for root in roots:
        with contextlib.suppress(OSError):
            device = os.lstat(root).st_dev if not os.path.isdir(root) else os.stat(root + "/.").st_dev
            yield root
            for place, folders, files in os.walk(root):
                inside = [f for f in folders if os.path.join(place, f) not in without]
                folders[:] = [f for f in inside if is_on(os.path.join(place, f), device)]
                yield from (os.path.join(place, name) for name in (*files, *folders))


def is_on(path: str, device: int) -> bool:
    """Returns True if a directory is on that device; False if it no longer exists."""
    try:
        return os.lstat(path).st_dev == device
    except OSError:
        return False


if __name__ == "__main__":
    print(json.dumps(Looker(json.load(sys.stdin)).look()))
