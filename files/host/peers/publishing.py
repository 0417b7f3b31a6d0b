"""Root's steps before and after the receiving user's. Of the peers' data, they parse only file names."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from host import disk
from host import publish as verified
from host.peers.settings import Offer, Settings

SESSION, RESUME = "session.json", "resume"
OFFER, TORRENT = "offer.json", "torrent"


def prepare(settings: Settings, user: str) -> None:
    """Gives the folder to the user, with partial files that an earlier version received beside `target`."""
    for directory in (settings.folder, settings.target.parent):
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    verified.take(settings.folder)
    settings.staging.parent.mkdir(exist_ok=True)
    earlier = settings.sibling("peers")
    received = earlier / settings.target.name
    if received.is_dir() and not received.is_symlink() and not settings.staging.exists():
        received.rename(settings.staging)
    shutil.rmtree(earlier, ignore_errors=True)
    if settings.is_published and offered(settings) != verified.manifest(settings.target):
        settings.sibling(OFFER).unlink(missing_ok=True)  # no peer gets an outdated offer while the files are read
    verified.take(settings.folder, user)


def offered(settings: Settings) -> dict[str, str]:
    try:
        return {name: sha256 for name, (_, sha256) in Offer.of(_json(settings.sibling(OFFER))).files.items()}
    except (OSError, ValueError, KeyError, TypeError):  # a power cut leaves zeros
        return {}


def publish(settings: Settings) -> None:
    """Publishes `target` if every file of the offer verifies; otherwise keeps complete files for the direct fetch."""
    verified.take(settings.folder)
    if not settings.is_published:
        _publish_received(settings)
    if settings.is_published:
        _publish_offer(settings)
        shutil.rmtree(settings.staging.parent, ignore_errors=True)


def _publish_received(settings: Settings) -> None:
    if not settings.offer or not settings.staging.is_dir():
        return
    (settings.staging / verified.MANIFEST).write_text(settings.offer.manifest())
    _, wrong = verified.differing(settings.staging)
    session = session_of(settings)
    is_whole = bool(session.get("is_whole"))
    if is_whole and not wrong:
        # Removes files that were begun for another offer.
        verified.tidy(settings.staging, {*settings.offer.files, verified.MANIFEST})
        verified.move_into_place(settings.staging, settings.target)
        return
    if is_whole:
        noted = session.get("senders")  # written by an untrusted user, so its text is not printed
        names = sorted(name for name in settings.peers.values() if isinstance(noted, list) and name in noted)
        senders = ", ".join(names) or "no peer of this session"
        print(
            f"{settings.target.name}: {', '.join(wrong[:5])}: not the offer's sha256; sent by {senders}",
            file=sys.stderr,
        )
    kept = _keep_whole(settings, settings.offer)
    print(f"  state  not published; {kept} complete files are kept for the direct fetch", file=sys.stderr)


def _publish_offer(settings: Settings) -> None:
    """Publishes the receiving user's offer of the published directory, if its sums equal the manifest's."""
    made = settings.folder / OFFER
    if not made.exists():
        return
    sums = verified.manifest(settings.target)
    right = {name: ((settings.target / name).stat().st_size, sums[name]) for name in sums}
    try:
        offer = Offer.of(_json(made))
    except (ValueError, KeyError, TypeError):
        offer = Offer("", {})
    if offer.files != right or not re.fullmatch("[0-9a-f]{64}", offer.digest):
        raise ValueError("the receiving user's offer does not match the published files; it is not published")
    disk.write(settings.sibling(TORRENT), (settings.folder / TORRENT).read_bytes())
    disk.replace(settings.sibling(OFFER), offer.text())
    made.unlink()


def _keep_whole(settings: Settings, offer: Offer) -> int:
    """Number of files that peers sent completely, which are kept for the direct fetch to resume."""
    kept, partial = 0, settings.sibling("partial")
    with contextlib.suppress(FileNotFoundError):
        verified.take(partial)
    for name in offer.files:
        # Differing files were removed already.
        if (settings.staging / name).is_file() and not (partial / name).exists():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            (settings.staging / name).rename(partial / name)
            kept += 1
    shutil.rmtree(settings.staging.parent)
    return kept


def session_of(settings: Settings) -> dict[str, Any]:
    """The notes of the receiving user's last session; empty if they cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        noted = _json(settings.folder / SESSION)
        return noted if isinstance(noted, dict) else {}
    return {}


def forget(settings: Settings) -> None:
    if settings.is_published:
        shutil.rmtree(settings.folder, ignore_errors=True)


def _json(path: Path) -> Any:
    return json.loads(path.read_text())
