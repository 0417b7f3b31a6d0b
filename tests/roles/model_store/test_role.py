"""The role on fake hosts: bare, finished, fetching, and weights that the control machine sends.

More than 300 lines, because every case is the same role on a fake host.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import gevent
import pytest

from deploy.models.files import ROOT, tokenizer_of, weights_path
from deploy.refusals.errors import Refusal
from deploy.slices.host import Slice, WeightsSlice
from deploy.spec import Hub, Secret
from roles import model_store
from roles.model_store import manifest
from roles.model_store.defaults import Defaults
from roles.model_store.operations import Send, texts
from tests.roles.fake import Ran, run
from tests.roles.slices import a_slice
from tests.roles.web import serving

HUB = WeightsSlice(
    model="chat", repository="a/b", revision="1" * 40, directory="", fetch_on="host", files=("*.json",), size_mib=1
)
MINE = a_slice(weights=(HUB,))
UNIT = "enginehouse-weights@chat.service"
START = f"{{ systemctl reset-failed {UNIT} 2>/dev/null || true; }} && systemctl start --no-block {UNIT}"
MEMORY = "/run/enginehouse/weights/chat"


def placed(mine: Slice) -> str:
    """The answer of a host with the right programs, unit and settings."""
    return "\n".join(f"{text.wanted_fact} {text.path}" for text in texts(mine))


def play(mine: Slice, store: str, seen: str = "", **options: Any) -> Ran:
    """Begin and finish on one host with these answers about files and weights."""

    def story() -> None:
        model_store.begin(mine)
        model_store.finish(mine)

    answers = {"%n %a %U": seen, "echo model=": store, "systemctl show": "ActiveState=inactive\nResult=success"}
    answers["id -u"] = "value\tenginehouse-fetch\t990" if seen else ""
    return run(story, answers=answers, **options)


def essential(ran: Ran) -> list[str]:
    """Commands without their standard input, except those that only write files."""
    return [command.partition("\n")[0] for command in ran.commands if "enginehouse-new" not in command]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WeightsSlice:
    """Weights in a directory of the control machine."""
    monkeypatch.setattr(manifest.manifest, "__defaults__", (tmp_path / "memory.json",))
    (tmp_path / "mini").mkdir()
    (tmp_path / "mini" / "model.safetensors").write_bytes(b"tensors")
    (tmp_path / "mini" / "notes.txt").write_bytes(b"no")
    return replace(
        HUB,
        repository="",
        revision="local-1",
        directory=str(tmp_path / "mini"),
        fetch_on="control",
        files=("*.safetensors",),
    )


TENSORS = f"{hashlib.sha256(b'tensors').hexdigest()}  model.safetensors\n"


def test_a_bare_host_fetches_in_its_own_unit() -> None:
    assert essential(play(MINE, "")) == [
        "useradd --system --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin enginehouse-fetch",
        "systemctl daemon-reload",
        f"mkdir -p /run/enginehouse/weights && install -d -m 0700 {MEMORY} && umask 077 && cat > {MEMORY}/token"
        f" && test -s {MEMORY}/token"
        f" && {START} || {{ rm -rf {MEMORY}; exit 1; }}",
        f"follow {UNIT}",
        f"test -s /var/lib/enginehouse/weights/chat/{'1' * 40}/manifest.sha256",
    ]


def test_a_host_that_has_the_weights_changes_nothing() -> None:
    ran = play(MINE, "model=chat\nmanifest=abc\nActiveState=inactive", placed(MINE))
    assert (ran.changed, ran.would_change) == ((), ())


def test_a_fetch_under_way_is_attached_to() -> None:
    ran = play(MINE, "model=chat\nActiveState=activating", placed(MINE))
    assert essential(ran)[0] == f"follow {UNIT}"


def test_the_token_is_in_no_command_no_label_and_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_1")
    mine = replace(MINE, hub=Hub(token=Secret.env("HF_TOKEN")))
    ran = play(mine, "")
    assert "hf_1" not in repr((ran.commands, ran.operations, ran.log))
    assert any("hf_1" in heard.stdin for heard in ran.shell["host"])


def test_the_settings_name_a_pinned_revision_and_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_1")
    settings = next(
        text for text in texts(replace(MINE, hub=Hub(token=Secret.env("HF_TOKEN")))) if "chat.json" in text.path
    )
    assert json.loads(settings.content) == {
        "endpoint": "https://huggingface.co",
        "repository": "a/b",
        "revision": "1" * 40,
        "files": ["*.json"],
        "target": f"/var/lib/enginehouse/weights/chat/{'1' * 40}",
        "ca_file": "",
    }


def test_a_directory_is_sent_checked_and_published(source: WeightsSlice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roles.model_store.rsync.Rsync.execute", lambda *_: True)
    staging, target = "/var/lib/enginehouse/weights/chat/.local-1.partial", "/var/lib/enginehouse/weights/chat/local-1"
    mine = replace(MINE, weights=(source,))
    assert essential(play(mine, "model=chat", placed(mine))) == [
        f"install -d -m 0755 {staging}",
        f"/usr/bin/python3 -B /usr/local/lib/enginehouse/host publish --before {staging}",
        f"rsync {source.directory}/ to {staging}/",
        f"/usr/bin/python3 -B /usr/local/lib/enginehouse/host publish {staging} {target}",
    ]


def test_a_directory_that_is_published_already_changes_nothing(source: WeightsSlice) -> None:
    mine = replace(MINE, weights=(source,))
    published = hashlib.sha256(TENSORS.encode()).hexdigest()
    ran = play(mine, f"model=chat\nmanifest={published}", placed(mine))
    assert (ran.changed, ran.would_change) == ((), ())


def test_weights_published_before_templates_were_brought_stay_right(source: WeightsSlice) -> None:
    """A new file in the source does not send 140 GB again, and is not refused."""
    (Path(source.directory) / "chat_template.jinja").write_text("{{ messages }}")
    mine = replace(MINE, weights=(replace(source, files=(*source.files, "chat_template.jinja")),))
    published = hashlib.sha256(TENSORS.encode()).hexdigest()
    ran = play(mine, f"model=chat\nmanifest={published}", placed(mine))
    assert (ran.changed, ran.failed_hosts) == ((), ())


def test_other_bytes_under_a_published_revision_are_refused(source: WeightsSlice) -> None:
    mine = replace(MINE, weights=(source,))
    ran = play(mine, "model=chat\nmanifest=other", placed(mine))
    assert ran.failed_hosts == ("host",)
    assert any("differs from the published content of local-1" in line for line in ran.log)


def test_a_dry_run_announces_transfers_and_downloads_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    downloads: list[object] = []
    monkeypatch.setattr(Send, "_fetch", lambda *words: downloads.append(words))
    mine = replace(MINE, weights=(replace(HUB, fetch_on="control"),))
    ran = play(mine, "model=chat", placed(mine), dry=True)
    assert (ran.would_change, downloads) == (("Model store | Send chat 111111111111",), [])


@pytest.mark.parametrize(("status", "tries"), [(0, 4), (503, 4), (429, 4), (401, 1), (404, 1)])
def test_the_control_machine_asks_again_only_where_the_trouble_may_pass(
    monkeypatch: pytest.MonkeyPatch, status: int, tries: int
) -> None:
    downloads: list[object] = []

    def answer(*words: object) -> dict[str, object]:
        downloads.append(words)
        return {"said": "no", "status": status}

    monkeypatch.setattr(Send, "_fetch", answer)
    monkeypatch.setattr("gevent.sleep", lambda _: None)
    with pytest.raises(Refusal, match="did not deliver"):
        Send(replace(HUB, fetch_on="control"), MINE.hub, Defaults())._source()
    assert len(downloads) == tries


@pytest.mark.parametrize(
    ("noted", "kept"),
    [
        (hashlib.sha256(b"tensors").hexdigest(), True),
        (hashlib.sha1(b"blob 7\0tensors").hexdigest(), True),
        (hashlib.sha1(b"tensors").hexdigest(), True),
        ("W/a-mirrors-own-tag", True),
        (hashlib.sha256(b"tensord").hexdigest(), False),
        (hashlib.sha1(b"blob 7\0tensord").hexdigest(), False),
    ],
)
def test_a_file_that_differs_from_the_hub_is_reported_and_fetched_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, noted: str, kept: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    notes = tmp_path / ".cache/huggingface/download"
    notes.mkdir(parents=True)
    (notes / "model.safetensors.metadata").write_text(f"{'1' * 40}\n{noted}\n1790000000.0\n")
    (tmp_path / "model.safetensors").write_bytes(b"tensors")
    weights = replace(HUB, fetch_on="control", files=("*.safetensors",))
    refusal = Send(weights, MINE.hub, Defaults())._held(tmp_path)
    assert (refusal == {}, (tmp_path / "model.safetensors").exists()) == (kept, kept)
    assert kept or refusal == {"said": "model.safetensors: the content differs from the hub's checksum", "status": 0}


def test_a_manifest_has_the_format_of_sha256sum(source: WeightsSlice, tmp_path: Path) -> None:
    assert manifest.manifest(Path(source.directory), ["model.safetensors"], tmp_path / "m.json") == TENSORS


def test_a_file_that_changed_is_summed_again(source: WeightsSlice, tmp_path: Path) -> None:
    folder, memory = Path(source.directory), tmp_path / "m.json"
    manifest.manifest(folder, ["model.safetensors"], memory)
    (folder / "model.safetensors").write_bytes(b"other tensors")
    assert manifest.manifest(folder, ["model.safetensors"], memory) != TENSORS


@pytest.mark.parametrize("left", [b"", b'{"/a 1 2": "ab', b"\0" * 20, b"\xff\xfe", b"[1]", b"null", b'{"KEY": null}'])
def test_a_damaged_cache_of_checksums_is_begun_anew(source: WeightsSlice, tmp_path: Path, left: bytes) -> None:
    """The file is only a cache, but earlier every later run failed on it."""
    folder, memory = Path(source.directory), tmp_path / "m.json"
    memory.write_bytes(left.replace(b"KEY", manifest._key(folder / "model.safetensors").encode()))
    assert manifest.manifest(folder, ["model.safetensors"], memory) == TENSORS
    assert list(json.loads(memory.read_text()).values()) == [TENSORS.split()[0]]


def test_a_disk_without_room_for_the_cache_of_checksums_does_not_end_the_run(
    source: WeightsSlice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The previous checksums stay, without a partial file beside them."""
    memory = tmp_path / "cache" / "m.json"
    memory.parent.mkdir()
    memory.write_text("{}")

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(manifest.os, "fdopen", lambda handle, mode: (os.close(handle), Full())[1])
    assert manifest.manifest(Path(source.directory), ["model.safetensors"], memory) == TENSORS
    assert (os.listdir(memory.parent), memory.read_text()) == (["m.json"], "{}")


