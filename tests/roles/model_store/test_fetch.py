"""The program that fetches weights, with a stand-in of a hub. More than 300 lines: one hub serves every case."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.models.files import TOKENIZER_FILES
from host import fetch
from tests.roles.web import Answer, Request, Web, serving

REVISION = "0123456789abcdef0123456789abcdef01234567"
LARGE, SMALL = b"tensors" * 1000, b'{"hidden_size": 8}'
PATTERNS = ["config.json", "*.safetensors"]


class FakeHub:
    """A hub with a single repository; large files are behind a redirect to a second server, as on real hubs."""

    def __init__(self, cdn: str = "") -> None:
        self.files = {"config.json": SMALL, "model.safetensors": LARGE, "notes.txt": b"no"}
        self.cdn = cdn
        self.content = dict(self.files)

    def answer(self, request: Request) -> Answer:
        if request.path.startswith("/api/"):
            return (
                200,
                {},
                json.dumps({"sha": REVISION, "siblings": [self.entry(name) for name in self.files]}).encode(),
            )
        name = request.path.rsplit("/", 1)[1]
        if self.cdn and name.endswith(".safetensors") and not request.path.startswith("/cdn/"):
            return 302, {"Location": f"{self.cdn}/cdn/{name}"}, b""
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        return (206 if start else 200), {}, self.content[name][start:]

    def entry(self, name: str) -> dict[str, Any]:
        content = self.files[name]
        blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
        large = {"lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}}
        return {"rfilename": name, "size": len(content), "blobId": blob, **(large if "safetensors" in name else {})}


@pytest.fixture
def hub() -> FakeHub:
    return FakeHub()


@pytest.fixture
def web(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """The hub, reachable and without waiting times."""
    monkeypatch.setattr(fetch.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(os, "sync", lambda: None)
    with serving(hub.answer) as running:
        yield running


def call(web: Web, tmp_path: Path, patterns: list[str] = PATTERNS) -> int:
    """The exit status of the program's steps, as the unit runs them."""
    return call_fetch(web, tmp_path, patterns) or fetch.main(["--publish", str(tmp_path / "settings.json")])


def call_fetch(web: Web, tmp_path: Path, patterns: list[str] = PATTERNS) -> int:
    """The exit status of the fetch, up to the step in which root publishes."""
    settings = tmp_path / "settings.json"
    changes = {"endpoint": web.url, "repository": "a/b", "revision": REVISION, "files": patterns, "ca_file": ""}
    settings.write_text(json.dumps(changes | {"target": str(tmp_path / "weights" / "m")}))
    return fetch.main(["--prepare", getpass.getuser(), str(settings)]) or fetch.main([str(settings)])


def test_only_the_files_asked_for_are_published(web: Web, tmp_path: Path) -> None:
    assert call(web, tmp_path) == 0
    assert sorted(os.listdir(tmp_path / "weights/m")) == ["config.json", "manifest.sha256", "model.safetensors"]


def test_the_manifest_has_the_checksums_of_all_files(web: Web, tmp_path: Path) -> None:
    call(web, tmp_path)
    assert (tmp_path / "weights/m/manifest.sha256").read_text() == (
        f"{hashlib.sha256(SMALL).hexdigest()}  config.json\n{hashlib.sha256(LARGE).hexdigest()}  model.safetensors\n"
    )


def test_a_second_fetch_asks_nothing(web: Web, tmp_path: Path) -> None:
    call(web, tmp_path)
    web.requests.clear()
    assert (call(web, tmp_path), web.requests) == (0, [])


def test_half_of_a_directory_without_its_manifest_makes_room(web: Web, tmp_path: Path) -> None:
    """An interrupted removal left the directory; every later fetch failed on it although all files were there."""
    half = tmp_path / "weights/m"
    half.mkdir(parents=True)
    (half / "model.safetensors").write_bytes(LARGE[:3000])
    (half / "left.safetensors").write_bytes(b"x")
    assert (call(web, tmp_path), (half / "model.safetensors").read_bytes()) == (0, LARGE)
    assert sorted(os.listdir(half)) == ["config.json", "manifest.sha256", "model.safetensors"]


