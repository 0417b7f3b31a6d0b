"""Engines between a host, the control machine's cache and a store: with the real rsync, and a directory as the host."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy.refusals.errors import Refusal
from deploy.slices.host import EngineSlice
from deploy.spec import EngineStore, EngineTrust
from roles._pyinfra.steps import CachedFact, step
from roles.engines.carrying import Collect, Fetch
from roles.engines.defaults import Defaults
from roles.engines.facts import Having
from roles.engines.keep import Kept
from tests.roles.engines.samples import an_engine
from tests.roles.engines.test_signing import built, sealed
from tests.roles.fake import Ran, run

KEEPING = Defaults()


@pytest.fixture
def there(trust: EngineTrust, tmp_path: Path) -> EngineSlice:
    """A signed engine in a directory, which is the host of these tests."""
    (tmp_path / "host").mkdir()
    engine = an_engine()
    place = sealed(built(tmp_path / "host", engine), trust)
    return an_engine(path=str(place))


@pytest.fixture(autouse=True)
def the_host_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes rsync reach the host as a local directory."""
    monkeypatch.setattr("roles.engines.carrying.rsync_target", lambda host, with_sudo, path: ([], f"{path}/"))


def carry(command: Any, answers: dict[Any, Any] | None = None) -> Ran:
    """Runs a single command on a host."""
    reading = CachedFact(Having, {"paths": (), "models": ()})
    return run(lambda: step(reading, lambda _: [command], name="Engines | Carry"), answers=answers or {})


def names(place: Path) -> list[str]:
    """The files in a directory."""
    return sorted(path.name for path in place.iterdir())


WHOLE = ["answers.jsonl", "config.json", "engine.json", "engine.json.sig", "rank0.engine"]


def test_an_engine_is_collected_whole_and_checked(there: EngineSlice, trust: EngineTrust) -> None:
    kept = Kept(None, trust)
    assert carry(Collect(there, kept, KEEPING)).failed_hosts == ()
    assert (names(kept.cached(there)), kept.has(there)) == (WHOLE, True)


def test_a_collected_copy_that_differs_from_its_signature_is_thrown_away(
    there: EngineSlice, trust: EngineTrust
) -> None:
    (Path(there.path) / "rank0.engine").write_bytes(b"enginE")
    kept = Kept(None, trust)
    ran = carry(Collect(there, kept, KEEPING))
    assert (ran.failed_hosts, kept.has(there)) == (("host",), False)
    assert any("the received copy differs from the signed engine" in line for line in ran.log)


def test_a_store_copy_damaged_by_a_power_cut_is_sent_again(
    there: EngineSlice, trust: EngineTrust, tmp_path: Path
) -> None:
    """The copy's signature would make it count as stored, and every other machine would refuse the copy for ever."""
    place = tmp_path / "store" / there.name
    place.mkdir(parents=True)
    kept = Kept(EngineStore.directory(str(tmp_path / "store")), trust)
    half = cut(Path(there.path) / "rank0.engine", place / "rank0.engine")
    carry(Collect(there, kept, KEEPING))
    assert (kept.is_stored(there), half.read_bytes()) == (True, b"engine")


