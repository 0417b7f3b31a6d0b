"""Receives files from peers, and shares them, as a user with few rights. `host.peers.main` is the program."""

from __future__ import annotations

import json
import shutil
import time

from host import disk, publish
from host.peers import publishing
from host.peers.settings import Offer, Settings
from host.peers.torrent_session import DiskBroke, SessionBroke, TorrentSession, describe
from host.systemd import say

MIB = 1 << 20
TICK_SECONDS = 0.2
REACH_SECONDS = 1
LINGER_SECONDS = 5
"""Seconds that the first finished host stays, so that the others, which check five times a second, see its completion
and can end as well. No run waits for this host; with 1 s a busy machine missed it, and shared for an hour."""


class NotDelivered(Exception):
    """The peers are too slow or gone, or sent data that differs from the offer."""


class Refused(Exception):
    """This host cannot take the peers' files."""


def receive(settings: Settings) -> None:
    """Receives the peers' files, or writes the offer of the published ones. Raises `NotDelivered` or `Refused`."""
    (settings.folder / publishing.SESSION).unlink(missing_ok=True)
    try:
        describe_published(settings) if settings.is_published else receive_from_peers(settings)
    except DiskBroke as problem:
        raise Refused(str(problem)) from None
    except SessionBroke as problem:
        raise NotDelivered(str(problem)) from None


def describe_published(settings: Settings) -> None:
    """Writes the offer of the published directory to the folder, if the present offer has other files."""
    sums = publish.manifest(settings.target)
    if publishing.offered(settings) == sums and settings.sibling(publishing.TORRENT).exists():
        return
    say(f"reading {settings.target.name} for the others")
    digest, torrent = describe(settings.target, list(sums))
    sizes = {name: (settings.target / name).stat().st_size for name in sums}
    disk.write(settings.folder / publishing.TORRENT, torrent)
    offer = Offer(digest, {name: (sizes[name], sums[name]) for name in sums})
    disk.replace(settings.folder / publishing.OFFER, offer.text())


def receive_from_peers(settings: Settings) -> None:
    """Receives every piece of every file, durably, with the data for resuming as a sender."""
    if not settings.offer:
        raise Refused("it is not on this host, and no other host has it yet")
    torrents = TorrentSession(settings.here, settings.peers, settings.bytes_per_second)
    drop_halves(settings, settings.offer)
    need_space(settings)
    settings.staging.parent.mkdir(parents=True, exist_ok=True)
    torrents.join(settings.offer.digest, settings.staging.parent)
    until_whole(torrents, settings, settings.offer)
    until = time.monotonic() + LINGER_SECONDS
    while time.monotonic() < until:  # lets the others see that this host is complete
        torrents.heed(TICK_SECONDS)
        torrents.connect_peers()
    (settings.folder / publishing.RESUME).write_bytes(torrents.resume_data(settings.patience_seconds))
    noted = {"is_whole": True, "received": torrents.progress().received}
    names = {"senders": sorted(torrents.senders), "whole": sorted(torrents.whole)}
    (settings.folder / publishing.SESSION).write_text(json.dumps(noted | names))
    say(f"{settings.target.name} is received; next it is checked again and published")


def give(settings: Settings) -> None:
    """Shares the published directory; a failure is only printed."""
    session, resume = publishing.session_of(settings), settings.folder / publishing.RESUME
    try:
        torrents = TorrentSession(settings.here, settings.peers, settings.bytes_per_second)
        if resume.exists():
            torrents.resume(resume.read_bytes(), settings.target.parent)
        else:
            torrents.offer(settings.sibling(publishing.TORRENT).read_bytes(), settings.target.parent)
        torrents.whole |= set(session.get("whole", ()))
        seed(torrents, settings, session.get("received", 0))
    except (SessionBroke, OSError, RuntimeError) as problem:
        print(f"{settings.target.name} cannot be shared with the others: {problem}", flush=True)


