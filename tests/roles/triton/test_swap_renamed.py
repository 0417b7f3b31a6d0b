"""The swap of a server that replaces others: they are stopped, and serve again if it does not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.roles.triton.swapping import FakeHost, server, swap


@pytest.fixture
def renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """`main` is new; until now `old` has served with its port and its GPU."""
    machine = FakeHost.with_releases(tmp_path, monkeypatch)
    machine.publish("before")
    machine.runs("old", "before")
    return machine


def test_a_renamed_server_serves_and_the_old_one_starts_no_more(renamed: FakeHost) -> None:
    assert (renamed.ask("one", instead_of=("old",)), renamed.links, renamed.active) == (0, ("one", ""), "active")
    assert renamed.of("old") == ("", "inactive")


def test_the_old_server_stops_before_the_new_server_starts(renamed: FakeHost) -> None:
    renamed.ask("one", instead_of=("old",))
    assert [call for call in renamed.calls if call != "reset-failed"] == ["stop", "stop", "stop", "start"]


def test_a_renamed_server_that_never_serves_leaves_the_old_one_serving_again(renamed: FakeHost) -> None:
    assert (renamed.ask("bad", instead_of=("old",)), renamed.links, renamed.active) == (1, ("", ""), "inactive")
    assert renamed.of("old") == ("before", "active")
    assert renamed.verdict["sentence"] == "bad does not serve; server old serves again"


def test_an_old_server_that_does_not_start_again_is_reported(
    renamed: FakeHost, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed.good.clear()
    renamed.ask("bad", instead_of=("old",))
    assert renamed.verdict["sentence"] == "bad does not serve; server old did not start again either"
    assert "before does not start either: its unit did not become active" in capsys.readouterr().err


def test_the_earlier_release_and_the_old_server_both_serve_again(renamed: FakeHost) -> None:
    renamed.ask("one")
    renamed.ask("bad", instead_of=("old",))
    assert (renamed.links, renamed.active, renamed.of("old")) == (("one", ""), "active", ("before", "active"))
    assert renamed.verdict["sentence"] == "bad does not serve; one is put back and serves; server old serves again"


def test_a_release_that_is_not_on_the_host_leaves_the_old_one_serving(renamed: FakeHost) -> None:
    assert (renamed.ask("gone", instead_of=("old",)), renamed.of("old")) == (1, ("before", "active"))
    assert renamed.calls == []


@pytest.mark.parametrize(("port", "gpu", "end"), [(8000, 1, "inactive"), (9000, 0, "inactive"), (9000, 1, "active")])
def test_only_servers_with_a_port_or_device_of_the_new_one_make_room(
    renamed: FakeHost, port: int, gpu: int, end: str
) -> None:
    renamed.publish("beside", port=port, gpu=gpu)
    renamed.runs("aux", "beside")
    renamed.ask("one", instead_of=("old", "aux"))
    assert (renamed.of("old"), renamed.of("aux")[1]) == (("", "inactive"), end)


def test_a_server_without_a_release_does_not_make_room(renamed: FakeHost) -> None:
    renamed.runs("aux", "")
    assert (renamed.ask("bad", instead_of=("aux",)), renamed.of("aux")) == (1, ("", "active"))


@pytest.mark.parametrize(("verb", "code"), [("undo", 0), ("recover", 1)])
@pytest.mark.parametrize("left", ["before", ""])
def test_after_a_cut_rename_only_the_old_server_starts(renamed: FakeHost, verb: str, code: int, left: str) -> None:
    renamed.runs("old", left)
    renamed.units["triton@old.service"] = "inactive"
    renamed.cut("", "one", instead_of={"old": "before"})
    assert (renamed.call(verb), renamed.links, renamed.active) == (code, ("", ""), "inactive")
    assert renamed.of("old") == ("before", "active")
    assert renamed.verdict["sentence"] == "the swap to one was interrupted; server old is started again"


def test_a_release_given_to_the_old_server_after_the_cut_stays(renamed: FakeHost) -> None:
    renamed.runs("old", "two")
    renamed.cut("", "one", instead_of={"old": "before"})
    assert (renamed.call("recover"), renamed.of("old")) == (1, ("two", "active"))


def test_the_old_server_cannot_start_before_the_swap_is_over(
    renamed: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[str]()
    end_swap = server.Server.end_swap
    monkeypatch.setattr(
        server.Server, "end_swap", lambda this: (seen.append(renamed.link("current", "old")), end_swap(this))
    )
    renamed.ask("one", instead_of=("old",))
    assert seen == [""]


def test_a_rename_that_was_cut_may_be_asked_for_again(renamed: FakeHost) -> None:
    renamed.cut("", "one", instead_of={"old": "before"})
    assert (renamed.ask("one", instead_of=("old",)), renamed.active, renamed.of("old")) == (
        0,
        "active",
        ("", "inactive"),
    )


def test_the_old_server_starts_even_if_the_swap_is_killed_during_its_rollback(
    renamed: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed.ask("one")
    monkeypatch.setattr(swap, "serves_again", lambda *which: sys.exit(137))
    with pytest.raises(SystemExit):
        renamed.ask("bad", instead_of=("old",))
    assert renamed.of("old") == ("before", "active")


def test_an_old_server_that_lost_its_release_has_nothing_to_serve_again(
    renamed: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.Server, "halt", lambda this: this.point("current", ""))
    assert renamed.ask("bad", instead_of=("old",)) == 1
    assert renamed.verdict["sentence"] == "bad does not serve; nothing served before, so the server is stopped"
