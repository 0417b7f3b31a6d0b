"""Fake hosts share a model: bare, with the model on one host or on all, and without a peer that delivers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from deploy.slices.host import Slice
from deploy.slices.sharing import PeerSlice, SharedSlice, SharingSlice
from roles import model_store
from roles._pyinfra import quiet
from roles._shipping import peers
from roles.model_store.operations import texts
from tests.roles.fake import Ran, run
from tests.roles.model_store.test_role import HUB, source
from tests.roles.slices import a_slice

__all__ = ["source"]

NAMES = ("a", "b", "c")
OFFER = {"digest": "d" * 64, "files": {"config.json": [2, "5" * 64]}}
LACKING, PUBLISHED = "model=chat\nActiveState=inactive", "model=chat\nmanifest=abc\nActiveState=inactive"
TOOL = "package\tpython3-libtorrent\t2.0.8\tii "
GIVES = f"offer={json.dumps(OFFER)}\nActiveState=active\nResult=success"
CAME = "ActiveState=active\nResult=success\npublished=1"
FAILED = "ActiveState=inactive\nResult=success\nExecMainStatus=3"
FULL = "ActiveState=failed\nResult=exit-code\nExecMainStatus=1"
TARGET = f"/var/lib/enginehouse/weights/chat/{'1' * 40}"
UNIT = "enginehouse-share@chat.service"
SUM = hashlib.sha256(f"{hashlib.sha256(b'tensors').hexdigest()}  model.safetensors\n".encode()).hexdigest()


def place(name: str) -> str:
    """The address at which a host shares the model."""
    return f"10.0.0.{NAMES.index(name) + 1}:7400"


def mine_of(name: str, **changes: Any) -> Slice:
    """The slice of a host that shares a model with two others."""
    others = tuple(
        PeerSlice(host=f"@fake/{name_of_peer}", place=place(name_of_peer))
        for name_of_peer in NAMES
        if name_of_peer != name
    )
    shared = SharedSlice(model="chat", revision=HUB.revision, port=7400, here=place(name), peers=others)
    sharing = SharingSlice(address=place(name)[:-5], files=(shared,))
    return a_slice(host=f"@fake/{name}", sharing=sharing, **({"weights": (HUB,)} | changes))


class Comes:
    """A host without the model until its own unit, peers or the control machine bring it."""

    def __init__(self, **made: Any) -> None:
        self.is_here = False
        here = {re.compile(words): self._comes for words in (r"^test -s /", r"host publish /")}
        self.answers = {**here, **host_that(self._store, self._comes, **made)}

    def _store(self, command: str) -> str:
        return PUBLISHED if self.is_here else LACKING

    def _comes(self, command: str) -> str:
        self.is_here = True
        return CAME


def host_that(store: Any, awaited: Any = CAME, gives: Any = GIVES, mine: Slice | None = None) -> Mapping[str, Any]:
    """A host's answers about published weights, its receiving unit and its sharing unit."""
    placed = "\n".join(f"{text.wanted_fact} {text.path}" for text in texts(mine or mine_of("a")))
    return {
        "%n %a %U": placed,
        "id -u": "value\tenginehouse-fetch\t990\nvalue\tenginehouse-share\t991",
        "dpkg-query": TOOL,
        "echo model=": store,
        "echo offer=": gives,
        "echo published=": awaited,
        "systemctl show": "ActiveState=inactive\nResult=success",
    }


def play(answers: Mapping[str, Mapping[str, Any]], **changes: Any) -> Ran:
    """Begin and finish on all three hosts."""

    def story() -> None:
        from pyinfra import host

        mine = mine_of(host.name.removeprefix("@fake/"), **changes)
        model_store.begin(mine)
        model_store.finish(mine)

    return run(story, answers=answers, hosts=NAMES)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gevent.sleep", lambda seconds=0: None)


def heard(ran: Ran, name: str, words: str) -> list[str]:
    """Executed commands of a host that contain `words`, each with its standard input."""
    texts_of_commands = (f"{call.command}\n{call.stdin}" for call in ran.shell[name] if call.executing)
    return [text for text in texts_of_commands if words in text]


def settings_of(ran: Ran, name: str) -> dict[str, Any]:
    """The settings that a host's program got."""
    (text,) = heard(ran, name, "cat > /run/enginehouse/share/chat.json")
    return dict(json.loads(text.partition("\n")[2]))


def first() -> str:
    """The host that fetches the model if no host has it."""
    return min(NAMES, key=lambda name: hashlib.sha256(f"{('chat', HUB.revision)} @fake/{name}".encode()).digest())


def test_nothing_is_done_if_every_host_has_the_model() -> None:
    ran = play(dict.fromkeys(NAMES, host_that(PUBLISHED)))
    assert (ran.changed, ran.would_change, ran.failed_hosts) == ((), (), ())


