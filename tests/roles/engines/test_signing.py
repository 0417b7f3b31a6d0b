"""Judging and signing on the control machine, with the real ssh-keygen and the real check of the host."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy.slices.host import EngineSlice
from deploy.spec import EngineTrust
from roles._pyinfra.steps import CachedFact, step
from roles.engines import trust as signatures
from roles.engines.facts import Having
from roles.engines.signing import Sign
from tests.roles.engines.samples import FINGERPRINT, UNJUDGED, a_replay, an_engine
from tests.roles.fake import Ran, run


def built(folder: Path, engine: EngineSlice, **changes: Any) -> Path:
    """A directory after a build, not signed yet; named by its fingerprint."""
    place = folder / engine.fingerprint
    place.mkdir()
    (place / "rank0.engine").write_bytes(b"engine")
    (place / "config.json").write_text("{}")
    (place / "answers.jsonl").write_text(
        '{"prompt": "one", "tokens": [1, 2, 3]}\n{"prompt": "two", "tokens": [4, 5]}\n'
    )
    files = {name: described(place / name) for name in ("config.json", "rank0.engine")}
    record = {
        "fingerprint": engine.fingerprint,
        "fields": engine.fields,
        "model": engine.model,
        "name": engine.name,
        "built": {"host": "host", "began": "", "ended": "", "seconds": {}, "image_digest": "", "driver": ""},
        "files": files,
    }
    (place / "engine.json").write_text(json.dumps(record | changes, indent=2, sort_keys=True) + "\n")
    return place


def described(file: Path) -> dict[str, object]:
    """A file's size and checksum, as engine.json has them."""

    return {"bytes": file.stat().st_size, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def sealed(place: Path, trust: EngineTrust) -> Path:
    """The directory, signed."""
    (place / "engine.json.sig").write_bytes(signatures.sign((place / "engine.json").read_bytes(), trust))
    return place


def signing(engine: EngineSlice, trust: EngineTrust, place: Path, replies: Any = "") -> Ran:
    """`Sign` on a host with the files in `place`."""

    def file(command: str) -> str:
        name = command.split()[3].rstrip(";").rpartition("/")[2]
        carried = place / name
        return f"present:\n{base64.encodebytes(carried.read_bytes()).decode()}" if carried.exists() else ""

    answers = {"base64 -d": "", "then echo present:": file, "host engine verify": replies}
    reading = CachedFact(Having, {"paths": (), "models": ()})
    return run(lambda: step(reading, lambda _: [Sign(engine, trust)], name="Engines | Sign"), answers=answers)


def test_a_built_engine_is_signed_over_its_record(trust: EngineTrust, tmp_path: Path) -> None:
    ran = signing(an_engine(), trust, built(tmp_path, an_engine()))
    sent = next(heard.stdin for heard in ran.shell["host"] if "engine.json.sig" in heard.command)
    assert (ran.failed_hosts, base64.b64decode(sent)[:29]) == ((), b"-----BEGIN SSH SIGNATURE-----")


def test_a_signature_made_here_passes_the_host_s_own_check(trust: EngineTrust, tmp_path: Path) -> None:
    assert signatures.problem_of(sealed(built(tmp_path, an_engine()), trust), trust) == ""


def test_another_key_does_not_pass_it(trust: EngineTrust, tmp_path: Path) -> None:
    place = sealed(built(tmp_path, an_engine()), trust)
    other_key = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other_key)], check=True)
    assert "is signed with a key that" in signatures.problem_of(place, EngineTrust(key=str(other_key)))
    friends = EngineTrust(key=str(other_key), signers=(Path(f"{trust.key}.pub").read_text(),))
    assert signatures.problem_of(place, friends) == ""


def test_a_byte_that_changed_does_not_pass_it(trust: EngineTrust, tmp_path: Path) -> None:
    place = sealed(built(tmp_path, an_engine()), trust)
    (place / "rank0.engine").write_bytes(b"enginE")
    assert "rank0.engine has the right size, but its content differs" in signatures.problem_of(place, trust)


def test_a_record_of_other_fields_is_not_signed(trust: EngineTrust, tmp_path: Path) -> None:
    ran = signing(an_engine(), trust, built(tmp_path, an_engine(), fields={"max_batch_size": 64}))
    assert ran.failed_hosts == ("host",)
    assert any("is another engine by its engine.json" in line for line in ran.log)


