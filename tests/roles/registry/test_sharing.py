"""Fake hosts share a pinned image: bare, with the blobs on one host, and without a peer that delivers."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from deploy.slices.host import Slice
from deploy.slices.sharing import PeerSlice, SharedSlice, SharingSlice
from roles import registry
from roles.registry.operations import pull_id, texts
from tests.roles.fake import Ran, run
from tests.roles.slices import IMAGE, a_slice

NAMES = ("a", "b", "c")
HEX = "5" * 64
SHARED = replace(IMAGE, digest=f"sha256:{HEX}", shared_port=7399)
KEY = (SHARED.files_name, SHARED.digest)
PULL, SHARE = f"enginehouse-pull@{pull_id(SHARED)}.service", f"enginehouse-share@image-{'5' * 12}.service"
BLOBS = f"/var/lib/enginehouse/blobs/{HEX}"
OFFER = {"digest": "d" * 64, "files": {HEX: [2, HEX]}}
NOTHING, ALL = "ActiveState=inactive", "image=sha256:1\nActiveState=inactive\nblobs=1"
FAILED = "ActiveState=inactive\nResult=success\nExecMainStatus=3"
CAME = "ActiveState=active\nResult=success\npublished=1"


def mine_of(name: str) -> Slice:
    """The slice of a host that shares the image with two others."""
    places = {host: f"10.0.0.{number}:7400" for number, host in enumerate(NAMES, 1)}
    here = places.pop(name)
    others = tuple(PeerSlice(host=f"@fake/{host}", place=place) for host, place in places.items())
    shared = SharedSlice(model=KEY[0], revision=KEY[1], port=7400, here=here, peers=others)
    sharing = SharingSlice(address=here[:-5], files=(shared,))
    return a_slice(host=f"@fake/{name}", image=SHARED, sharing=sharing, weights=())


class Host:
    """A host's answers: it has no image until its pull has run, or the blobs have arrived."""

    def __init__(self, inspected: str = NOTHING, awaited: str = CAME) -> None:
        self.inspected, self.awaited = inspected, awaited
        placed = "\n".join(f"{text.wanted_fact} {text.path}" for text in texts(mine_of("a")))
        self.answers: dict[Any, Any] = {
            re.compile(f"systemctl start --no-block {PULL}"): self._pulled,
            "%n %a %U": placed,
            "docker image inspect": lambda command: self.inspected,
            "echo offer=": f"offer={json.dumps(OFFER)}\nActiveState=active\nResult=success",
            "echo published=": self._awaited,
            "systemctl show": "ActiveState=inactive\nResult=success",
        }

    def _pulled(self, command: str) -> str:
        self.inspected = ALL
        return ""

    def _awaited(self, command: str) -> str:
        self.inspected = f"{NOTHING}\nblobs=1" if self.awaited == CAME else NOTHING
        return self.awaited


def play(**hosts: Host) -> Ran:
    """Runs `begin` and `finish` on all three hosts."""

    def story() -> None:
        from pyinfra import host

        mine = mine_of(host.name.removeprefix("@fake/"))
        registry.begin(mine)
        registry.finish(mine)

    return run(story, answers={name: host.answers for name, host in hosts.items()}, hosts=NAMES)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gevent.sleep", lambda seconds=0: None)


def heard(ran: Ran, name: str, words: str) -> list[str]:
    """Executed commands of a host that contain `words`, each with its standard input."""
    texts_of_commands = (f"{call.command}\n{call.stdin}" for call in ran.shell[name] if call.executing)
    return [text for text in texts_of_commands if words in text]


def order(ran: Ran, name: str) -> list[str]:
    """The units that a host was asked to start, in order."""
    starts = heard(ran, name, "start --no-block")
    return ["share" if SHARE in text else "pull" for text in starts]


def first() -> str:
    """The host that asks the registry if no host has the image."""
    return min(NAMES, key=lambda name: hashlib.sha256(f"{KEY} @fake/{name}".encode()).digest())


def test_the_image_runs_under_its_pinned_digest_from_loopback() -> None:
    assert SHARED.pull_reference == f"127.0.0.1:7399/nvidia/tritonserver@sha256:{HEX}"
    assert SHARED.origin_reference == f"nvcr.io/nvidia/tritonserver@sha256:{HEX}"


def test_the_pull_knows_origin_and_blobs() -> None:
    settings = next(json.loads(text.content) for text in texts(mine_of("a")) if "/pull/" in text.path)
    assert settings["reference"] == SHARED.pull_reference
    assert settings["shared"] == {"origin": SHARED.origin_reference, "port": 7399, "blobs": BLOBS, "ca_file": ""}


def test_nothing_is_done_if_every_host_has_the_image() -> None:
    ran = play(**{name: Host(ALL) for name in NAMES})
    assert (ran.changed, ran.would_change, ran.failed_hosts) == ((), (), ())


def test_on_bare_hosts_a_single_host_pulls_from_the_registry_and_the_others_from_it() -> None:
    ran = play(**{name: Host() for name in NAMES})
    assert ran.failed_hosts == ()
    assert {name: order(ran, name) for name in NAMES} == {
        name: ["pull", "share"] if name == first() else ["share", "pull"] for name in NAMES
    }


def test_a_host_without_the_image_gets_its_blobs_and_pulls_them_from_loopback() -> None:
    ran = play(a=Host(ALL), b=Host(), c=Host(ALL))
    assert (order(ran, "b"), ran.failed_hosts) == (["share", "pull"], ())
    (text,) = heard(ran, "b", f"cat > /run/enginehouse/share/{KEY[0]}.json")
    settings = json.loads(text.partition("\n")[2])
    assert (settings["target"], settings["offer"]) == (BLOBS, OFFER)
    assert settings["peers"] == {"10.0.0.1:7400": "@fake/a", "10.0.0.3:7400": "@fake/c"}


def test_blobs_that_other_hosts_do_not_deliver_come_from_the_registry() -> None:
    ran = play(a=Host(ALL), b=Host(awaited=FAILED), c=Host(ALL))
    assert (order(ran, "b"), ran.failed_hosts) == (["share", "pull"], ())


def test_a_host_that_lost_the_image_but_has_its_blobs_needs_no_other_host() -> None:
    ran = play(a=Host(ALL), b=Host(f"{NOTHING}\nblobs=1"), c=Host(ALL))
    assert (order(ran, "b"), ran.failed_hosts) == (["pull"], ())