def test_a_host_without_the_model_gets_it_from_complete_hosts() -> None:
    ran = play({"a": host_that(PUBLISHED), "b": Comes().answers, "c": host_that(PUBLISHED)})
    assert ran.failed_hosts == ()
    assert ran.on("b").changed == ("Model store | Get weights from other hosts",)
    assert ran.on("a").changed == ran.on("c").changed == ()
    assert settings_of(ran, "b")["offer"] == OFFER
    assert settings_of(ran, "a")["offer"] is None


def test_sender_and_receivers_get_each_other_s_addresses() -> None:
    ran = play({"a": host_that(PUBLISHED), "b": Comes().answers, "c": Comes().answers})
    assert settings_of(ran, "a") == {
        "target": TARGET,
        "folder": "/var/lib/enginehouse/sharing/chat",
        "offer": None,
        "here": place("a"),
        "peers": {place("b"): "@fake/b", place("c"): "@fake/c"},
        "bytes_per_second": 0,
        "seed_seconds": 3600,
        "patience_seconds": 60,
        "least_bytes_per_second": 65536,
    }
    assert settings_of(ran, "c")["peers"] == {place("a"): "@fake/a", place("b"): "@fake/b"}


def test_on_bare_hosts_a_single_host_fetches_and_the_others_get_the_model_from_it() -> None:
    ran = play({name: Comes().answers for name in NAMES})
    starting = "systemctl start --no-block enginehouse-weights@chat.service"
    assert [name for name in NAMES if heard(ran, name, starting)] == [first()]
    assert all(heard(ran, name, f"systemctl restart --no-block {UNIT}") for name in NAMES)
    assert (ran.failed_hosts, settings_of(ran, first())["offer"]) == ((), None)


def test_files_that_peers_do_not_deliver_are_fetched_from_the_hub() -> None:
    ran = play({"a": host_that(PUBLISHED), "b": host_that(LACKING, FAILED), "c": host_that(PUBLISHED)})
    assert ran.on("b").changed[-1] == "Model store | Fetch weights that other hosts did not send"
    assert ran.failed_hosts == ()


def test_hosts_that_never_offer_leave_the_model_to_the_direct_fetch() -> None:
    nothing = "offer=\nActiveState=inactive\nResult=success"
    ran = play(
        {"a": host_that(PUBLISHED, gives=nothing), "b": host_that(LACKING), "c": host_that(PUBLISHED, gives=nothing)}
    )
    assert "weights of chat: no host shares them" in "\n".join(ran.log)
    assert ran.on("b").changed[-1] == "Model store | Fetch weights that other hosts did not send"
    assert heard(ran, "b", "cat > /run/enginehouse/share/chat.json") == []


def test_a_host_that_cannot_take_it_fails_alone_and_says_why() -> None:
    full = {**host_that(LACKING, FULL), "journalctl": "rev: needs 9 MiB more"}
    ran = play({"a": host_that(PUBLISHED), "b": full, "c": host_that(PUBLISHED)})
    assert (ran.failed_hosts, "rev: needs 9 MiB more" in "\n".join(ran.log)) == (("b",), True)


def test_a_host_without_the_tool_gets_it_once() -> None:
    bare = {**host_that(PUBLISHED), "dpkg-query": ""}
    ran = play({"a": bare, "b": host_that(PUBLISHED), "c": host_that(PUBLISHED)})
    assert ran.on("a").changed == ("Model store | Install the programs of sharing",)


def test_the_limit_of_shared_files_is_read_in_bytes_per_second() -> None:
    assert [peers.bytes_per_second(text) for text in ("", "80m", "1.5k", "100")] == [0, 80 << 20, 1536, 102_400]


def test_weights_that_are_sent_are_sent_to_one_host(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roles.model_store.rsync.Rsync.execute", lambda *_: True)
    local = replace(source, revision=HUB.revision)
    monkeypatch.setattr(f"{__name__}.PUBLISHED", f"model=chat\nmanifest={SUM}\nActiveState=inactive")
    ran = play({name: Comes(mine=mine_of("a", weights=(local,))).answers for name in NAMES}, weights=(local,))
    assert [name for name in NAMES if any("rsync" in command for command in ran.on(name).commands)] == [first()]
    assert ran.failed_hosts == ()


def test_complete_hosts_are_known_before_the_first_host_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A serving host reaches its steps when a bare one begins to fetch; with `-y`, no host is asked before."""
    noted = dict[str, bool]()
    monkeypatch.setattr(peers.Board, "note", lambda self, name, weights, has_it: noted.setdefault(name, has_it))

    def story() -> None:
        from pyinfra import host

        mine = mine_of(host.name.removeprefix("@fake/"))
        model_store.begin(mine)
        model_store.finish(mine)
        quiet.recheck()
        quiet.leave_out_unchanged()

    untidy = {**host_that(PUBLISHED), "dpkg-query": ""}
    answers = {"a": untidy, "b": host_that(LACKING), "c": host_that(PUBLISHED)}
    run(story, answers=answers, hosts=NAMES, detect_changes=False, dry=True)
    assert noted == {"@fake/a": True, "@fake/b": False, "@fake/c": True}