def test_a_remembered_checksum_is_not_computed_again(
    source: WeightsSlice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest.manifest(Path(source.directory), ["model.safetensors"], tmp_path / "m.json")
    monkeypatch.setattr(manifest, "sha256_of", lambda path: "summed again")
    assert manifest.manifest(Path(source.directory), ["model.safetensors"], tmp_path / "m.json") == TENSORS


def test_connections_go_on_while_files_are_summed_and_two_hosts_read_them_once(
    source: WeightsSlice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read waits for an action of the thread that serves all connections."""
    messages, read = list[str](), list[Path]()

    def summed(path: Path) -> str:
        for _ in range(2000):
            if messages:
                break
            time.sleep(0.01)
        assert messages, "nothing was said while the files were read"
        read.append(path)
        return TENSORS.split()[0]

    monkeypatch.setattr(manifest, "sha256_of", summed)
    arguments = (Path(source.directory), ["model.safetensors"], tmp_path / "m.json")
    hosts = [gevent.spawn(manifest.manifest, *arguments) for _ in range(2)]
    gevent.spawn(messages.append, "pong")
    assert [greenlet.get(timeout=300) for greenlet in hosts] == [TENSORS] * 2
    assert len(read) == 1


def test_a_pickle_among_local_files_is_refused(source: WeightsSlice) -> None:
    (Path(source.directory) / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(Refusal, match=r"pytorch_model\.bin is a pickle"):
        manifest.chosen(Path(source.directory), ("*",))


def test_local_files_without_safetensors_are_refused(source: WeightsSlice) -> None:
    with pytest.raises(Refusal, match="no safetensors among"):
        manifest.chosen(Path(source.directory), ("*.txt",))


def test_a_gateways_host_gets_a_local_tokenizer_without_its_weights(
    source: WeightsSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roles.model_store.rsync.Rsync.execute", lambda *_: True)
    tokenizer = tokenizer_of(source)
    mine, staging = replace(MINE, weights=(tokenizer,)), f"{ROOT}/weights/chat-tokenizer/.local-1.partial"
    (Path(source.directory) / "tokenizer_config.json").write_bytes(b"{}")
    with pytest.raises(Refusal, match=r"no tokenizer\.json"):
        manifest.chosen(Path(source.directory), tokenizer.files)
    (Path(source.directory) / "tokenizer.json").write_bytes(b"{}")
    assert manifest.chosen(Path(source.directory), tokenizer.files) == ["tokenizer.json", "tokenizer_config.json"]
    ran = essential(play(mine, "model=chat-tokenizer", placed(mine)))
    assert f"rsync {source.directory}/ to {staging}/" in ran and ran[-1].endswith(
        f"{staging} {weights_path(tokenizer)}"
    )


def test_the_hubs_message_reaches_the_operator_and_the_token_does_not(tmp_path: Path) -> None:
    """Through the real process: the token is sent to the hub, and is in no message."""
    secret = Secret.command("echo", "hf_canary")
    with serving(lambda request: (401, {}, b"hf_canary may not read this")) as web:
        outcome = Send(replace(HUB, fetch_on="control"), Hub(endpoint=web.url, token=secret), Defaults())._fetch(
            tmp_path
        )
    assert (outcome["status"], "hf_canary" in str(outcome)) == (401, False), outcome["said"]
    assert web.requests[0].headers["authorization"] == "Bearer hf_canary"
