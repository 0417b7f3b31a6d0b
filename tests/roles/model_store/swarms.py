"""Hosts that share a directory over loopback: the real program and the real libtorrent, each with an address."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.ports import free_port

PROGRAMS = Path(__file__).parents[3] / "files"
PYTHON = "/usr/bin/python3"
"""The Python that units of hosts start: python3-libtorrent is a package of the distribution."""
NAMES = ("config.json", "model-1.safetensors", "model-2.safetensors", "onnx/tokenizer.json")
POISONER = """
import sys
from pathlib import Path
sys.path.insert(0, {programs!r})
from host.peers import torrent_session
torrent_session.SETTINGS |= {{"disable_hash_checks": True}}
from host.peers.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The program of a host whose disk has other bytes than it believes, and which never checks them."""
FOREVER_SECONDS = 600
"""Seconds that are more than any machine needs: a busy one takes half a minute to start a program or connect two
hosts."""


def content(size: int = 1 << 20) -> dict[str, bytes]:
    """A small model: two large files, two small ones, one in a directory."""
    dice = random.Random(7)
    return dict(zip(NAMES, (b"{}", dice.randbytes(size), dice.randbytes(size + 1), b"[]"), strict=True))


def files_in(directory: Path) -> dict[str, bytes]:
    """Content of every file of the directory by name, without the manifest; empty without a directory."""
    contents = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    return {name: text for name, text in contents.items() if name != "manifest.sha256"}


def publish(directory: Path, files: dict[str, bytes]) -> None:
    """Writes the files with their manifest, as a direct fetch publishes them."""
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(text)
    sums = (f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in files.items())
    (directory / "manifest.sha256").write_text("".join(sums))


STEPS = """
settings=$1; shift
"$@" prepare "$0" "$settings"; "$@" receive "$settings"; "$@" publish "$settings"; exec "$@" give "$settings"
"""
"""The unit's steps in their order, all as the user who runs the test."""


class Peer:
    """A host with its own directory and address."""

    def __init__(self, folder: Path, number: int) -> None:
        self.name, self.folder = f"host-{number}", folder / f"host-{number}"
        self.target = self.folder / "weights/m/rev"
        self.target.parent.mkdir(parents=True)
        self.shared = self.folder / "sharing/m"
        self.user = getpass.getuser()
        lane = os.getpid()  # two runs of these tests on one machine are two networks
        address = f"127.{1 + lane // 256 % 254}.{lane % 256}.{1 + number}"
        self.here = f"{address}:{free_port()}"
        self.log = self.folder / "said"
        self.process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        peers: list[Peer],
        offer: dict[str, Any] | None = None,
        poisons: bool = False,
        most_bytes: int = resource.RLIM_INFINITY,
        **more: Any,
    ) -> Peer:
        """Starts the program; with `most_bytes` none of its files can be larger."""
        named = {peer.here: peer.name for peer in peers if peer is not self}
        written = {"target": str(self.target), "offer": offer, "here": self.here, "peers": named}
        written |= {"folder": str(self.shared)}
        settings = self.folder / "settings.json"
        patient = {"patience_seconds": FOREVER_SECONDS, "seed_seconds": FOREVER_SECONDS}
        settings.write_text(json.dumps(written | patient | more))
        program = POISONER.format(programs=str(PROGRAMS))
        start = [PYTHON, "-B", *(["-c", program] if poisons else [str(PROGRAMS / "host"), "peers"])]
        with self.log.open("ab") as stream:
            self.process = subprocess.Popen(
                ["/bin/sh", "-ec", STEPS, self.user, str(settings), *start],
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes)),
            )
        return self

    def offer(self) -> dict[str, Any]:
        """The offer beside the published directory, once it exists."""
        path = self.target.with_name(".rev.offer.json")
        until(path.exists, f"{self.name} makes its offer")
        return dict(json.loads(path.read_text()))

    def ended(self) -> int:
        """The program's exit status, once it has ended."""
        assert self.process
        return self.process.wait(FOREVER_SECONDS)

    def received_mib(self) -> float:
        """MiB received from peers, by the program's last report."""
        return float(self.words().rpartition(" is here, ")[2].partition(" MiB ")[0])

    def kill(self) -> None:
        """Kills the program."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def words(self) -> str:
        """The program's output so far."""
        return self.log.read_text() if self.log.exists() else ""

    def staged(self) -> int:
        """Bytes of the staging directory that are not zero, in files of more than 4 KiB."""
        paths = [path for path in self.shared.rglob("model-*") if path.is_file()]
        return sum(len(text) - text.count(0) for text in (path.read_bytes() for path in paths))

    def is_published(self) -> bool:
        """True if the directory exists under its own name."""
        return (self.target / "manifest.sha256").exists()


def until(holds: Callable[[], bool], what: str, seconds: float = FOREVER_SECONDS) -> None:
    """Returns once the condition holds. Raises AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)
