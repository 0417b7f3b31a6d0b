"""The program with which hosts share a model: a session with every fault at once, and then single faults."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.roles.model_store.swarms import PROGRAMS, Peer, content, files_in, publish, until

FILES = content()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Peer]]:
    """A source that has made its offer and is currently stopped, and a host that needs the model."""
    hosts = [Peer(tmp_path, number) for number in range(2)]
    publish(hosts[0].target, FILES)
    hosts[0].start(hosts).offer()
    hosts[0].kill()
    yield hosts
    for host in hosts:
        host.kill()
        print(host.name, host.words())


@dataclass
class Trouble:
    """A session: a source, a sender of corrupt pieces, a slow peer, a vanishing peer, and two receivers."""

    source: Peer
    poisoner: Peer
    slow: Peer
    vanished: Peer
    wanting: list[Peer]


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trouble]:
    """Six peers after the transfer: the receivers have the model, and at most share it with others."""
    folder = tmp_path_factory.mktemp("sharing")
    hosts = [Peer(folder, number) for number in range(6)]
    source, poisoner, slow, vanished, *wanting = hosts
    publish(source.target, FILES)
    publish(slow.target, FILES)
    publish(poisoner.target, FILES)
    try:
        offer = source.start(hosts).offer()
        source.kill()
        poisoner.start(hosts, poisons=True)
        assert poisoner.offer() == offer
        (poisoner.target / "model-1.safetensors").write_bytes(bytes(len(FILES["model-1.safetensors"])))
        slow.start(hosts, bytes_per_second=20_000)
        vanished.start(hosts, offer)
        for host in wanting:
            host.start(hosts, offer)
        until(lambda: all("a corrupt piece" in host.words() for host in wanting), "the poisoner is caught")
        vanished.kill()
        source.start(hosts)
        until(lambda: all(host.is_published() for host in wanting), "everybody has the model")
        yield Trouble(source, poisoner, slow, vanished, wanting)
    finally:
        for host in hosts:
            host.kill()


def test_every_host_ends_with_the_right_bytes(trouble: Trouble) -> None:
    assert [files_in(host.target) == FILES for host in trouble.wanting] == [True, True]


def test_the_sender_of_wrong_pieces_is_named(trouble: Trouble) -> None:
    message = f"rev: {trouble.poisoner.name} sent a corrupt piece, or a part of one; its data is not used any more"
    assert [message in host.words() for host in trouble.wanting] == [True, True]


def test_only_the_poisoner_is_blamed(trouble: Trouble) -> None:
    innocent = (trouble.source, trouble.slow, trouble.vanished, *trouble.wanting)
    printed = "".join(host.words() for host in trouble.wanting)
    assert [line for line in printed.splitlines() if any(f"{host.name} sent" in line for host in innocent)] == []


def test_pieces_that_a_killed_run_received_are_not_requested_again(two: list[Peer]) -> None:
    """The source keeps its speed limit, so the rest takes six seconds, and the kill comes before the end."""
    source, wanting = two
    source.start(two, bytes_per_second=250_000)
    wanting.start(two, source.offer())
    until(lambda: wanting.staged() > 500_000, "a part is there")
    wanting.kill()
    assert not wanting.is_published()
    source.kill()
    source.start(two)
    wanting.start(two, source.offer())
    until(wanting.is_published, "the rest has come")
    assert files_in(wanting.target) == FILES
    until(lambda: "is here" in wanting.words(), "it says so")
    assert wanting.received_mib() < 1.9


def test_absent_peers_leave_complete_files_to_the_direct_fetch(two: list[Peer]) -> None:
    source, wanting = two
    staging = wanting.target.with_name(".rev.peers") / "rev"
    staging.mkdir(parents=True)
    (staging / "config.json").write_bytes(FILES["config.json"])
    (staging / "model-1.safetensors").write_bytes(bytes(len(FILES["model-1.safetensors"])))
    assert wanting.start(two, source.offer(), patience_seconds=1).ended() == 3
    assert not wanting.is_published()
    assert files_in(wanting.target.with_name(".rev.partial")) == {"config.json": b"{}"}
    assert "0.0 MiB came from the peers in 1 s, and 0.1 are the least" in wanting.words()


def test_a_model_that_does_not_verify_names_its_sender(two: list[Peer]) -> None:
    """The model's torrent is valid, but the source published other bytes than the requested ones."""
    source, wanting = two
    offer = source.offer()
    offer["files"]["model-1.safetensors"][1] = "0" * 64
    source.start(two)
    assert wanting.start(two, offer).ended() == 3
    assert not wanting.is_published()
    assert "rev: model-1.safetensors: not the offer's sha256; sent by host-0\n" in wanting.words()


