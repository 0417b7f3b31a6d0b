"""Bundles: a signed bundle is complete, or refused with the reason."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.bundle.contents import LIST, SIGNATURE, Contents, Part
from deploy.io import bundle_verify
from deploy.io.bundle_make import Order, confirm_room, downloads
from deploy.io.bundle_store import Store
from deploy.io.bundle_verify import confirm_whole, opened, unpack
from deploy.models.files import tokenizer_of
from deploy.refusals.errors import Refusal
from deploy.spec import EngineTrust
from tests.unit.bundles import BIG, COMMIT, FILES, key_pair, made
from tests.unit.samples import GPT_OSS, TODAY, main, plan


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> EngineTrust:
    """The operator's own key."""
    return key_pair(tmp_path_factory.mktemp("keys") / "own")


def refusal_of(directory: Path, trust: EngineTrust | None) -> Refusal:
    """The refusal of a bundle whose every byte is verified."""
    with pytest.raises(Refusal) as caught:
        confirm_whole(directory, opened(directory, trust))
    return caught.value


def test_a_bundle_is_whole_by_its_list_alone(tmp_path: Path, trust: EngineTrust) -> None:
    contents = made(tmp_path / "bundle", trust)
    assert opened(tmp_path / "bundle", trust).to_text() == contents.to_text()
    assert confirm_whole(tmp_path / "bundle", contents) == sum(map(len, FILES.values()))


def test_equal_files_are_kept_once(tmp_path: Path, trust: EngineTrust) -> None:
    made(tmp_path, trust, {"control/a": b"same", "control/b": b"same"})
    assert len(list((tmp_path / "objects").glob("*/*"))) == 1


def test_a_flipped_byte_is_refused_by_the_name_of_its_file(tmp_path: Path, trust: EngineTrust) -> None:
    made(tmp_path, trust)
    place = Store(tmp_path).place(hashlib.sha256(BIG).hexdigest())
    spoiled = bytearray(BIG)
    spoiled[70_000] ^= 1
    place.write_bytes(spoiled)
    refusal = refusal_of(tmp_path, trust)
    assert (refusal.kind, refusal.facts["seen"]) == (
        "bundle-changed",
        f"weights/example/mine/{COMMIT}/model.safetensors",
    )
    assert refusal.state == "nothing of the bundle was used; no host was changed"


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_missing_or_cut_part_is_refused_by_its_name(tmp_path: Path, trust: EngineTrust, damage: str) -> None:
    made(tmp_path, trust)
    place = Store(tmp_path).place(hashlib.sha256(b"a package").hexdigest())
    place.unlink() if damage == "gone" else place.write_bytes(b"a pac")
    refusal = refusal_of(tmp_path, trust)
    assert refusal.kind == "bundle-missing-part"
    assert "curl_1+b1_amd64.deb" in refusal.facts["seen"]


def test_a_key_beside_the_list_that_was_changed_is_refused(tmp_path: Path, trust: EngineTrust) -> None:
    made(tmp_path, trust)
    (tmp_path / "keys/debian-12-system.asc").write_text("another key\n")
    assert refusal_of(tmp_path, trust).facts["seen"] == "keys/debian-12-system.asc"


def test_a_foreign_signature_is_refused_and_a_further_signer_is_not(tmp_path: Path, trust: EngineTrust) -> None:
    stranger = key_pair(tmp_path / "stranger")
    made(tmp_path / "bundle", stranger)
    assert refusal_of(tmp_path / "bundle", trust).kind == "bundle-signature"
    believed = replace(trust, signers=((tmp_path / "stranger.pub").read_text(),))
    assert confirm_whole(tmp_path / "bundle", opened(tmp_path / "bundle", believed))


def test_a_list_changed_after_it_was_signed_is_refused(tmp_path: Path, trust: EngineTrust) -> None:
    made(tmp_path, trust)
    (tmp_path / LIST).write_text((tmp_path / LIST).read_text().replace("a test", "a fake"))
    assert refusal_of(tmp_path, trust).kind == "bundle-signature"


def test_an_engine_s_signature_signs_no_bundle(tmp_path: Path, trust: EngineTrust) -> None:
    """The namespaces differ, so that a signed record cannot pass as a list."""
    made(tmp_path, trust)
    (tmp_path / SIGNATURE).unlink()
    words = ["ssh-keygen", "-q", "-Y", "sign", "-n", "enginehouse-engine", "-f", trust.key, str(tmp_path / LIST)]
    subprocess.run(words, check=True)
    assert refusal_of(tmp_path, trust).kind == "bundle-signature"


@pytest.mark.parametrize("missing", [LIST, SIGNATURE])
def test_an_unfinished_bundle_is_refused_with_the_command_that_goes_on(
    tmp_path: Path, trust: EngineTrust, missing: str
) -> None:
    made(tmp_path, trust)
    (tmp_path / missing).unlink()
    (tmp_path / ".work").mkdir()
    refusal = refusal_of(tmp_path, trust)
    assert (refusal.kind, refusal.facts["seen"]) == ("bundle-unfinished", "an unfinished one")


@pytest.mark.parametrize("path", ["apt/../../etc/passwd", "/etc/passwd", "strange/file", "apt//x", "keys/a\nb"])
def test_a_list_that_leads_out_of_the_bundle_is_refused(tmp_path: Path, trust: EngineTrust, path: str) -> None:
    """A signed list is refused too, because the signer's machine may be compromised."""
    store = Store(tmp_path)
    sha256, size = store.write(b"x")
    text = Contents(parts=(Part(path=path, sha256=sha256, size=size, source=""),)).to_text()
    with pytest.raises(Refusal) as caught:
        Contents.of_text(text)
    assert caught.value.kind == "bundle-format"


