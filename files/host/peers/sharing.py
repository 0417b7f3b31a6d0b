"""Receives from peers, publishes what verifies, and gives it to the others. `host.peers.main` is the program."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

from host import disk, publish
from host.peers.settings import Offer, Settings
from host.peers.swarm import DiskBroke, Swarm, SwarmBroke, describe
from host.systemd import say

MIB = 1 << 20
TICK_SECONDS = 0.2
REACH_SECONDS = 1
LINGER_SECONDS = 5
"""A host that leaves first stays this long, so that the others, which look five times a second, see that it has
everything and can leave as well. Nobody waits for it; with 1 s a busy machine missed it, and gave for an hour."""


class NotDelivered(Exception):
    """The peers are too slow or gone, or sent what is not the offer's."""


class Refused(Exception):
    """This host cannot take what the peers have."""


def share(settings: Settings) -> None:
    """The directory is published here, and was given to the others. Raises `NotDelivered`, `Refused` or OSError."""
    try:
        swarm = Swarm(settings.here, settings.peers, settings.bytes_per_second)
        if is_published(settings):
            offer_published(swarm, settings)
        else:
            receive(swarm, settings)
        seed(swarm, settings)
    except DiskBroke as problem:
        raise Refused(str(problem)) from None
    except SwarmBroke as problem:
        if not is_published(settings):
            raise NotDelivered(str(problem)) from None
        print(f"{settings.target.name} is not given to the others: {problem}", flush=True)
        forget(settings)


def is_published(settings: Settings) -> bool:
    """True if the directory is there, checked when it was published."""
    return (settings.target / publish.MANIFEST).exists()


def offer_published(swarm: Swarm, settings: Settings) -> None:
    """The published directory is offered to the peers, and the offer is there for the run to read."""
    forget(settings)
    torrent_file, offer_file = settings.beside("torrent"), settings.beside("offer.json")
    sums = publish.manifest(settings.target)
    if offered(offer_file) != sums or not torrent_file.exists():
        offer_file.unlink(missing_ok=True)  # nobody is told of it while the files are read
        say(f"reading {settings.target.name} for the others")
        digest, torrent = describe(settings.target, list(sums))
        sizes = {name: (settings.target / name).stat().st_size for name in sums}
        disk.write(torrent_file, torrent)
        disk.replace(offer_file, Offer(digest, {name: (sizes[name], sums[name]) for name in sums}).text())
    swarm.offer(torrent_file.read_bytes(), settings.target.parent)


def offered(offer_file: Path) -> dict[str, str]:
    """The sha256 of every file by name, as a written offer has them; empty where there is none that can be read."""
    try:
        return {name: sha256 for name, (_, sha256) in Offer.of(json.loads(offer_file.read_text())).files.items()}
    except (OSError, ValueError, KeyError, TypeError):  # a power cut leaves zeros
        return {}


def receive(swarm: Swarm, settings: Settings) -> None:
    """The directory is published: every file has the offer's sha256."""
    if not settings.offer:
        raise Refused("it is not here, and no other host has it yet")
    if settings.staging.is_symlink():  # of a program that was ended while it gave: it may lead nowhere by now
        forget(settings)
    drop_halves(settings, settings.offer)
    need_space(settings)
    settings.staging.parent.mkdir(parents=True, exist_ok=True)
    swarm.join(settings.offer.digest, settings.staging.parent)
    until_whole(swarm, settings, settings.offer)
    (settings.staging / publish.MANIFEST).write_text(settings.offer.manifest())
    _, wrong = publish.differing(settings.staging)
    if wrong:
        senders = ", ".join(sorted(swarm.senders)) or "nobody of this session"
        raise NotDelivered(f"{', '.join(wrong[:5])}: not the offer's sha256; sent by {senders}")
    if is_published(settings):  # the direct way was there first, and something may use it by now
        shutil.rmtree(settings.staging)
    else:
        publish.tidy(settings.staging, {*settings.offer.files, publish.MANIFEST})  # another offer may have begun more
        publish.settle(settings.staging, settings.target)
    # The session goes on reading where it wrote, and connections stay: others are in the middle of a piece.
    settings.staging.symlink_to(settings.target)


