"""The host's program for the gateway: the order in which processes start, and the processes that keep running."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from host import gateway, places

FIRST, SECOND = "enginehouse-gateway@0.service", "enginehouse-gateway@1.service"


class Host:
    """A directory that stands for the host, and a systemd that records its calls."""

    def __init__(self, root: Path) -> None:
        self.root, self.units = root, root / "units"
        self.settings = root / "etc" / "gateway" / "settings.json"
        for folder in (self.units / "multi-user.target.wants", self.settings.parent):
            folder.mkdir(parents=True)
        self.running: dict[str, str] = {}
        """The mark that each unit began with."""
        self.restarts: list[str] = []
        self.refuses = False
        self.models: frozenset[str] = frozenset()
        """Models that every process offers."""
        self.write()

    def write(self, mark: str = "one", models: tuple[str, ...] = ("llama",), ports: int = 2) -> None:
        """Writes unit, settings, and folders of version and environment; processes read them."""
        for folder in (f"versions/v-{mark}", "environments/e"):
            (self.root / "lib/gateway" / folder).mkdir(parents=True, exist_ok=True)
        unit = f"WorkingDirectory=/lib/versions/v-{mark}\nExecStart=/lib/environments/e/bin/python\n"
        (self.units / "enginehouse-gateway@.service").write_text(f"{unit}Environment=ENGINEHOUSE_GATEWAY={mark}\n")
        listen = {"address": "127.0.0.1", "ports": [8080, 8081][:ports]}
        self.settings.write_text(json.dumps({"listen": listen, "models": {name: {} for name in models}}))
        self.models = frozenset(models)

    def systemctl(self, *words: str) -> int:
        """Stands in for systemctl: enables, disables and restarts units of the gateway."""
        verb, name = words[0], words[-1]
        link = self.units / "multi-user.target.wants" / name
        if verb == "enable":
            link.symlink_to("/x")
        elif verb == "disable":
            link.unlink()
            self.running.pop(name, None)
        elif verb == "restart":
            if self.refuses:
                return 1
            self.restarts.append(name)
            self.running[name] = gateway.wanted().mark
        return 0

    def call(self, verb: Callable[[], object]) -> list[str]:
        """The sentences that the program prints."""
        sentences = verb()
        assert hasattr(sentences, "__iter__")
        return [str(text).replace(str(self.root), "") for text in sentences]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with the files of a gateway whose processes have not started."""
    for name, folder in {"UNITS": "units", "SETTINGS": "etc", "PROGRAMS": "lib"}.items():
        monkeypatch.setattr(places, name, tmp_path / folder)
    made = Host(tmp_path)
    monkeypatch.setattr(gateway, "systemctl", made.systemctl)
    monkeypatch.setattr(gateway, "runs", lambda name, mark: made.running.get(name) == mark)
    monkeypatch.setattr(gateway, "loaded", lambda: set(made.running))
    monkeypatch.setattr(gateway, "offered", lambda _address, _port: made.models)
    monkeypatch.setattr(gateway, "journal", lambda name: f"last words of {name}")
    return made


def test_processes_start_one_after_the_other_and_then_nothing_differs(host: Host) -> None:
    assert host.call(gateway.differs) == [f"starts: {FIRST}", f"starts: {SECOND}"]
    assert host.call(gateway.follow) == [f"started: {FIRST}", f"started: {SECOND}"]
    assert (host.call(gateway.differs), host.restarts) == ([], [FIRST, SECOND])


def test_the_next_process_is_left_alone_until_the_one_before_it_answers(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "ANSWER_SECONDS", 0)
    host.models = frozenset({"old"})
    with pytest.raises(gateway.GatewayError, match=r"@0\.service offers old on port 8080 after 0 s\nlast words of"):
        host.call(gateway.follow)
    assert host.restarts == [FIRST]


def test_a_change_of_models_restarts_no_process(host: Host) -> None:
    host.call(gateway.follow)
    host.write(models=("llama", "bge"))
    assert (host.call(gateway.follow), len(host.restarts)) == ([], 2)


def test_a_new_version_restarts_every_process_and_removes_the_old_one(host: Host) -> None:
    host.call(gateway.follow)
    host.write(mark="two")
    gone = "/lib/gateway/versions/v-one"
    assert host.call(gateway.differs) == [f"starts: {FIRST}", f"starts: {SECOND}", f"goes: {gone}"]
    assert host.call(gateway.follow) == [f"started: {FIRST}", f"started: {SECOND}", f"gone: {gone}"]


def test_a_run_that_was_cut_off_between_two_processes_is_finished(host: Host) -> None:
    host.call(gateway.follow)
    host.write(mark="two")
    host.running[FIRST] = "two"
    host.restarts.clear()
    host.call(gateway.follow)
    assert host.restarts == [SECOND]


def test_a_port_that_goes_takes_its_process_along(host: Host) -> None:
    host.call(gateway.follow)
    host.write(ports=1)
    assert host.call(gateway.differs) == [f"goes: {SECOND}"]
    assert (host.call(gateway.follow), host.running) == ([f"gone: {SECOND}"], {FIRST: "one"})


def test_a_process_that_does_not_start_is_reported_with_its_last_log_lines(host: Host) -> None:
    host.refuses = True
    with pytest.raises(gateway.GatewayError, match=r"@0\.service does not start\nlast words of enginehouse-gateway@0"):
        host.call(gateway.follow)


def test_a_process_offers_models_that_wait_for_their_server_too() -> None:
    """503 with the models is an answer; another program on the port, or none, offers no model."""

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503)
            self.end_headers()
            self.wfile.write(b'{"models": {"llama": false}}' if self.path == "/health" else b"")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Health) as server:
        port = server.server_address[1]
        Thread(target=server.handle_request).start()
        assert gateway.offered("127.0.0.1", port) == {"llama"}
    assert gateway.offered("127.0.0.1", port) is None


def test_the_settings_of_a_process_are_read_from_the_process_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/environ").write_bytes(b"PATH=/bin\0ENGINEHOUSE_GATEWAY=one\0")
    monkeypatch.setattr(gateway, "PROC", tmp_path)
    monkeypatch.setattr(gateway, "active_states", lambda _: ["active"])
    monkeypatch.setattr(gateway, "show", lambda *_: {"MainPID": "7"})
    assert [gateway.runs(FIRST, mark) for mark in ("one", "on", "two")] == [True, False, False]
