"""The model hub, requested over loopback as curl does."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from pathlib import Path

import pytest

from rehearsal.hub import Hub, serve
from rehearsal.hub_repository import repositories

WEIGHTS = b"weights" * 100
RESOLVE = "/rehearsal/open/resolve/main"


@dataclass
class Client:
    """Sends requests to a hub and records the last body."""

    port: int
    hub: Hub
    body: bytes = b""

    def ask(self, path: str, method: str = "GET", **headers: str) -> HTTPResponse:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=300)) as connection:
            connection.request(method, path, headers=headers)
            with connection.getresponse() as answer:
                self.body = answer.read()
            return answer

    def code(self, path: str, **headers: str) -> tuple[int, str | None]:
        answer = self.ask(path, **headers)
        return answer.status, answer.getheader("X-Error-Code")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    root = tmp_path_factory.mktemp("hub")
    for name in ("open", "gpt-oss-tiny"):
        (root / "models" / name).mkdir(parents=True)
        (root / "models" / name / "config.json").write_text("{}\n")
        (root / "models" / name / "model.safetensors").write_bytes(WEIGHTS)
    hub = Hub(repositories(root / "models"), "good", "no-access", "", root)
    server = serve(hub, "127.0.0.1", 0)
    port = server.server_address[1]
    hub.cdn = f"http://localhost:{port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Client(port, hub)
    server.shutdown()
    server.server_close()
    thread.join()


def cdn_path(client: Client) -> str:
    location = client.ask(f"{RESOLVE}/model.safetensors").getheader("Location") or ""
    return location.removeprefix(client.hub.cdn)


def test_the_listing_gives_git_and_sha256_checksums(client: Client) -> None:
    client.ask("/api/models/rehearsal/open/revision/main?blobs=true")
    small, large = json.loads(client.body)["siblings"]
    assert small == {"rfilename": "config.json", "size": 3, "blobId": "0967ef424bce6791893e9a57bb952f80fd536e93"}
    assert large["lfs"] == {"sha256": hashlib.sha256(WEIGHTS).hexdigest(), "size": 700, "pointerSize": 134}


def test_the_commit_is_forty_hex_digits_and_the_branch_names_it(client: Client) -> None:
    client.ask("/api/models/rehearsal/open/revision/main")
    commit = json.loads(client.body)["sha"]
    assert len(commit) == 40 and client.code(f"/api/models/rehearsal/open/revision/{commit}") == (200, None)


def test_a_small_file_comes_with_its_git_checksum_as_etag(client: Client) -> None:
    answer = client.ask(f"{RESOLVE}/config.json")
    assert (client.body, answer.getheader("ETag")) == (b"{}\n", '"0967ef424bce6791893e9a57bb952f80fd536e93"')


def test_a_large_file_redirects_and_names_its_size_and_sha256(client: Client) -> None:
    answer = client.ask(f"{RESOLVE}/model.safetensors", "HEAD")
    linked = answer.getheader("X-Linked-Size"), answer.getheader("X-Linked-Etag")
    assert (answer.status, *linked) == (302, "700", f'"{hashlib.sha256(WEIGHTS).hexdigest()}"')


def test_the_other_host_gives_the_file_without_a_token(client: Client) -> None:
    client.ask(cdn_path(client))
    assert client.body == WEIGHTS


def test_the_other_host_refuses_a_request_that_brings_the_token_along(client: Client) -> None:
    assert client.ask(cdn_path(client), Authorization="Bearer good").status == 400


def test_the_other_host_refuses_a_wrong_signature(client: Client) -> None:
    assert client.ask(cdn_path(client).split("?")[0] + "?signature=00").status == 403


def test_a_range_answers_the_rest_of_the_file(client: Client) -> None:
    answer = client.ask(cdn_path(client), Range="bytes=690-")
    answered = answer.status, answer.getheader("Content-Range"), client.body
    assert answered == (206, "bytes 690-699/700", WEIGHTS[690:])


def test_a_range_beyond_the_end_is_refused(client: Client) -> None:
    assert client.ask(cdn_path(client), Range="bytes=700-").status == 416


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/rehearsal/open/resolve/main/no.json", (404, "EntryNotFound")),
        ("/rehearsal/open/resolve/0000/config.json", (404, "RevisionNotFound")),
        ("/rehearsal/none/resolve/main/config.json", (404, "RepoNotFound")),
    ],
)
def test_missing_files_revisions_and_repositories_have_codes_of_their_own(
    client: Client, path: str, expected: tuple[int, str]
) -> None:
    assert client.code(path, Authorization="Bearer good") == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, (401, "GatedRepo")),
        ({"Authorization": "Bearer wrong"}, (401, None)),
        ({"Authorization": "Bearer no-access"}, (403, "GatedRepo")),
        ({"Authorization": "Bearer good"}, (200, None)),
    ],
)
def test_a_gated_repository_opens_for_the_right_token_only(
    client: Client, headers: dict[str, str], expected: tuple[int, str | None]
) -> None:
    assert client.code("/rehearsal/gpt-oss-tiny/resolve/main/config.json", **headers) == expected


def test_a_cut_answer_breaks_off_once_and_is_whole_the_next_time(client: Client) -> None:
    (client.hub.state / "fault-cut-large").write_text("1 50")
    path = cdn_path(client)
    with pytest.raises(IncompleteRead):
        client.ask(path)
    assert client.ask(path).status == 200 and client.body == WEIGHTS


def test_a_large_file_is_hashed_once_and_again_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models/open").mkdir(parents=True)
    shard = tmp_path / "models/open/model.safetensors"
    shard.write_bytes(WEIGHTS)
    (first,) = repositories(tmp_path / "models").values()
    with monkeypatch.context() as patch:
        patch.setattr("rehearsal.hub_repository._read", lambda *_: pytest.fail("it was read again"))
        assert list(repositories(tmp_path / "models").values()) == [first]
    shard.write_bytes(WEIGHTS + b"more")
    (second,) = repositories(tmp_path / "models").values()
    assert second.commit != first.commit
    assert second.files["model.safetensors"].sha256 == hashlib.sha256(WEIGHTS + b"more").hexdigest()


def test_large_files_go_as_fast_as_they_can_where_that_is_asked(client: Client) -> None:
    assert client.hub.bytes_per_second() == 3 << 20
    (client.hub.state / "large-bytes-per-second").write_text("0\n")
    assert client.hub.bytes_per_second() == 0
    assert client.ask(cdn_path(client)).status == 200 and client.body == WEIGHTS
    (client.hub.state / "large-bytes-per-second").unlink()