def drop_halves(settings: Settings, offer: Offer) -> None:
    """Removes files of another size: libtorrent 2.0.8 does not resume an empty one, which a full disk leaves."""
    for name, (size, _) in offer.files.items():
        path = settings.staging / name
        if path.is_file() and path.stat().st_size != size:
            path.unlink()


def need_space(settings: Settings) -> None:
    """Refuses if the disk has too little space, before the first byte is written."""
    assert settings.offer
    folder = settings.staging
    have = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
    need = settings.offer.size - have
    free = shutil.disk_usage(settings.target.parent.parent).free
    if need > free:
        raise Refused(f"needs {need // MIB:,} MiB more and {free // MIB:,} MiB are free under {folder.parent.parent}")


def until_whole(torrents: TorrentSession, settings: Settings, offer: Offer) -> None:
    """Waits until every piece is received and verified. Raises `NotDelivered` if peers are too slow."""
    pace, is_judged, reached = Pace(settings), False, time.monotonic()
    while not (now := torrents.progress()).is_whole:
        report(torrents.heed(TICK_SECONDS), settings)
        if now.has_torrent and not is_judged:
            judge(torrents.files(), offer)
            is_judged = True
        if now.is_checking:
            pace = Pace(settings)
        pace.judge(now.received)
        if time.monotonic() - reached >= REACH_SECONDS:
            reached = time.monotonic()
            torrents.connect_peers()
            say(f"{now.done // MIB:,} of {offer.size // MIB:,} MiB, from {len(torrents.senders)} hosts")
    if not is_judged:  # a small torrent may arrive between two checks
        judge(torrents.files(), offer)
    torrents.connect_peers()
    torrents.flush()
    until = time.monotonic() + settings.patience_seconds
    while not torrents.is_flushed and time.monotonic() < until:
        report(torrents.heed(TICK_SECONDS), settings)


def judge(files: dict[str, int], offer: Offer) -> None:
    if files != {name: size for name, (size, _) in offer.files.items()}:
        raise NotDelivered("the torrent has other files than the offer")


class Pace:
    """Judges once in every `patience_seconds` if peers send fast enough."""

    def __init__(self, settings: Settings) -> None:
        self.seconds, self.least = settings.patience_seconds, settings.least_bytes_per_second
        self.began, self.had = time.monotonic(), 0

    def judge(self, received: int) -> None:
        """Raises `NotDelivered` if too few bytes came since the last check."""
        if time.monotonic() - self.began < self.seconds:
            return
        if received - self.had < self.least * self.seconds:
            came = f"{(received - self.had) / MIB:,.1f} MiB came from the peers in {self.seconds} s"
            raise NotDelivered(f"{came}, and {self.least * self.seconds / MIB:,.1f} are the least")
        self.began, self.had = time.monotonic(), received


def report(caught: list[str], settings: Settings) -> None:
    for name in caught:
        what = "sent a corrupt piece, or a part of one; its data is not used any more"
        print(f"{settings.target.name}: {name} {what}", flush=True)


def seed(torrents: TorrentSession, settings: Settings, received: int) -> None:
    """Shares until every peer was seen to have all files, or `seed_seconds` are over.

    A host that received the files itself shares while a peer that lacks some is connected: a peer may have completed
    and left while this host published. Later peers get the files from hosts that had them before the run.
    """
    came = f"{received / MIB:,.1f} MiB came from peers"
    say(f"{settings.target.name} is here, {came}, and is shared with {len(settings.peers)} hosts", True, is_ready=True)
    until = time.monotonic() + settings.seed_seconds
    needed = time.monotonic()
    while time.monotonic() < until:
        torrents.heed(TICK_SECONDS)
        if torrents.connect_peers() or not settings.offer:
            needed = time.monotonic()
        if torrents.whole >= set(settings.peers.values()):
            until = min(until, time.monotonic() + LINGER_SECONDS)
        if time.monotonic() - needed >= settings.patience_seconds:
            until = min(until, time.monotonic())
