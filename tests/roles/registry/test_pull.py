"""The program that pulls an image, with a stand-in of the Docker engine."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from host import pull
from tests.roles.web import Answer, Request, Web, serving

IMAGE = json.dumps({"Id": "sha256:1", "RepoDigests": ["nvcr.io/nvidia/tritonserver@sha256:2"]}).encode()
DONE = b'{"status": "Download complete", "id": "a"}\n{"status": "Pull complete", "id": "a"}\n'


def call(
    answers: list[Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str = "", **more: Any
) -> tuple[int, Web]:
    """Exit status, and the requests to the engine; its answers to the pull come in order, the last one for ever."""
    settings = {"reference": "nvcr.io/nvidia/tritonserver:26.07", "registry": "nvcr.io", "username": "$oauthtoken"}
    settings |= {"key_file": str(tmp_path / "key"), "key_source": "NGC_API_KEY in the shell that runs pyinfra"}
    (tmp_path / "settings.json").write_text(json.dumps(settings | {"record": str(tmp_path / "record.json")} | more))
    if key:
        (tmp_path / "key").write_text(key + "\n")

    def answer(request: Request) -> Answer:
        return (answers.pop(0) if len(answers) > 1 else answers[0]) if request.method == "POST" else (200, {}, IMAGE)

    monkeypatch.setattr(pull.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(pull, "SOCKET", str(tmp_path / "docker.sock"))
    with serving(answer, tmp_path / "docker.sock") as engine:
        return pull.main([str(tmp_path / "settings.json")]), engine


def refusal(text: str) -> Answer:
    """The engine passes the registry's message on with its own status."""
    return 500, {}, json.dumps({"message": text}).encode()


def test_a_pulled_image_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call([(200, {}, DONE)], tmp_path, monkeypatch)[0] == 0
    assert json.loads((tmp_path / "record.json").read_text())["repo_digests"] == [
        "nvcr.io/nvidia/tritonserver@sha256:2"
    ]


def test_the_image_is_on_the_disk_before_it_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[bool] = []
    monkeypatch.setattr(pull.os, "sync", lambda: recorded.append((tmp_path / "record.json").exists()))
    call([(200, {}, DONE)], tmp_path, monkeypatch)
    assert recorded == [False, False]  # its one layer, and the image


def test_a_pull_that_is_killed_leaves_its_mark_until_one_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(pull, "record", lambda settings: seen.append((tmp_path / "record.begun").exists()) or 0)
    assert call([(200, {}, DONE)], tmp_path, monkeypatch)[0] == 0
    assert (seen, (tmp_path / "record.begun").exists()) == ([True], False)


def test_a_pull_that_was_refused_leaves_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that an operator loads by hand afterwards must not count as an interrupted pull."""
    assert call([refusal("denied: requested access is denied")], tmp_path, monkeypatch)[0] == 1
    assert not (tmp_path / "record.begun").exists()


def test_name_and_tag_are_separated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, engine = call([(200, {}, DONE)], tmp_path, monkeypatch)
    query = parse_qs(urlsplit(engine.requests[0].path).query)
    assert (query["fromImage"], query["tag"]) == (["nvcr.io/nvidia/tritonserver"], ["26.07"])


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("host:8443/a/b@sha256:12", ("host:8443/a/b", "sha256:12")),
        ("host:8443/a/b:1.2", ("host:8443/a/b", "1.2")),
    ],
)
def test_a_port_is_no_tag(reference: str, parts: tuple[str, str]) -> None:
    assert pull.split(reference) == parts


def test_the_key_is_sent_to_the_engine_and_gone_from_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, engine = call([(200, {}, DONE)], tmp_path, monkeypatch, key="nvapi-1")
    sent = json.loads(base64.urlsafe_b64decode(engine.requests[0].headers["X-Registry-Auth"]))
    assert (sent["username"], sent["password"], (tmp_path / "key").exists()) == ("$oauthtoken", "nvapi-1", False)


def test_a_sporadic_401_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [refusal("unauthorized: authentication required"), (200, {}, DONE)]
    assert call(answers, tmp_path, monkeypatch)[0] == 0


def test_a_wrong_key_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call([refusal("unauthorized: authentication required")], tmp_path, monkeypatch, key="nvapi-1")[0] == 1
    assert capsys.readouterr().err == (
        "nvcr.io rejected the key (401, unauthorized)\n"
        "  image   nvcr.io/nvidia/tritonserver:26.07\n"
        "  key     from NGC_API_KEY in the shell that runs pyinfra, 7 characters, not shown\n"
        "  means   wrong or expired; a valid key without access to the organisation answers 403 instead\n"
        "  said    unauthorized: authentication required\n"
        "  try     make a new key, export it, run again\n"
        "  state   no serving program was changed\n"
    )


def test_a_key_without_access_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, engine = call([refusal("denied: requested access is denied")], tmp_path, monkeypatch, key="nvapi-1")
    assert (status, len(engine.requests)) == (1, 1)
    assert capsys.readouterr().err.startswith("nvcr.io knows the key and denies this image (403)")


def test_a_layer_the_engine_has_asked_for_five_times_is_asked_for_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = (200, {}, b'{"error": "unexpected EOF"}\n')
    status, engine = call([cut, cut, cut], tmp_path, monkeypatch)
    assert (status, len(engine.requests)) == (1, 2)


def test_an_error_in_the_middle_of_a_pull_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call([(200, {}, b'{"error": "no space left on device"}\n')], tmp_path, monkeypatch)[0] == 1


def test_an_engine_that_is_killed_within_a_pull_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer ends between two chunks; the image has not been pulled."""
    killed = (200, {"Transfer-Encoding": "chunked"}, b"%x\r\n%s\r\n" % (len(DONE), DONE))
    status, engine = call([killed, (200, {}, DONE)], tmp_path, monkeypatch)
    assert (status, [request.method for request in engine.requests]) == (0, ["POST", "POST", "GET"])