def test_a_torrent_of_other_files_is_not_taken(two: list[Peer]) -> None:
    source, wanting = two
    offer = source.offer()
    del offer["files"]["config.json"]
    source.start(two)
    assert wanting.start(two, offer).ended() == 3
    assert (wanting.is_published(), "other files than the offer" in wanting.words()) == (False, True)


def test_an_offer_that_a_power_cut_left_half_is_made_anew(two: list[Peer]) -> None:
    source, _ = two
    right, path = source.offer(), source.target.with_name(".rev.offer.json")
    path.write_bytes(bytes(4096))
    source.start(two)
    until(lambda: path.exists() and path.read_bytes()[:1] == b"{", "the offer is written")
    assert source.offer() == right


def test_a_host_can_receive_again_after_sharing_ended(two: list[Peer]) -> None:
    """The stopped peer left a symlink to a directory that was removed since."""
    source, wanting = two
    staging = wanting.target.with_name(".rev.peers") / "rev"
    staging.parent.mkdir()
    staging.symlink_to(wanting.target)
    source.start(two)
    wanting.start(two, source.offer())
    until(wanting.is_published, "the model has come")
    assert files_in(wanting.target) == FILES


def test_a_directory_that_the_direct_way_published_stays(two: list[Peer]) -> None:
    """The directory may be in use, so peers' bytes replace none of its files."""
    source, wanting = two
    source.start(two, bytes_per_second=250_000)
    wanting.start(two, source.offer())
    until(lambda: wanting.staged() > 300_000, "a part is there")
    publish(wanting.target, FILES)
    mark = wanting.target / "config.json"
    number = mark.stat().st_ino
    until(lambda: "is here" in wanting.words(), "it says so")
    assert mark.stat().st_ino == number


def test_a_host_that_is_not_of_the_plan_gets_nothing(two: list[Peer]) -> None:
    source, stranger = two
    source.start([])
    assert stranger.start(two, source.offer(), patience_seconds=1).ended() == 3


def test_a_disk_without_room_is_refused_before_it_is_full(two: list[Peer]) -> None:
    source, wanting = two
    offer = source.offer()
    offer["files"]["model-1.safetensors"][0] = 1 << 60
    assert wanting.start(two, offer).ended() == 1
    assert wanting.words().startswith("rev: needs 1,099,511,627,777 MiB more and ")


def test_a_file_that_the_disk_does_not_take_ends_it_and_the_next_run_goes_on(two: list[Peer]) -> None:
    source, wanting = two
    source.start(two)
    assert wanting.start(two, source.offer(), most_bytes=1 << 20).ended() == 1
    assert (wanting.is_published(), "model-2.safetensors" in wanting.words()) == (False, True)
    wanting.start(two, source.offer())
    until(wanting.is_published, "it is published")
    assert files_in(wanting.target) == FILES


def test_a_port_in_use_falls_back_to_the_direct_fetch(two: list[Peer]) -> None:
    source, wanting = two
    address, _, port = wanting.here.rpartition(":")
    with socket.create_server((address, int(port))):
        assert wanting.start(two, source.offer()).ended() == 3
        also = source.offer()
        publish(wanting.target, FILES)
        assert (wanting.start(two, also).ended(), files_in(wanting.target) == FILES) == (0, True)


def test_a_complete_host_offers_the_model_without_a_download(two: list[Peer]) -> None:
    source, also = two
    publish(also.target, FILES)
    also.start(two)
    assert also.offer() == source.offer()


def test_a_host_stops_sharing_once_all_peers_are_complete(two: list[Peer]) -> None:
    source, wanting = two
    source.start(two)
    assert wanting.start(two, source.offer()).ended() == 0
    assert source.ended() == 0
    assert sorted(path.name for path in wanting.target.parent.iterdir()) == ["rev"]


def test_no_host_program_calls_wait_for_alert() -> None:
    """libtorrent crashes about once in fifty starts with that call, so the test looks for the call."""
    programs = {path.name: path.read_text() for path in (PROGRAMS / "host/peers").glob("*.py")}
    calls = {name for name, text in programs.items() if ".wait_for_alert(" in text}
    assert (calls, "pop_alerts(" in programs["torrent_session.py"]) == (set(), True)
