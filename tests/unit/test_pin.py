"""Pinning: the digest in a registry, over TLS and with its login, and the only changed line of an inventory."""

from __future__ import annotations

import base64
import hashlib
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from deploy.io import registry
from deploy.io.pin import write_digest
from deploy.io.registry import Login, digest_of, split
from deploy.refusals.errors import Refusal

MANIFEST = b'{"schemaVersion": 2, "manifests": []}'
DIGEST = "sha256:" + hashlib.sha256(MANIFEST).hexdigest()
NEW = "sha256:" + "a" * 64


class Registry(BaseHTTPRequestHandler):
    """Answers like nvcr.io: a token for `$oauthtoken` and its key, then the manifest; `sporadic` 401s first."""

    sporadic = 0
    basic_only = False
    challenge = moved = ""
    token = b'{"token": "t"}'
    requested_paths: list[str]

    def do_GET(self) -> None:
        """Answers with a token, or with a manifest for a request with the token."""
        Registry.requested_paths.append(self.path)
        basic = "Basic " + base64.b64encode(b"$oauthtoken:right").decode()
        if self.path.startswith("/token"):
            return self._answer(200 if self.headers["Authorization"] == basic else 401, Registry.token)
        wanted = basic if Registry.basic_only else "Bearer t"
        if self.headers["Authorization"] != wanted or Registry.sporadic:
            Registry.sporadic = max(0, Registry.sporadic - 1)
            return self._answer(401, b"{}")
        if Registry.moved:
            self.send_response(307)
            self.send_header("Location", Registry.moved)
            return self.end_headers()
        return self._answer(404 if "gone" in self.path else 200, MANIFEST)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if status == 401 and not self.path.startswith("/token"):
            host = self.headers["Host"]
            realm = (
                Registry.challenge
                or f'Bearer realm="https://{host}/token",service="registry",scope="repository:nvidia/triton:pull"'
            )
            self.send_header("WWW-Authenticate", 'Basic realm="registry"' if Registry.basic_only else realm)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Writes no log line."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for 127.0.0.1 and its key, made for the test."""
    directory = tmp_path_factory.mktemp("registry")
    files = (str(directory / "cert.pem"), str(directory / "key.pem"))
    made = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=registry",
    ]
    argv = [
        "openssl",
        "req",
        "-x509",
        *made,
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-out",
        files[0],
        "-keyout",
        files[1],
    ]
    subprocess.run(argv, check=True, capture_output=True)
    return files