def drop_halves(settings: Settings, offer: Offer) -> None:
    """No file of another size is left: libtorrent 2.0.8 does not go on with an empty one, which a full disk leaves."""
    for name, (size, _) in offer.files.items():
        path = settings.staging / name
        if path.is_file() and path.stat().st_size != size:
            path.unlink()


def need_space(settings: Settings) -> None:
    """Refuses before the disk is full, not after."""
    assert settings.offer
    folder = settings.staging
    have = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
    need = settings.offer.size - have
    free = shutil.disk_usage(settings.target.parent.parent).free
    if need > free:
        raise Refused(f"needs {need // MIB:,} MiB more and {free // MIB:,} MiB are free under {folder.parent.parent}")


def until_whole(swarm: Swarm, settings: Settings, offer: Offer) -> None:
    """Every piece is here and verifies. Raises `NotDelivered` where peers are slower than they may be."""
    pace, is_judged, reached = Pace(settings), False, time.monotonic()
    while not (now := swarm.progress()).is_whole:
        report(swarm.heed(TICK_SECONDS), settings)
        if now.has_torrent and not is_judged:
            judge(swarm.files(), offer)
            is_judged = True
        if now.is_checking:
            pace = Pace(settings)
        pace.judge(now.received)
        if time.monotonic() - reached >= REACH_SECONDS:
            reached = time.monotonic()
            swarm.reach()
            say(f"{now.done // MIB:,} of {offer.size // MIB:,} MiB, from {len(swarm.senders)} hosts")
    swarm.reach()
    swarm.flush()
    until = time.monotonic() + settings.patience_seconds
    while not swarm.is_flushed and time.monotonic() < until:
        report(swarm.heed(TICK_SECONDS), settings)


def judge(files: dict[str, int], offer: Offer) -> None:
    """The torrent has the offer's files and no others."""
    if files != {name: size for name, (size, _) in offer.files.items()}:
        raise NotDelivered("the torrent has other files than the offer")


class Pace:
    """Whether peers send fast enough, looked at once in every `patience_seconds`."""

    def __init__(self, settings: Settings) -> None:
        self.seconds, self.least = settings.patience_seconds, settings.least_bytes_per_second
        self.began, self.had = time.monotonic(), 0

    def judge(self, received: int) -> None:
        """Raises `NotDelivered` where too little came since the last look."""
        if time.monotonic() - self.began < self.seconds:
            return
        if received - self.had < self.least * self.seconds:
            came = f"{(received - self.had) / MIB:,.1f} MiB came from the peers in {self.seconds} s"
            raise NotDelivered(f"{came}, and {self.least * self.seconds / MIB:,.1f} are the least")
        self.began, self.had = time.monotonic(), received


def report(caught: list[str], settings: Settings) -> None:
    """The journal names who sent what does not verify."""
    for name in caught:
        what = "sent a piece that does not verify, or a part of it; no more is taken from it"
        print(f"{settings.target.name}: {name} {what}", flush=True)


def seed(swarm: Swarm, settings: Settings) -> None:
    """Every peer was seen to have everything, or `seed_seconds` are over; nothing is given to anybody any more."""
    came = f"{swarm.progress().received / MIB:,.1f} MiB came from peers"
    say(f"{settings.target.name} is here, {came}, and is given to {len(settings.peers)} hosts", True, is_ready=True)
    until = time.monotonic() + settings.seed_seconds
    while time.monotonic() < until:
        swarm.heed(TICK_SECONDS)
        swarm.reach()
        if swarm.whole >= set(settings.peers.values()):
            until = min(until, time.monotonic() + LINGER_SECONDS)
    forget(settings)


def forget(settings: Settings) -> None:
    """What led to the published directory is gone; that directory is not touched."""
    if settings.staging.is_symlink():
        settings.staging.unlink()
    shutil.rmtree(settings.beside("peers"), ignore_errors=True)


def keep_whole(settings: Settings) -> int:
    """How many files the peers sent whole; they lie where the direct way looks for what it began."""
    kept = 0
    assert settings.offer
    for name, (size, sha256) in settings.offer.files.items():
        path, partial = settings.staging / name, settings.beside("partial") / name
        if path.is_file() and path.stat().st_size == size and disk.sha256(path) == sha256 and not partial.exists():
            partial.parent.mkdir(parents=True, exist_ok=True)
            path.rename(partial)
            kept += 1
    forget(settings)
    return kept
