"""An image's blobs, from a stand-in of a registry to a directory, and from there to clients on loopback."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from host import blobs, fetch, loopback
from tests.roles.web import Answer, Request, Web, serving

LAYER = bytes(range(256)) * 4096
CONFIG = b'{"os": "linux"}'
KEY = "nvapi-1"


def name_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def part(content: bytes, **more: Any) -> dict[str, Any]:
    """The blob's descriptor in a manifest."""
    return {"digest": f"sha256:{name_of(content)}", "size": len(content), **more}


# Spaces that no JSON writer would put there: what is not passed on byte for byte has another digest.
MANIFEST = json.dumps({"config": part(CONFIG), "layers": [part(LAYER)]}, indent=3).encode() + b"\n "
ARM = part(b"{}", platform={"os": "linux", "architecture": "arm64"})
INDEX = json.dumps({"manifests": [ARM, part(MANIFEST, platform=blobs.PLATFORM)]}, indent=5).encode()
ALL = {name_of(blob): blob for blob in (INDEX, MANIFEST, CONFIG, LAYER)}
DIGEST = f"sha256:{name_of(INDEX)}"


class Registry:
    """Answers for one repository; `wrong` has the content that is sent in place of a blob."""

    def __init__(self, key: str = "", bearer: bool = False) -> None:
        self.wrong, self.key, self.bearer, self.tokens = dict[str, bytes](), key, bearer, 0
        self.cut = 0
        """Number of bytes in the first answer with a layer."""

    def __call__(self, request: Request) -> Answer:
        login = request.headers.get("Authorization", "")
        if request.path.startswith("/token"):
            self.tokens += 1
            is_right = login == f"Basic {base64.b64encode(f'me:{self.key}'.encode()).decode()}"
            return (200, {}, b'{"token": "t"}') if is_right else (401, {}, b"")
        if self.key and login != ("Bearer t" if self.bearer else f"Basic {base64.b64encode(b'me:nvapi-1').decode()}"):
            how = f'Bearer realm="http://{request.headers["Host"]}/token",service="here"' if self.bearer else "Basic x"
            return 401, {"WWW-Authenticate": how}, b""
        name = request.path.rpartition("sha256:")[2]
        content = self.wrong.get(name, ALL.get(name))
        if content is None:
            return 404, {}, b""
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        if name == name_of(LAYER) and self.cut:
            content, self.cut = content[: self.cut], 0
            return 200, {}, content
        return (206 if start else 200), {}, content[start:]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.time, "sleep", lambda seconds: None)


def kept(registry: Registry, folder: Path, key: str = "") -> tuple[Path, Web]:
    """The directory of the image's blobs, and the requests to the registry."""
    with serving(registry) as web:
        blobs.keep(blobs.Origin(f"{web.address}/nvidia/triton@{DIGEST}", "me", key), DIGEST, folder / "image")
        return folder / "image", web


def test_every_blob_is_kept_byte_for_byte_under_its_sha256(tmp_path: Path) -> None:
    directory, _ = kept(Registry(), tmp_path)
    assert {path.name: path.read_bytes() for path in directory.iterdir() if path.name in ALL} == ALL
    sums = (directory / "manifest.sha256").read_text().splitlines()
    assert sums == [f"{name}  {name}" for name in sorted(ALL)]


@pytest.mark.parametrize("wrong", [INDEX, MANIFEST])
def test_a_manifest_with_another_digest_is_refused(wrong: bytes, tmp_path: Path) -> None:
    registry = Registry()
    registry.wrong[name_of(wrong)] = wrong + b" "
    with pytest.raises(blobs.NotGiven, match="has another digest"):
        kept(registry, tmp_path)
    assert not (tmp_path / "image").exists()


def test_a_layer_with_another_digest_is_never_published(tmp_path: Path) -> None:
    registry = Registry()
    registry.wrong[name_of(LAYER)] = LAYER[:-1] + b"x"
    with pytest.raises(OSError, match="broke off 8 times"):
        kept(registry, tmp_path)
    assert not (tmp_path / "image").exists()
    assert not (tmp_path / ".image.partial" / name_of(LAYER)).exists()


def test_a_layer_that_broke_off_is_continued(tmp_path: Path) -> None:
    registry = Registry()
    registry.cut = 1000
    _, web = kept(registry, tmp_path)
    assert [request.headers.get("Range") for request in web.requests if name_of(LAYER) in request.path] == [
        None,
        "bytes=1000-",
    ]


