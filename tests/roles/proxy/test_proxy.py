"""The proxy role on hosts in every state: bare, finished, half-finished, without its password, and without a proxy."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from deploy.slices.host import Slice
from deploy.slices.proxy import ProxySlice, reached_directly
from deploy.spec import Secret
from roles import proxy
from roles._pyinfra.facts import HostFacts
from roles._shipping import proxy_files
from roles._shipping.proxy_files import APT, DOCKER_ENVIRONMENT, ENVIRONMENT, FILES, WANTED
from roles.preflight.facts import _connection
from roles.preflight.network import reachable
from roles.proxy import operations
from tests.roles.fake import Ran, run
from tests.roles.slices import a_slice
from tests.unit.golden import same_as_golden

PASSWORD = "pa/ss w%rd:4711"
PLAIN = ProxySlice(
    url="http://proxy.example:3128",
    username="",
    password=None,
    direct=("localhost", "127.0.0.1", "::1", "registry.corp.example", ".corp.example", "10.9.0.0/16"),
    fleet=("10.0.0.11", "10.0.0.12"),
)
LOGIN = replace(PLAIN, username="builder@corp", password=Secret.env("PROXY_PASSWORD"))
OS = ("debian-12", "ubuntu-24.04")


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the variable that the inventory names."""
    monkeypatch.setenv("PROXY_PASSWORD", PASSWORD)


def host_of(declared: ProxySlice | None, os: str = "debian-12") -> Slice:
    return replace(a_slice(os), proxy=declared)


def content(declared: ProxySlice) -> dict[str, str]:
    """The content of every file of the proxy."""
    plain = operations.kept(declared)
    return {**operations.texts(declared), **plain.drop_ins, WANTED: plain.wanted}


def played(declared: ProxySlice | None, files: dict[str, str], os: str = "debian-12") -> Ran:
    lines = [f"file\t{path}\t{hashlib.sha256(text.encode()).hexdigest()}" for path, text in files.items()]
    return run(lambda: proxy.apply(host_of(declared, os)), answers={"sha256sum": lines})


@pytest.mark.parametrize("os", OS)
@pytest.mark.parametrize("declared", [PLAIN, LOGIN], ids=["plain", "login"])
@pytest.mark.parametrize("state", ["bare", "done", "half-done"])
def test_exactly_these_commands_run(os: str, declared: ProxySlice, state: str) -> None:
    """Commands are compared whole, in the golden files."""
    every = content(declared)
    files = {"bare": {}, "done": every, "half-done": {path: every[path] for path in (ENVIRONMENT, WANTED)}}[state]
    ran = played(declared, files, os)
    name = f"{state}-{'login' if declared.password else 'plain'}"
    same_as_golden(f"proxy/{name}.txt", "".join(f"{command}\n" for command in ran.commands))
    assert (ran.commands == ()) == (state == "done")


def test_the_files_are_reviewed() -> None:
    """Texts that apt, systemd and dockerd read, without a login."""
    same_as_golden("proxy/files.txt", "".join(f"--- {path}\n{text}" for path, text in sorted(content(PLAIN).items())))


def test_a_password_is_in_the_three_files_of_root_and_nowhere_else() -> None:
    """The password is percent-encoded, as in URLs, and in no command, log, plan or drop-in."""
    encoded = "http://builder%40corp:pa%2Fss%20w%25rd%3A4711@proxy.example:3128"
    every = content(LOGIN)
    assert {path for path, text in every.items() if encoded in text} == {ENVIRONMENT, DOCKER_ENVIRONMENT, APT}
    ran = played(LOGIN, {})
    shown = "\n".join((*ran.commands, *ran.log, str(host_of(LOGIN).to_json())))
    assert "4711" not in shown
    assert "4711" not in repr(operations.WithLogin(LOGIN, APT))
    placed = [command for command in ran.commands if any(path in command for path in operations.texts(LOGIN))]
    assert all("umask 077" in command and "chmod 0600" in command for command in placed[:3])


def test_a_host_that_has_all_of_it_needs_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on another machine, without the variable, does not change the proxy."""
    every = content(LOGIN)
    monkeypatch.delenv("PROXY_PASSWORD")
    assert played(LOGIN, every).commands == ()
    ran = played(LOGIN, {})
    assert (ran.failed_hosts, ran.commands) == (("host",), ("call _fail",))
    assert any("PROXY_PASSWORD" in line for line in ran.log)


def test_another_password_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    every = content(LOGIN)
    monkeypatch.setenv("PROXY_PASSWORD", "another")
    assert len(played(LOGIN, every).commands) == 3


def test_a_host_that_joins_restarts_no_docker() -> None:
    """The addresses of the fleet are in the units' environment and in apt's settings, but not in dockerd's."""
    grown = replace(PLAIN, fleet=(*PLAIN.fleet, "10.0.0.13"))
    changed = {path for path, text in content(grown).items() if text != content(PLAIN)[path]}
    assert changed == {ENVIRONMENT, APT, WANTED}


def test_a_host_without_a_proxy_has_no_step_and_forgets_the_one_it_had() -> None:
    assert played(None, {}).operations == ()
    there = HostFacts(files=dict.fromkeys(FILES, "0" * 64))
    (command,) = proxy_files.left_files(there)
    assert command.startswith(f": > {DOCKER_ENVIRONMENT} && rm -f {APT} ")
    assert list(proxy_files.left_files(HostFacts())) == []


@pytest.mark.parametrize(
    ("name", "is_direct"),
    [
        ("registry.corp.example", True),
        ("hub.corp.example", True),
        ("corp.example", False),
        ("10.9.1.2", True),
        ("10.0.0.11", True),
        ("huggingface.co", False),
        ("127.0.0.1", True),
    ],
)
def test_a_named_place_is_reached_without_the_proxy(name: str, is_direct: bool) -> None:
    assert reached_directly(name, (*PLAIN.direct, *PLAIN.fleet)) == is_direct


class Answering(BaseHTTPRequestHandler):
    """A proxy that admits two places, asks for a login at a third, and refuses all others."""

    def do_CONNECT(self) -> None:
        self.send_response({"hub.example:443": 200, "login.example:443": 407}.get(self.path, 403))
        self.end_headers()

    def do_HEAD(self) -> None:
        self.send_response(301 if self.path == "http://mirror.example:8480/" else 403)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


@contextlib.contextmanager
def answering() -> Iterator[ProxySlice]:
    """The slice of a proxy that answers on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield replace(PLAIN, url=f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


@pytest.mark.parametrize(
    ("place", "is_reached"),
    [
        ("hub.example:443", True),
        ("login.example:443", True),
        ("elsewhere.example:443", False),
        ("mirror.example:8480", True),
        ("closed.example:8480", False),
    ],
)
def test_preflight_asks_the_proxy_itself(place: str, is_reached: bool) -> None:
    """The host's own shell is run; a proxy that asks for a login counts as present."""
    with answering() as declared:
        shell = f"timeout 5 {_connection(declared, place, is_plain=place.endswith('8480'))}"
        done = subprocess.run(["bash", "-c", shell], check=False, timeout=20)
    assert (done.returncode == 0) == is_reached


def test_preflight_tells_which_address_the_proxy_refuses() -> None:
    seen = HostFacts(values={"unreachable": "image nvcr.io:443\nimage registry.corp.example:443"})
    refused, inside = reachable(seen, host_of(PLAIN))
    assert "the proxy does not connect to nvcr.io:443" in str(refused)
    assert "registry.corp.example:443 cannot be reached without the proxy" in str(inside)
