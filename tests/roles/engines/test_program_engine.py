"""The program that decides if an engine may be loaded, with real keys and real signatures."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from roles._shipping.programs import SOURCE
from tests.roles.engines.building import FINGERPRINT

PLACE = Path("engines/llama") / FINGERPRINT


class Shop:
    """A directory with one signed engine, a trusted key and an untrusted one."""

    def __init__(self, here: Path) -> None:
        self.here, self.engine = here, here / PLACE
        self.engine.mkdir(parents=True)
        for name in ("ours", "foreign"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(here / name)]
            subprocess.run(argv, check=True)
        key = " ".join((here / "ours.pub").read_text().split()[:2])
        (here / "signers").write_text(f'enginehouse namespaces="enginehouse-engine" {key}\n')
        self.files = {"rank0.engine": b"engine" * 1000, "config.json": b"{}"}
        for name, content in self.files.items():
            (self.engine / name).write_bytes(content)
        self.write()
        self.sign("ours")

    def write(self, **changes: object) -> None:
        """Writes engine.json in the form of a build."""
        files = {name: {"bytes": len(x), "sha256": hashlib.sha256(x).hexdigest()} for name, x in self.files.items()}
        record = {"fingerprint": FINGERPRINT, "built": {"image_digest": "sha256:feed"}, "files": files} | changes
        (self.engine / "engine.json").write_text(json.dumps(record))

    def sign(self, key: str, namespace: str = "enginehouse-engine") -> None:
        """Writes engine.json.sig, as the control machine does."""
        (self.engine / "engine.json.sig").unlink(missing_ok=True)
        argv = ["ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", str(self.here / key)]
        subprocess.run([*argv, str(self.engine / "engine.json")], check=True)

    def says(self, *options: str, verb: str = "verify", status: int = 1, path: str = "/usr/bin:/bin") -> str:
        """The program's problem, without the directory's name; empty if the engine is good."""
        argv = [sys.executable, str(SOURCE), "engine", verb, str(self.engine), *options]
        environment = {"PATH": path, "ENGINEHOUSE_SIGNERS": str(self.here / "signers")}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True)
        assert done.returncode == (status if verb == "verify" and done.stderr else 0), done.stderr
        return done.stderr.replace(f"{self.engine}: ", "").strip()


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_a_signed_and_whole_engine_may_be_loaded(shop: Shop) -> None:
    assert (shop.says(), shop.says("--quick"), shop.says("--image", "sha256:feed")) == ("", "", "")


def test_one_flipped_byte_is_found(shop: Shop) -> None:
    content = bytearray(shop.files["rank0.engine"])
    content[77] ^= 1
    (shop.engine / "rank0.engine").write_bytes(content)
    assert shop.says() == "rank0.engine has the right size, but its content differs from the signed content"


def test_quick_reads_no_content(shop: Shop) -> None:
    (shop.engine / "rank0.engine").write_bytes(b"ENGINE" * 1000)
    assert shop.says("--quick") == ""


def test_a_cut_file_is_found_quickly(shop: Shop) -> None:
    (shop.engine / "rank0.engine").write_bytes(b"engine")
    assert shop.says("--quick") == "rank0.engine has 6 bytes and should have 6,000"


def test_an_unsigned_engine_is_not_loaded(shop: Shop) -> None:
    (shop.engine / "engine.json.sig").unlink()
    assert shop.says("--quick") == "engine.json.sig is missing: nobody has signed this engine"


def test_a_foreign_signature_is_distinguished_from_a_broken_one(shop: Shop) -> None:
    shop.sign("foreign")
    assert shop.says() == f"it is signed with a key that is not in {shop.here}/signers"


def test_a_changed_record_fails_its_signature(shop: Shop) -> None:
    shop.write(fingerprint="f" * 16)
    assert shop.says() == "engine.json.sig does not match engine.json: one of the two was changed"


def test_a_signature_for_another_purpose_does_not_count(shop: Shop) -> None:
    shop.sign("ours", namespace="git")
    assert shop.says() == "engine.json.sig does not match engine.json: one of the two was changed"


def test_a_host_without_signers_can_judge_nothing(shop: Shop) -> None:
    """Exit 2 instead of 1: the engine may be good, and is not moved aside."""
    (shop.here / "signers").unlink()
    assert shop.says(status=2) == (
        f"{shop.engine} cannot be checked here: {shop.here}/signers is missing, so this host cannot check any signature"
    )


def test_a_host_without_ssh_keygen_can_judge_nothing(shop: Shop) -> None:
    assert "ssh-keygen" in shop.says(status=2, path="/nonexistent")


def test_a_directory_that_is_not_there_is_no_engine(shop: Shop) -> None:
    shop.engine.rename(shop.here / "gone")
    assert shop.says() == "engine.json is missing, so the engine is unknown"


def test_a_missing_file_is_found(shop: Shop) -> None:
    (shop.engine / "config.json").unlink()
    assert shop.says() == "config.json is missing"


def test_an_engine_file_that_was_never_signed_is_found(shop: Shop) -> None:
    (shop.engine / "rank1.engine").write_bytes(b"more")
    assert shop.says("--quick") == "rank1.engine is not in engine.json"


def test_a_link_is_not_the_file_that_was_signed(shop: Shop) -> None:
    (shop.here / "elsewhere").write_bytes(shop.files["rank0.engine"])
    (shop.engine / "rank0.engine").unlink()
    (shop.engine / "rank0.engine").symlink_to(shop.here / "elsewhere")
    assert shop.says() == "rank0.engine is no plain file"


def test_the_log_and_the_answers_need_no_signature(shop: Shop) -> None:
    for name in ("build.log", "answers.jsonl", "reference.jsonl"):
        (shop.engine / name).write_text("")
    assert shop.says() == ""


def test_a_signed_engine_in_the_wrong_directory_is_found(shop: Shop) -> None:
    shop.write(fingerprint="f" * 16)
    shop.sign("ours")
    assert shop.says() == "engine.json is that of engine ffffffffffffffff"


def test_a_copy_that_is_just_arriving_may_have_any_name(shop: Shop) -> None:
    shop.engine = shop.engine.rename(shop.engine.with_name(f".{FINGERPRINT}.incoming"))
    assert shop.says() == ""


def test_an_engine_of_another_image_is_found(shop: Shop) -> None:
    assert shop.says("--image", "sha256:beef") == ("it was built with image sha256:feed, and sha256:beef is to load it")


def test_an_invalid_record_is_reported_in_words(shop: Shop) -> None:
    (shop.engine / "engine.json").write_text("[]")
    shop.sign("ours")
    assert shop.says().startswith("engine.json is not a record of an engine (")


def test_every_problem_is_listed(shop: Shop) -> None:
    (shop.engine / "config.json").unlink()
    (shop.engine / "rank1.engine").write_bytes(b"more")
    assert shop.says().splitlines() == ["rank1.engine is not in engine.json", "config.json is missing"]


def test_a_refused_engine_is_out_of_the_way_with_the_reason(shop: Shop) -> None:
    shop.says("a byte flipped", verb="refuse")
    aside = shop.engine.with_name(f"{FINGERPRINT}.refused")
    assert (shop.engine.exists(), json.loads((aside / "why.json").read_text())["why"]) == (False, "a byte flipped")


def test_refusing_twice_keeps_the_newer_one(shop: Shop) -> None:
    shop.says("first", verb="refuse")
    shop.engine.mkdir()
    shop.says("second", verb="refuse")
    aside = shop.engine.with_name(f"{FINGERPRINT}.refused")
    assert json.loads((aside / "why.json").read_text())["why"] == "second" and not (aside / "config.json").exists()