def test_blobs_already_here_are_not_requested(tmp_path: Path) -> None:
    staging = tmp_path / ".image.partial"
    staging.mkdir()
    (staging / name_of(LAYER)).write_bytes(LAYER)
    _, first = kept(Registry(), tmp_path)
    _, second = kept(Registry(), tmp_path)
    assert (any(name_of(LAYER) in request.path for request in first.requests), second.requests) == (False, [])


@pytest.mark.parametrize("bearer", [False, True])
def test_a_key_is_given_where_it_is_asked_for(bearer: bool, tmp_path: Path) -> None:
    _, web = kept(Registry(KEY, bearer), tmp_path, KEY)
    assert "Authorization" not in web.requests[0].headers
    assert not any(KEY in request.path for request in web.requests)


def test_a_key_goes_to_no_realm_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    origin = blobs.Origin(f"nvcr.io/nvidia/triton@{DIGEST}", "me", KEY)
    monkeypatch.setattr(origin.opener, "open", lambda *_, **__: pytest.fail("it asked"))
    assert origin._renewed(['Bearer realm="http://elsewhere/token"']) == ""


def test_a_wrong_key_is_reported_with_its_status(tmp_path: Path) -> None:
    with pytest.raises(blobs.NotGiven, match=r"unauthorized \(HTTP 401 of 127"):
        kept(Registry("another", bearer=True), tmp_path, KEY)


def test_a_redirect_to_another_host_does_not_take_the_key_along(tmp_path: Path) -> None:
    with serving(lambda request: (200, {}, ALL[request.path[1:]])) as elsewhere:

        def sent_away(request: Request) -> Answer:
            answer = Registry(KEY)(request)
            name = request.path.rpartition("sha256:")[2]
            is_layer = answer[0] == 200 and name == name_of(LAYER)
            return (307, {"Location": f"http://{elsewhere.address}/{name}"}, b"") if is_layer else answer

        with serving(sent_away) as web:
            origin = blobs.Origin(f"{web.address}/nvidia/triton@{DIGEST}", "me", KEY)
            blobs.keep(origin, DIGEST, tmp_path / "image")
    assert ["Authorization" in request.headers for request in elsewhere.requests] == [False]


def test_an_image_for_other_machines_is_refused() -> None:
    only = json.dumps({"manifests": [ARM]}).encode()
    with pytest.raises(blobs.NotGiven, match="nothing for linux/amd64"):
        blobs.parts(f"sha256:{name_of(only)}", lambda name: only)


@pytest.mark.parametrize(
    ("reference", "root"),
    [
        ("nvcr.io/nvidia/triton@sha256:1", "https://nvcr.io/v2/nvidia/triton"),
        ("ubuntu@sha256:1", "https://registry-1.docker.io/v2/library/ubuntu"),
        ("host:8443/a/b@sha256:1", "https://host:8443/v2/a/b"),
    ],
)
def test_a_reference_has_the_root_url_of_its_repository(reference: str, root: str) -> None:
    assert blobs.Origin(reference, "", "").root == root


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The loopback port that serves the image's blobs."""
    with loopback.serving(kept(Registry(), tmp_path)[0], 0) as blobs_port:
        yield blobs_port


def got(port: int, path: str, method: str = "GET") -> Any:
    """An answer of the loopback registry."""
    return urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method), timeout=300)


@pytest.mark.parametrize("content", [INDEX, MANIFEST])
def test_loopback_gives_manifests_byte_for_byte(content: bytes, port: int) -> None:
    path = f"/v2/nvidia/triton/manifests/sha256:{name_of(content)}"
    for method, body in (("HEAD", b""), ("GET", content)):
        with got(port, path, method) as answer:
            assert answer.headers["Docker-Content-Digest"] == f"sha256:{name_of(content)}"
            assert answer.headers["Content-Type"] == blobs.TYPES[0 if content == INDEX else 2]
            assert (answer.headers["Content-Length"], answer.read()) == (str(len(content)), body)


def test_loopback_gives_layers_and_says_that_it_is_a_registry(port: int) -> None:
    with got(port, f"/v2/nvidia/triton/blobs/sha256:{name_of(LAYER)}") as answer:
        assert answer.read() == LAYER
    with got(port, "/v2/") as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    "path", ["/v2/a/blobs/sha256:" + "0" * 64, "/v2/a/blobs/sha256:../../etc/passwd", "/etc/passwd"]
)
def test_loopback_gives_nothing_else(path: str, port: int) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        got(port, path)


def test_a_client_that_begins_with_tls_is_answered_in_http(port: int) -> None:
    """Docker's client continues without TLS after such an answer (Go: tls.RecordHeaderError)."""
    with socket.create_connection(("127.0.0.1", port), timeout=300) as line:
        line.sendall(b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\x00\x0a\x00\x01")
        assert line.recv(5) == b"HTTP/"