@pytest.mark.parametrize(
    "paths", [("control/a", "control/a"), ("control/a", "control/a/b"), ("control/a.b", "control/a", "control/a/b")]
)
def test_a_list_with_conflicting_paths_is_refused(paths: tuple[str, ...]) -> None:
    parts = [{"path": path, "sha256": "a" * 64, "size": 1, "source": ""} for path in paths]
    content = {"format": 1, "packages": {}, "architecture": "amd64", "made": "", "base": ""}
    assert Contents.of_text(json.dumps(content | {"parts": parts[:1]})).parts
    for wrong in ({"parts": parts}, {"parts": [], "made": [1]}, {"parts": [], "architecture": {}}):
        with pytest.raises(Refusal, match="is not the list of a bundle"):
            Contents.of_text(json.dumps(content | wrong))


def test_a_pipe_on_a_foreign_medium_is_no_piece(tmp_path: Path) -> None:
    """A read of the pipe would wait for ever."""
    store = Store(tmp_path)
    store.place("a" * 64).parent.mkdir(parents=True)
    os.mkfifo(store.place("a" * 64).with_name(f"{'a' * 64}.000"))
    assert store.files("a" * 64) == [] and not store.has("a" * 64, 0)


def test_a_difference_without_its_base_is_refused_and_copied_over_it_is_whole(
    tmp_path: Path, trust: EngineTrust
) -> None:
    made(tmp_path / "base", trust)
    whole = made(tmp_path / "next", trust, FILES | {"control/new": b"new"}, base="5e" * 32)
    for sha256 in {part.sha256 for part in whole.parts if part.path in FILES and not part.path.startswith("keys")}:
        Store(tmp_path / "next").place(sha256).unlink()
    refusal = refusal_of(tmp_path / "next", trust)
    assert refusal.kind == "bundle-without-base"
    assert refusal.attempt.startswith(f"copy the difference over its base: cp -r {tmp_path}/next/. BASE")
    shutil.copytree(tmp_path / "next", tmp_path / "base", dirs_exist_ok=True)
    assert confirm_whole(tmp_path / "base", opened(tmp_path / "base", trust))


def test_a_split_bundle_has_no_larger_file_and_the_same_bytes(tmp_path: Path, trust: EngineTrust) -> None:
    contents = made(tmp_path, trust, split=1)
    assert max(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) == 1 << 20
    assert confirm_whole(tmp_path, contents)
    store, sha256 = Store(tmp_path), hashlib.sha256(BIG).hexdigest()
    assert len(store.files(sha256)) == 3
    for start in (0, 1, (1 << 20) - 1, 1 << 20, 2_500_000, len(BIG) - 1):
        assert b"".join(store.read(sha256, start)) == BIG[start:]


def test_bytes_verified_once_are_read_again_only_after_a_change(
    tmp_path: Path, trust: EngineTrust, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run verifies hundreds of gigabytes only once, but a changed file always."""
    monkeypatch.setattr(bundle_verify, "MEMORY", tmp_path / "memory.json")
    contents = made(tmp_path / "bundle", trust)
    assert confirm_whole(tmp_path / "bundle", contents, remember=True) > 0
    assert confirm_whole(tmp_path / "bundle", contents, remember=True) == 0
    place = Store(tmp_path / "bundle").place(hashlib.sha256(b"headers").hexdigest())
    place.write_bytes(b"HEADERS")
    os.utime(place, ns=(0, 0))
    with pytest.raises(Refusal):
        confirm_whole(tmp_path / "bundle", contents, remember=True)


def test_the_control_machine_s_part_is_unpacked_and_verified(tmp_path: Path, trust: EngineTrust) -> None:
    contents = made(tmp_path / "bundle", trust)
    assert unpack(tmp_path / "bundle", contents, tmp_path / "out") == len(b"a wheel")
    assert (tmp_path / "out/wheels/some.whl").read_bytes() == b"a wheel"
    Store(tmp_path / "bundle").place(hashlib.sha256(b"a wheel").hexdigest()).write_bytes(b"A wheel")
    with pytest.raises(Refusal):
        unpack(tmp_path / "bundle", contents, tmp_path / "again")
    assert [path for path in (tmp_path / "again").rglob("*") if path.is_file()] == [], "half of a file is no file"


def test_weights_are_in_a_bundle_whole_if_a_gateways_host_needs_their_tokenizer_alone(
    tmp_path: Path, trust: EngineTrust
) -> None:
    (serving,) = plan(**main(GPT_OSS)).slices
    front = replace(serving, host="a-front", weights=tuple(map(tokenizer_of, serving.weights)))
    order = Order(slices=(front, serving), needs=(), directory=tmp_path, trust=trust, report=print, today=TODAY)
    (fetched,) = (
        download.request["files"] for download in downloads(order, tmp_path) if "revision" in download.request
    )
    assert fetched == list(serving.weights[0].files)


def test_too_little_space_is_refused_after_the_sizes_are_printed(tmp_path: Path, trust: EngineTrust) -> None:
    lines = list[str]()
    order = Order(slices=(), needs=(), directory=tmp_path, trust=trust, report=lines.append, today=TODAY)
    with pytest.raises(Refusal) as caught:
        confirm_room(order, {"packages": 1 << 20, "images": 1 << 60})
    assert caught.value.kind == "bundle-no-room"
    assert lines[0] == "           1.0 MiB  packages"
