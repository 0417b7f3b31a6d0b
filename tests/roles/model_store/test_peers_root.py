"""Root's steps of sharing, after the receiving user has changed its folder in any way."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from host import publish as verified
from host.peers import publishing
from host.peers.settings import Offer, Settings
from tests.roles.model_store import swarms

FILES = swarms.content(1000)
OFFER = Offer("d" * 64, {name: (len(text), sha256(text).hexdigest()) for name, text in FILES.items()})


def of_a_host(tmp_path: Path, offer: Offer | None) -> Settings:
    """A run's commands for a host whose folder has been prepared."""
    made = Settings(tmp_path / "m/rev", offer, "127.0.0.1:1", {"127.0.0.2:1": "host-1"}, tmp_path / "sharing/m")
    publishing.prepare(made, getpass.getuser())
    return made


def received(settings: Settings) -> None:
    """Records that all files were received, as the receiving user does."""
    swarms.publish(settings.staging, FILES)
    (settings.folder / publishing.SESSION).write_text('{"is_whole": true, "senders": ["host-1", "root\\u001b[31m"]}')


def test_verified_files_are_published_and_nothing_else_is_left(tmp_path: Path) -> None:
    settings = of_a_host(tmp_path, OFFER)
    received(settings)
    (settings.staging / "more").write_bytes(b"x")
    publishing.publish(settings)
    assert swarms.files_in(settings.target) == FILES
    assert not settings.staging.exists()


def test_a_wrong_file_stops_it_and_the_others_wait_for_the_direct_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only hosts of the plan are named as senders, whatever the user recorded."""
    settings = of_a_host(tmp_path, OFFER)
    received(settings)
    (settings.staging / "model-1.safetensors").write_bytes(bytes(1000))
    publishing.publish(settings)
    errors = capsys.readouterr().err
    assert not settings.is_published
    assert "rev: model-1.safetensors: not the offer's sha256; sent by host-1\n" in errors
    assert "not published; 3 complete files are kept for the direct fetch" in errors
    kept = {name: text for name, text in FILES.items() if name != "model-1.safetensors"}
    assert swarms.files_in(settings.sibling("partial")) == kept


@pytest.mark.parametrize(
    "session", ["[]", "{", '{"is_whole": true, "senders": 7}', '{"is_whole": true, "senders": [[]]}']
)
def test_a_malformed_session_file_is_ignored(tmp_path: Path, session: str) -> None:
    settings = of_a_host(tmp_path, OFFER)
    received(settings)
    (settings.staging / "config.json").unlink()
    (settings.folder / publishing.SESSION).write_text(session)
    publishing.publish(settings)
    assert not settings.is_published


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    settings = of_a_host(tmp_path, OFFER)
    received(settings)
    (tmp_path / "elsewhere").write_bytes(FILES["config.json"])
    (settings.staging / "config.json").unlink()
    (settings.staging / "config.json").symlink_to(tmp_path / "elsewhere")
    publishing.publish(settings)
    assert not settings.is_published


def test_a_file_that_the_user_still_has_open_for_writing_is_not_published(tmp_path: Path) -> None:
    settings = of_a_host(tmp_path, OFFER)
    received(settings)
    with (settings.staging / "model-1.safetensors").open("r+b"):
        publishing.publish(settings)
    assert not settings.is_published


def other_sums(offer: Path) -> None:
    """Changes the sums, which the other hosts would publish."""
    offer.write_text(Offer("d" * 64, {name: (size, "0" * 64) for name, (size, _) in OFFER.files.items()}).text())


def other_names(offer: Path) -> None:
    """Adds a file that was never published."""
    offer.write_text(Offer("d" * 64, OFFER.files | {"x.safetensors": (1, "0" * 64)}).text())


def no_digest(offer: Path) -> None:
    """Replaces a digest by words."""
    offer.write_text(Offer("x" * 64, OFFER.files).text())


def no_offer(offer: Path) -> None:
    """Writes a file that is not an offer."""
    offer.write_text("[]")


@pytest.mark.parametrize("spoil", [other_sums, other_names, no_digest, no_offer])
def test_an_offer_of_unpublished_files_is_sent_to_no_host(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """The run would pass the offer to the other hosts, which trust its sums."""
    settings = of_a_host(tmp_path, None)
    swarms.publish(settings.target, FILES)
    spoil(settings.folder / publishing.OFFER)
    (settings.folder / publishing.TORRENT).write_bytes(b"t")
    with pytest.raises(ValueError, match="it is not published"):
        publishing.publish(settings)
    assert sorted(os.listdir(settings.target.parent)) == ["rev"]


def test_an_offer_of_the_published_files_is_there_for_the_run(tmp_path: Path) -> None:
    settings = of_a_host(tmp_path, None)
    swarms.publish(settings.target, FILES)
    (settings.folder / publishing.OFFER).write_text(OFFER.text())
    (settings.folder / publishing.TORRENT).write_bytes(b"t")
    publishing.publish(settings)
    assert Offer.of(json.loads(settings.sibling("offer.json").read_text())) == OFFER


def test_a_transfer_of_an_earlier_version_is_continued(tmp_path: Path) -> None:
    """The transfer of an earlier version belongs to root, and lies next to the published directory."""
    earlier = tmp_path / "m/.rev.peers/rev"
    swarms.publish(earlier, FILES)
    settings = of_a_host(tmp_path, OFFER)
    assert swarms.files_in(settings.staging) == FILES
    assert sorted(os.listdir(settings.target.parent)) == []


def test_a_partial_transfer_is_kept(tmp_path: Path) -> None:
    settings = of_a_host(tmp_path, OFFER)
    received(settings)
    publishing.forget(settings)
    assert swarms.files_in(settings.staging) == FILES
    swarms.publish(settings.target, FILES)
    publishing.forget(settings)
    assert (settings.folder.exists(), (settings.target / verified.MANIFEST).exists()) == (False, True)
