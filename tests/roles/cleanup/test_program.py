"""The program that cleans up: removed files, and files that the plan or a release of the host uses."""

from __future__ import annotations

import json
import os

import pytest

from host import clean_up
from tests.roles.cleanup.spares import Host


def test_cleanup_leaves_releases_to_swaps_and_removes_their_stale_caches(host: Host) -> None:
    """The number has its own setting; with two different ones the smaller would win unnoticed."""
    host.release("tried", 1)
    host.release("older", 2)
    host.make("cache/older")
    host.make("cache/gone")
    host.call()
    assert (host.has("releases"), host.has("cache")) == (["before", "now", "older", "tried"], ["older"])


def test_files_of_the_previous_release_stay_at_any_age(host: Host) -> None:
    (host.root / "releases/before/run").write_text(f"source={host.root}/weights/llama/r1,target=x")
    for age, name in enumerate(("r4", "r3", "r2", "r1")):
        host.make(f"weights/llama/{name}", age)
    host.call(weights=[str(host.root / "weights/llama/r4")])
    assert host.has("weights/llama") == ["r1", "r3", "r4"]


def test_a_partial_fetch_is_not_removed_as_an_unused_revision(host: Host) -> None:
    host.make("weights/llama/.r5.partial", 9)
    host.make("weights/llama/r1", 1)
    host.call()
    assert host.has("weights/llama") == [".r5.partial", "r1"]


def test_cleanup_keeps_the_newest_engine_and_a_failed_build(host: Host) -> None:
    for age, name in enumerate(("a" * 16, "b" * 16, "c" * 16)):
        host.make(f"engines/llama/{name}", age)
    host.make(f"engines/llama/{'d' * 16}.failed", 1)
    host.make(f"engines/llama/{'e' * 16}.refused", 2)
    host.make(f"engines/llama/.{'f' * 16}.staging", 3)
    host.days_pass(2)
    host.call(engines=[str(host.root / "engines/llama" / ("c" * 16))])
    assert host.has("engines/llama") == [f".{'f' * 16}.staging", "a" * 16, "c" * 16, f"{'d' * 16}.failed"]


def test_an_image_no_release_uses_goes_with_its_record(host: Host) -> None:
    for name in ("new", "old", "older"):
        host.image(name)
    host.call()
    assert ["docker", "image", "rm", "older"] in host.docker
    assert host.has("images") == ["new.json", "old.json"]


def test_the_blobs_of_an_image_go_with_the_last_record_that_names_them(host: Host) -> None:
    for blobs in ("blobs/a", "blobs/b"):
        host.make(blobs)
        (host.root / "blobs" / f".{blobs[-1]}.offer.json").write_text("{}")
    host.image("new", "blobs/a")
    host.image("new-by-another-port", "blobs/a")
    host.image("older", "blobs/b")
    host.call()
    assert host.has("images") == ["new.json"]
    assert host.has("blobs") == [".a.offer.json", "a"]


def test_an_image_some_container_uses_stays(host: Host) -> None:
    host.image("older")
    host.containers = "0123456789ab"
    host.call()
    assert host.has("images") == ["older.json"]


@pytest.mark.parametrize("fault", [{"active": "failed"}, {"active": "activating"}, {"swap": "activating"}])
def test_everything_stays_while_a_server_does_not_serve(host: Host, fault: dict[str, str]) -> None:
    host.make("weights/llama/r2", 1)
    host.make("weights/llama/r1", 2)
    vars(host).update(fault)
    host.call()
    assert host.has("weights/llama") == ["r1", "r2"]


def test_everything_stays_after_a_cut_swap(host: Host) -> None:
    host.make("cache/gone")
    (host.root / "servers/main/swap.json").write_text("{}")
    host.call()
    assert host.has("cache") == ["gone"]


def test_listing_names_the_removals_and_changes_nothing(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.make("weights/llama/r2", 1)
    host.make("weights/llama/r1", 2)
    host.call("list")
    why = "no planned, current or previous release uses it, and 1 newer ones are kept"
    assert capsys.readouterr().out == f"{host.root}/weights/llama/r1 (1 MiB): {why}\n"
    assert host.has("weights/llama") == ["r1", "r2"]


def test_a_second_cleanup_finds_nothing(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.make("weights/llama/r2", 1)
    host.make("weights/llama/r1", 2)
    host.image("older")
    host.call()
    capsys.readouterr()
    host.call("list")
    assert capsys.readouterr().out == ""


def test_leftovers_of_an_interrupted_removal_are_deleted(host: Host) -> None:
    host.make("weights/llama/.r1.removing")
    host.call()
    assert host.has("weights/llama") == []


def test_a_transfer_of_an_engine_goes_once_the_engine_is_there(host: Host) -> None:
    """The files of another engine may still be arriving."""
    host.make(f"engines/llama/{'a' * 16}")
    host.make(f"engines/llama/.{'a' * 16}.incoming", 1)
    host.make(f"engines/llama/.{'b' * 16}.incoming", 1)
    host.days_pass(2)
    host.call()
    assert host.has("engines/llama") == [f".{'b' * 16}.incoming", "a" * 16]


def test_engines_of_the_current_and_the_previous_release_stay_however_old(host: Host) -> None:
    """The mounts of both releases name the engines that they load; a rollback needs them again."""
    for age, name in enumerate("abcd"):
        host.make(f"engines/llama/{name * 16}", age)
    for release, name in (("now", "c"), ("before", "d")):
        (host.root / f"releases/{release}/run").write_text(f"source={host.root}/engines/llama/{name * 16},target=x")
    host.days_pass(2)
    host.call()
    assert host.has("engines/llama") == ["a" * 16, "c" * 16, "d" * 16]


def test_an_abandoned_transfer_is_removed_after_a_week(host: Host) -> None:
    for path in ("weights/llama/.old.partial", "releases/.old.partial"):
        made = host.make(path)
        os.utime(made / "file", (1_000_000_000, 1_000_000_000))
    host.call()
    assert (host.has("weights/llama"), host.has("releases")) == ([], ["before", "now"])


def test_a_transfer_that_was_written_to_lately_stays(host: Host) -> None:
    host.make("weights/llama/.new.partial")
    host.call()
    assert host.has("weights/llama") == [".new.partial"]


def test_an_llm_beside_triton_keeps_its_weights_its_image_and_its_cache(host: Host) -> None:
    """The previous release's are kept too, so that a rollback downloads nothing."""
    record = json.loads((host.root / "releases/before/server.json").read_text())
    record["llm"] = {"image": "vllm@sha256:1"}
    (host.root / "releases/before/server.json").write_text(json.dumps(record))
    (host.root / "releases/before/llm").mkdir()
    (host.root / "releases/before/llm/run").write_text(f"source={host.root}/weights/llama/r1,target=x")
    for age, name in enumerate(("r4", "r3", "r2", "r1")):
        host.make(f"weights/llama/{name}", age)
    host.make("cache/before.llm")
    host.make("cache/gone.llm")
    host.call(weights=[str(host.root / "weights/llama/r4")])
    assert host.has("weights/llama") == ["r1", "r3", "r4"]
    assert host.has("cache") == ["before.llm"]
    assert clean_up.images_of(host.root / "releases/before") == {"old", "vllm@sha256:1"}