@pytest.mark.parametrize("kind", ["directory", "rsync", "rclone"])
def test_a_store_receives_an_engine_and_returns_it(
    there: EngineSlice, trust: EngineTrust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The three ways, the third through a stand-in of rclone with its two verbs."""
    (tmp_path / "store").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rclone").write_text(RCLONE)
    (tmp_path / "bin" / "rclone").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    kept = Kept(EngineStore(kind=kind, place=str(tmp_path / "store")), trust)
    assert not kept.is_stored(there)
    carry(Collect(there, kept, KEEPING))
    assert names(tmp_path / "store" / there.name) == WHOLE
    shutil.rmtree(kept.cached(there))
    assert (kept.has(there), names(kept.brought(there))) == (True, WHOLE)


def test_a_partially_removed_cached_copy_is_not_used(
    there: EngineSlice, trust: EngineTrust, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy's record may be the last file to be removed; the remaining files would be sent to a host."""
    kept = Kept(None, trust)
    carry(Collect(there, kept, KEEPING))
    (kept.cached(there) / "rank0.engine").unlink()
    with monkeypatch.context() as cut:
        cut.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
        with pytest.raises(Refusal):
            kept.check_again(there)
    assert (names(kept.cached(there))[1:], kept.has(there)) == (["config.json", "engine.json"], False)


RCLONE = """#!/bin/sh
# In rclone's place: `lsf FILE`, `copy [--exclude=NAME] FROM/ TO/`.
verb=$1; shift
case $verb in
  lsf) test -f "$1" && basename "$1";;
  copy) mkdir -p "$(eval echo \\${$#})" && exec rsync -r "$@";;
esac
"""


def test_a_store_without_the_signature_does_not_have_it(there: EngineSlice, trust: EngineTrust, tmp_path: Path) -> None:
    """The signature is sent last, so an interrupted copy does not count."""
    place = tmp_path / "store" / there.name
    place.mkdir(parents=True)
    (place / "engine.json").write_text("{}")
    assert not Kept(EngineStore.directory(str(tmp_path / "store")), trust).has(there)


def test_a_store_s_copy_signed_by_another_hand_is_refused(
    there: EngineSlice, trust: EngineTrust, tmp_path: Path
) -> None:
    another = tmp_path / "other"
    another.mkdir()
    place = tmp_path / "store" / there.name
    shutil.copytree(there.path, place)
    (place / "engine.json").write_text((place / "engine.json").read_text() + "\n")
    with pytest.raises(Refusal, match="differs from the signed engine"):
        Kept(EngineStore.directory(str(tmp_path / "store")), trust).brought(there)


def test_an_engine_arrives_aside_is_checked_there_and_renamed(
    there: EngineSlice, trust: EngineTrust, tmp_path: Path
) -> None:
    kept = Kept(None, trust)
    carry(Collect(there, kept, KEEPING))
    path = f"{tmp_path}/host/new/{there.fingerprint}"
    incoming = f"{tmp_path}/host/new/.{there.fingerprint}.incoming"
    Path(incoming).mkdir(parents=True)
    ran = carry(Fetch(an_engine(path=path), kept, KEEPING))
    commands = [heard.command for heard in ran.shell["host"] if heard.executing][1:]  # after the question
    assert commands == [
        f"if test -e {incoming}; then echo begun; else mkdir -p {incoming}; fi",
        f"/usr/bin/python3 -B /usr/local/lib/enginehouse/host engine verify {incoming} 2>&1",
        f"rm -rf {path} {path}.refused && sync {incoming}/engine.json && mv -T {incoming} {path}",
    ]
    assert names(Path(incoming)) == WHOLE


def cut(whole: Path, half: Path) -> Path:
    """A file after a power cut: size and time are right, the content is missing."""
    half.write_bytes(bytes(whole.stat().st_size))
    os.utime(half, ns=(whole.stat().st_atime_ns, whole.stat().st_mtime_ns))
    return half


def test_a_host_copy_damaged_by_a_power_cut_is_sent_again(
    there: EngineSlice, trust: EngineTrust, tmp_path: Path
) -> None:
    kept = Kept(None, trust)
    carry(Collect(there, kept, KEEPING))
    incoming = tmp_path / "host" / "new" / f".{there.fingerprint}.incoming"
    incoming.mkdir(parents=True)
    half = cut(kept.cached(there) / "rank0.engine", incoming / "rank0.engine")
    engine = an_engine(path=f"{tmp_path}/host/new/{there.fingerprint}")
    carry(Fetch(engine, kept, KEEPING), {"then echo begun": "begun"})
    assert half.read_bytes() == b"engine"


def test_a_collected_copy_damaged_by_a_power_cut_is_sent_again(there: EngineSlice, trust: EngineTrust) -> None:
    kept = Kept(None, trust)
    cut(Path(there.path) / "rank0.engine", kept.staging(there) / "rank0.engine")
    assert carry(Collect(there, kept, KEEPING)).failed_hosts == ()
    assert (kept.cached(there) / "rank0.engine").read_bytes() == b"engine"


def test_an_engine_that_the_host_rejects_is_not_published(
    there: EngineSlice, trust: EngineTrust, tmp_path: Path
) -> None:
    kept = Kept(None, trust)
    carry(Collect(there, kept, KEEPING))
    (tmp_path / "host" / "new" / f".{there.fingerprint}.incoming").mkdir(parents=True)
    engine = an_engine(path=f"{tmp_path}/host/new/{there.fingerprint}")
    no = {"stdout": ["signed by nobody"], "stderr": [], "success": False}
    ran = carry(Fetch(engine, kept, KEEPING), {"host engine verify": no})
    assert ran.failed_hosts == ("host",)
    assert not any("mv -T" in heard.command for heard in ran.shell["host"])
    assert any(line.endswith("found      signed by nobody") for line in ran.log)


def test_a_corrupt_cached_copy_is_removed(there: EngineSlice, trust: EngineTrust, tmp_path: Path) -> None:
    kept = Kept(None, trust)
    carry(Collect(there, kept, KEEPING))
    (kept.cached(there) / "rank0.engine").write_bytes(b"enginE")
    (tmp_path / "host" / "new" / f".{there.fingerprint}.incoming").mkdir(parents=True)
    no = {"stdout": ["rank0.engine has another content"], "stderr": [], "success": False}
    ran = carry(
        Fetch(an_engine(path=f"{tmp_path}/host/new/{there.fingerprint}"), kept, KEEPING), {"host engine verify": no}
    )
    assert (ran.failed_hosts, kept.has(there)) == (("host",), False)


def test_a_copy_that_another_inventory_s_key_signed_is_not_there_and_makes_room(
    there: EngineSlice, trust: EngineTrust, tmp_path: Path
) -> None:
    kept = Kept(None, trust)
    carry(Collect(there, kept, KEEPING))
    key = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    another = Kept(None, EngineTrust(key=str(key)))
    assert (kept.has(there), another.has(there)) == (True, False)
    sealed(Path(there.path), another.trust)
    assert carry(Collect(there, another, KEEPING)).failed_hosts == ()
    assert (kept.has(there), another.has(there)) == (False, True)