def test_an_engine_that_stays_away_is_named_with_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = (200, {"Transfer-Encoding": "chunked"}, b"")
    status, engine = call([killed], tmp_path, monkeypatch)
    assert (status, len(engine.requests), (tmp_path / "record.json").exists()) == (1, 4, False)
    assert "try     journalctl -u docker.service -n 50 on the host" in capsys.readouterr().err


def test_progress_counts_bytes_of_all_layers() -> None:
    progress = pull.Progress()
    for layer, current in (("a", 3 << 20), ("b", 1 << 20)):
        progress.add({"status": "Downloading", "id": layer, "progressDetail": {"current": current, "total": 4 << 20}})
    progress.add({"status": "Pull complete", "id": "a"})
    assert str(progress) == "5 of 8 MiB, 1 of 2 layers unpacked"


@pytest.mark.parametrize("message", ["sha256:ab401cd: unexpected EOF", "layer 7a403e: connection reset by peer"])
def test_digits_inside_a_digest_are_no_status(message: str) -> None:
    assert (pull.judge(message), pull.Refused(message).may_pass) == (0, True)


def test_a_silent_docker_engine_is_reported_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"reference": "a/b:1", "registry": "a", "key_file": str(tmp_path / "none")}
    settings["record"] = str(tmp_path / "record.json")
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    monkeypatch.setattr(pull, "SOCKET", str(tmp_path / "nobody.sock"))
    assert pull.main([str(tmp_path / "settings.json")]) == 1
    assert "journalctl -u docker.service" in capsys.readouterr().err


def test_an_engine_that_hangs_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine accepts the connection and does not answer."""
    monkeypatch.setattr(pull, "SOCKET", str(tmp_path / "docker.sock"))
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(tmp_path / "docker.sock"))
        hanging.listen()
        connection = pull.Engine("docker", timeout=0.2)
        connection.request("GET", "/images/x/json")
        with pytest.raises(TimeoutError):
            connection.getresponse()
        connection.close()


def shared(tmp_path: Path, port: int = 0) -> dict[str, Any]:
    """Settings of an image whose blobs are already present, so that its registry gets no request."""
    name = hashlib.sha256(b"{}").hexdigest()
    blobs = tmp_path / "blobs" / name
    blobs.mkdir(parents=True)
    (blobs / name).write_bytes(b"{}")
    (blobs / "manifest.sha256").write_text(f"{name}  {name}\n")
    sharing = {"origin": "registry.invalid/a/b", "port": port, "blobs": str(blobs), "ca_file": ""}
    return {"reference": f"127.0.0.1:7399/a/b@sha256:{name}", "shared": sharing}


def test_a_shared_image_is_pulled_from_loopback_without_the_key_or_its_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = shared(tmp_path)
    status, engine = call([(200, {}, DONE)], tmp_path, monkeypatch, key="nvapi-1", **more)
    query = parse_qs(urlsplit(engine.requests[0].path).query)
    assert (status, query["fromImage"], "X-Registry-Auth" in engine.requests[0].headers) == (
        0,
        ["127.0.0.1:7399/a/b"],
        False,
    )
    assert json.loads((tmp_path / "record.json").read_text())["blobs"] == more["shared"]["blobs"]


def test_a_port_of_loopback_that_is_taken_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert call([(200, {}, DONE)], tmp_path, monkeypatch, **shared(tmp_path, port))[0] == 1
    assert f"port {port} of loopback (Sharing.images_port)" in capsys.readouterr().err