def test_a_directory_that_another_run_published_meanwhile_is_not_removed(web: Web, tmp_path: Path) -> None:
    (tmp_path / ".m.partial").mkdir()
    (tmp_path / "m").mkdir()
    (tmp_path / "m/manifest.sha256").write_text("theirs")
    with pytest.raises(OSError, match="not empty"):
        fetch.publish(tmp_path / ".m.partial", tmp_path / "m", {})
    assert (tmp_path / "m/manifest.sha256").read_text() == "theirs"


def test_an_empty_file_of_the_hub_is_published_too(web: Web, hub: FakeHub, tmp_path: Path) -> None:
    hub.files["config.json"] = hub.content["config.json"] = b""
    assert (call(web, tmp_path), (tmp_path / "weights/m/config.json").read_bytes()) == (0, b"")


def test_half_a_file_is_continued_where_it_ended(web: Web, tmp_path: Path) -> None:
    staging = tmp_path / "weights/.m.partial"
    staging.mkdir(parents=True)
    (staging / "model.safetensors").write_bytes(LARGE[:3000])
    assert call(web, tmp_path) == 0
    ranges = [request.headers["Range"] for request in web.requests if "Range" in request.headers]
    assert ranges == ["bytes=3000-"]


def test_a_spoiled_half_is_fetched_anew(web: Web, tmp_path: Path) -> None:
    staging = tmp_path / "weights/.m.partial"
    staging.mkdir(parents=True)
    (staging / "model.safetensors").write_bytes(b"x" * 3000)
    assert (call(web, tmp_path), (tmp_path / "weights/m/model.safetensors").read_bytes()) == (0, LARGE)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_that_differs_from_the_hubs_listing_is_never_published(
    web: Web, hub: FakeHub, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.content[name] = b"?" * len(hub.content[name])
    assert call(web, tmp_path) == 1
    assert f"{name} does not have the hub's checksum" in capsys.readouterr().err
    assert not (tmp_path / "weights/m").exists()


@pytest.mark.parametrize("name", ["./model.safetensors", "a//model.safetensors", f"{'a/' * 2000}model.safetensors"])
def test_a_file_with_a_second_spelling_is_not_fetched(web: Web, hub: FakeHub, tmp_path: Path, name: str) -> None:
    """Until 2026-11-28 the directory was published without the file."""
    hub.files = {"config.json": SMALL, "other.safetensors": LARGE, name: LARGE}
    hub.content["other.safetensors"] = LARGE
    assert call(web, tmp_path) == 1
    assert not (tmp_path / "weights/m").exists()


@pytest.mark.parametrize("place", ["http://[", f"http://{'a' * 70}.example", "http://xn--\u00e9/"])
def test_a_redirect_to_no_address_ends_in_a_reason(
    web: Web, hub: FakeHub, tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.cdn = place
    assert call(web, tmp_path) == 1
    assert "redirects to something that is not a web address" in capsys.readouterr().err


def test_names_of_a_hub_control_neither_a_terminal_nor_the_journal(
    web: Web, hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.files = {"\x1b]0;title\x07.txt": SMALL, "a\n<0>b.txt": SMALL}
    assert call(web, tmp_path) == 1
    printed = capsys.readouterr().err
    assert "\x1b" not in printed and "\n<0>" not in printed and "<0>b.txt" in printed


def test_a_pickle_among_the_files_is_refused(
    web: Web, hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.files["pytorch_model.bin"] = b"pickle"
    assert call(web, tmp_path, ["*"]) == 1
    assert "pytorch_model.bin is a pickle: loading it runs its author's code" in capsys.readouterr().err


def test_a_choice_without_safetensors_names_the_existing_files(
    web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(web, tmp_path, ["*.json"]) == 1
    assert "no safetensors among the requested files (*.json)" in capsys.readouterr().err


def test_a_gateways_host_fetches_a_tokenizer_without_its_weights(web: Web, hub: FakeHub, tmp_path: Path) -> None:
    hub.files["tokenizer.json"] = hub.content["tokenizer.json"] = b"{}"
    assert call(web, tmp_path, list(TOKENIZER_FILES)) == 0
    assert sorted(os.listdir(tmp_path / "weights/m")) == ["config.json", "manifest.sha256", "tokenizer.json"]


def test_a_repository_without_the_tokenizer_of_a_gateway_is_refused(
    web: Web, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(web, tmp_path, list(TOKENIZER_FILES)) == 1
    assert "no tokenizer.json among the requested files (config.json, tok" in capsys.readouterr().err


def test_a_shard_that_the_index_names_must_be_among_the_files(
    web: Web, hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = json.dumps({"weight_map": {"a": "model.safetensors", "b": "other.safetensors"}}).encode()
    hub.files["model.safetensors.index.json"] = hub.content["model.safetensors.index.json"] = index
    assert call(web, tmp_path, [*PATTERNS, "*.index.json"]) == 1
    assert "names other.safetensors, which is not among the requested files" in capsys.readouterr().err


def test_the_token_goes_to_the_hub_and_not_where_it_redirects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: FakeHub
) -> None:
    (tmp_path / "token").write_text("hf_secret\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    with serving(hub.answer) as cdn:
        hub.cdn = cdn.url
        with serving(hub.answer) as web:
            assert call(web, tmp_path) == 0
    assert {request.headers.get("Authorization") for request in web.requests} == {"Bearer hf_secret"}
    assert [request.headers.get("Authorization") for request in cdn.requests] == [None]


def test_a_gated_repository_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(lambda request: (401, {}, b"{}")) as web:
        assert call(web, tmp_path) == 1
    assert "answers 401 without a token: gated, private or not there" in capsys.readouterr().err


@pytest.mark.parametrize("status", [429, 503])
def test_a_hub_with_a_bad_moment_is_asked_again(
    tmp_path: Path, hub: FakeHub, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch.time, "sleep", lambda seconds: None)
    bad = [True, True]
    with serving(lambda request: (status, {}, b"") if bad and bad.pop() else hub.answer(request)) as web:
        assert call(web, tmp_path) == 0


def test_a_broken_answer_is_a_broken_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.time, "sleep", lambda seconds: None)
    answers = [fetch.http.client.IncompleteRead(b""), "whole"]

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    assert fetch.patiently("config.json", ask) == "whole"


def steps(web: Web, tmp_path: Path, spoil: Callable[[Path], object]) -> int:
    """Exit status of root's step, after the fetch and after `spoil` has changed the staging directory."""
    call_fetch(web, tmp_path)
    spoil(tmp_path / "weights/.m.partial")
    return fetch.main(["--publish", str(tmp_path / "settings.json")])


def rewritten(staging: Path) -> None:
    """Other bytes, and a manifest like the hub's listing."""
    (staging / "model.safetensors").write_bytes(b"x" * len(LARGE))


def pickled(staging: Path) -> None:
    """A pickle, and a manifest with it."""
    (staging / "model.bin").write_bytes(b"x")
    manifest = staging / "manifest.sha256"
    manifest.write_text(f"{manifest.read_text()}{hashlib.sha256(b'x').hexdigest()}  model.bin\n")


def unasked(staging: Path) -> None:
    """An unrequested file, and a manifest with it."""
    (staging / "run.sh").write_bytes(b"x")
    manifest = staging / "manifest.sha256"
    manifest.write_text(f"{manifest.read_text()}{hashlib.sha256(b'x').hexdigest()}  run.sh\n")


def escaping(staging: Path) -> None:
    """A manifest with a path outside the directory."""
    (staging / "manifest.sha256").write_text(f"{'0' * 64}  ../../etc/x\n")


def swapped(staging: Path) -> None:
    """A link to a file that its user may not read."""
    (staging / "model.safetensors").unlink()
    (staging / "model.safetensors").symlink_to("/etc/shadow")


@pytest.mark.parametrize("spoil", [rewritten, pickled, unasked, escaping, swapped])
def test_root_publishes_nothing_that_the_fetching_user_changed_afterwards(
    web: Web, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    assert steps(web, tmp_path, spoil) == 1
    assert not (tmp_path / "weights/m").exists()


@pytest.mark.parametrize("spoil", [rewritten, pickled, unasked, escaping, swapped])
def test_the_next_fetch_publishes_all_the_same(web: Web, tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    steps(web, tmp_path, spoil)
    assert call(web, tmp_path) == 0
    assert sorted(os.listdir(tmp_path / "weights/m")) == ["config.json", "manifest.sha256", "model.safetensors"]
    assert (tmp_path / "weights/m/model.safetensors").read_bytes() == LARGE