def test_a_reason_for_judging_nothing_is_signed_with_the_engine(trust: EngineTrust, tmp_path: Path) -> None:
    """The record keeps the reason for ever; the ledger has a copy."""
    ran = signing(an_engine(), trust, built(tmp_path, an_engine()))
    sent = next(heard.stdin for heard in ran.shell["host"] if "engine.json.enginehouse-new" in heard.command)
    record = json.loads(base64.b64decode(sent))
    assert (record["unjudged"], record["fingerprint"]) == (UNJUDGED, FINGERPRINT)
    assert f"[@fake/host] engine llama: signed unjudged: {UNJUDGED}" in ran.log


def test_an_engine_without_replay_or_reason_is_not_signed(trust: EngineTrust, tmp_path: Path) -> None:
    """The engine was signed before, and its signature is gone."""
    ran = signing(an_engine(unjudged=""), trust, built(tmp_path, an_engine()))
    assert ran.failed_hosts == ("host",)
    assert not any("engine.json.sig" in heard.command for heard in ran.shell["host"])
    assert any(
        "the signed engine is gone, and a new one would be signed without a comparison" in line for line in ran.log
    )


def test_good_answers_are_reported_in_one_line(trust: EngineTrust, tmp_path: Path) -> None:
    engine = an_engine(replay=a_replay(tmp_path))
    ran = signing(engine, trust, built(tmp_path, engine))
    assert "[@fake/host] engine llama: 100.0 % of 5 tokens equal (90.0 % wanted)" in ran.log


def test_other_answers_are_not_signed_and_shown_as_a_diff(trust: EngineTrust, tmp_path: Path) -> None:
    engine = an_engine(replay=a_replay(tmp_path))
    place = built(tmp_path, engine)
    (place / "answers.jsonl").write_text('{"prompt": "one", "tokens": [1, 9, 9]}\n')
    ran = signing(engine, trust, place)
    assert ran.failed_hosts == ("host",)
    assert not any("engine.json.sig" in heard.command for heard in ran.shell["host"])
    assert f"[@fake/host] engine llama ({FINGERPRINT}) does not answer as it should" in ran.log


def test_without_stored_answers_the_checkpoint_s_own_are_the_measure(trust: EngineTrust, tmp_path: Path) -> None:
    engine = an_engine(replay=a_replay(tmp_path, answers=""))
    place = built(tmp_path, engine)
    (place / "reference.jsonl").write_text('{"prompt": "one", "tokens": [1, 2, 3]}\n')
    assert "[@fake/host] engine llama: 100.0 % of 3 tokens equal (90.0 % wanted)" in signing(engine, trust, place).log


def test_an_engine_without_answers_is_not_signed(trust: EngineTrust, tmp_path: Path) -> None:
    engine = an_engine(replay=a_replay(tmp_path))
    place = built(tmp_path, engine)
    (place / "answers.jsonl").unlink()
    assert any("has no answers to the prompts of its replay" in line for line in signing(engine, trust, place).log)


def test_a_key_with_a_passphrase_is_refused_without_a_question(tmp_path: Path) -> None:
    key = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(key)], check=True)
    problem = signatures.unusable(EngineTrust(key=str(key)))
    assert problem is not None
    assert problem.attempt == (
        "name a key file without a passphrase, or add the key to your agent and name its .pub file"
    )


def test_a_key_in_an_agent_is_named_by_its_public_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "held"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            assert agent.poll() is None
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        subprocess.run(["ssh-add", "-q", str(key)], check=True)
        key.unlink()
        assert signatures.unusable(EngineTrust(key=f"{key}.pub")) is None
    finally:
        agent.terminate()
        agent.wait()


def test_signers_are_all_keys_with_what_they_may_sign(trust: EngineTrust) -> None:
    lines = signatures.signers(EngineTrust(key=trust.key, signers=("ssh-ed25519 AAAA friend",))).splitlines()
    assert lines[0].startswith('enginehouse namespaces="enginehouse-engine" ssh-ed25519 AAAA')
    assert lines[1] == 'enginehouse namespaces="enginehouse-engine" ssh-ed25519 AAAA'


def test_a_signature_the_host_does_not_accept_is_taken_away_again(trust: EngineTrust, tmp_path: Path) -> None:
    no = {"stdout": ["rank0.engine is missing"], "stderr": [], "success": False}
    ran = signing(an_engine(), trust, built(tmp_path, an_engine()), no)
    last = [heard.command for heard in ran.shell["host"]][-1]
    assert last.endswith(f"|| {{ rm -f /var/lib/enginehouse/engines/llama/{FINGERPRINT}/engine.json.sig; exit 1; }}")
    assert any("is not accepted by its host" in line for line in ran.log)