@pytest.fixture
def host(certificate: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A registry that listens on this host:port for one test."""
    monkeypatch.setattr(registry, "PAUSE_SECONDS", 0)
    Registry.sporadic, Registry.basic_only, Registry.requested_paths = 0, False, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def login(certificate: tuple[str, str], key: str = "right") -> Login:
    """The login for this registry."""
    return Login(username="$oauthtoken", key=key, ca_file=certificate[0])


def test_the_digest_is_that_of_the_manifest(host: str, certificate: tuple[str, str]) -> None:
    """The digest is computed over the received bytes."""
    assert digest_of(f"{host}/nvidia/triton:26.07", login(certificate)) == DIGEST


def test_a_registry_with_a_password_file_is_asked_directly(host: str, certificate: tuple[str, str]) -> None:
    """A company mirror has no token service."""
    Registry.basic_only = True
    assert digest_of(f"{host}/nvidia/triton:26.07", login(certificate)) == DIGEST


def test_a_sporadic_401_is_asked_again(host: str, certificate: tuple[str, str]) -> None:
    """Anonymous pulls from nvcr.io sometimes get a 401."""
    Registry.sporadic = 2
    assert digest_of(f"{host}/nvidia/triton:26.07", login(certificate)) == DIGEST


def test_a_wrong_key_is_explained_and_not_shown(host: str, certificate: tuple[str, str]) -> None:
    """Every attempt gets a 401."""
    with pytest.raises(Refusal) as refused:
        digest_of(f"{host}/nvidia/triton:26.07", login(certificate, "wrong-key"))
    assert ("wrong or expired key" in str(refused.value), "wrong-key" in str(refused.value)) == (True, False)


def test_a_missing_tag_is_not_asked_twice(host: str, certificate: tuple[str, str]) -> None:
    """The registry's 404 is a final answer, so there is no second request."""
    with pytest.raises(Refusal) as refused:
        digest_of(f"{host}/nvidia/triton:gone", login(certificate))
    manifests = [path for path in Registry.requested_paths if "manifests" in path]
    assert (refused.value.facts["seen"][:3], len(manifests)) == ("404", 2)


def test_a_registry_with_an_unknown_certificate_is_not_believed(host: str) -> None:
    """The message names the setting that trusts a private CA."""
    with pytest.raises(Refusal) as refused:
        digest_of(f"{host}/nvidia/triton:26.07", Login())
    assert (refused.value.kind, "registry.ca_file" in refused.value.attempt) == ("registry-unreachable", True)


def test_a_reference_splits_into_host_path_and_tag() -> None:
    """A port is not a tag."""
    assert split("mirror.example:8443/nvidia/tritonserver:26.07-py3") == (
        "mirror.example:8443",
        "nvidia/tritonserver",
        "26.07-py3",
    )


@pytest.mark.parametrize("line", ['        "image_digest": "",\n', "    image_digest='sha256:old',\n"])
def test_the_digest_is_written_into_its_line_and_nowhere_else(tmp_path: Path, line: str) -> None:
    """The change is returned as a diff."""
    file = tmp_path / "h100.py"
    file.write_text(f"# before\n{line}# after\n")
    changes = write_digest(file, NEW)
    assert (NEW in changes, file.read_text().splitlines()[::2]) == (True, ["# before", "# after"])


def test_a_pinned_inventory_is_left_alone(tmp_path: Path) -> None:
    """A second pin changes nothing."""
    file = tmp_path / "h100.py"
    file.write_text(f'"image_digest": "{NEW}"\n')
    assert write_digest(file, NEW) == f"{file} is pinned to {NEW} already\n"


def test_an_inventory_without_a_digest_is_refused_with_the_line_to_add(tmp_path: Path) -> None:
    """No other place is edited."""
    file = tmp_path / "h100.py"
    file.write_text("hosts = []\n")
    with pytest.raises(Refusal) as refused:
        write_digest(file, NEW)
    assert refused.value.attempt == f'add "image_digest": "{NEW}" to the data of the group'


class Thief(BaseHTTPRequestHandler):
    """A foreign server, which records received logins; a redirect of the registry leads here too."""

    got: list[str | None]

    def do_GET(self) -> None:
        """Answers every request with a token."""
        Thief.got.append(self.headers["Authorization"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"token": "t"}')

    def log_message(self, *_: object) -> None:
        """Writes no log line."""


@pytest.fixture
def thief() -> Iterator[str]:
    """`localhost:port` of a plain server, which counts as another host than 127.0.0.1."""
    Thief.got = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Thief)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"localhost:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "realm",
    [
        "http://{thief}/token",
        "https://{thief}/token",
        "http://127.0.0.1:{port}/token",
        "https://127.0.0.1@{thief}/token",
        "file:///etc/passwd",
        "https://\x1b]0;title\x07{thief}/",
        "",
    ],
)
def test_a_login_is_sent_to_its_registry_alone(
    host: str, certificate: tuple[str, str], thief: str, realm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The login goes to no other host, whatever the registry answers; the refusal names both hosts."""
    named = realm.format(thief=thief, port=host.rpartition(":")[2])
    challenge = f'Bearer realm="{named}",service="registry"'
    monkeypatch.setattr(Registry, "challenge", challenge)
    with pytest.raises(Refusal) as refused:
        digest_of(f"{host}/nvidia/triton:26.07", login(certificate))
    assert (refused.value.kind, Thief.got) == ("foreign-realm", [])
    assert host in refused.value.problem
    assert repr(named.rpartition("@")[2])[1:-1] in refused.value.facts["seen"]
    assert "right" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "realm", "may"),
    [
        ("nvcr.io", "https://nvcr.io/proxy_auth", True),
        ("nvcr.io", "https://authn.nvidia.com/token", True),
        ("nvcr.io", "https://nvcr.io.example.com/token", False),
        ("nvcr.io", "https://NVCR.IO:8443/token", True),
        ("docker.io", "https://auth.docker.io/token", True),
        ("ghcr.io", "https://ghcr.io/token", True),
        ("ghcr.io", "https://auth.docker.io/token", False),
        ("gitlab.example.com:5050", "https://gitlab.example.com/jwt/auth", True),
        ("nvcr.io", "https://[", False),
    ],
)
def test_token_makers_are_the_registry_or_known(host: str, realm: str, may: bool) -> None:
    """Whole names are compared."""
    assert registry._may_have(host, realm, Login(key="k")) is may


def test_a_login_does_not_follow_a_redirect_elsewhere(
    host: str, certificate: tuple[str, str], thief: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest may be elsewhere; that server gets no key and no token."""
    monkeypatch.setattr(Registry, "moved", f"http://{thief}/manifest")
    Registry.basic_only = True
    digest_of(f"{host}/nvidia/triton:26.07", login(certificate))
    assert Thief.got == [None]


@pytest.mark.parametrize("answer", [b"", b"[]", b'{"token": "a\\r\\nX: y"}', b"[" * 100_000, b"\xff" * 9])
def test_an_answer_that_is_no_token_ends_in_a_refusal(
    host: str, certificate: tuple[str, str], answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parser raises no exception of its own."""
    monkeypatch.setattr(Registry, "token", answer)
    with pytest.raises(Refusal) as refused:
        digest_of(f"{host}/nvidia/triton:26.07", login(certificate))
    assert refused.value.facts["seen"].startswith("no token, but ")


def test_only_a_digest_is_written_into_an_inventory(tmp_path: Path) -> None:
    """The inventory is Python that an operator runs."""
    file = tmp_path / "h100.py"
    file.write_text('hosts = {"image_digest": ""}\n')
    for digest in ('sha256:", __import__("os").system("x")', "sha256:" + "A" * 64, NEW + "\n", ""):
        with pytest.raises(AssertionError):
            write_digest(file, digest)
    assert file.read_text() == 'hosts = {"image_digest": ""}\n'
