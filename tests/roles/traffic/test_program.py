"""A host's answers to balancers, over real sockets; a file stands in for systemd."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from roles._shipping.texts import HERE
from tests.ports import free_port

LINES = ["chat_http/h1.main", "chat_grpc/h1.main"]
SYSTEMCTL = """#!/bin/sh
cat "{units}"
"""
UNIT = "Id=triton@{name}.service\nActiveState={state}\nInvocationID={invocation}\nStateChangeTimestampMonotonic={at}\n"


class Host:
    """A host with two servers, its traffic service, and a balancer's requests to it."""

    def __init__(self, root: Path) -> None:
        self.root, self.units = root, root / "units"
        self.agent_port, self.ready_port = free_port(), free_port()
        self.wanted: dict[str, Any] = {
            "address": "127.0.0.1",
            "agent_port": self.agent_port,
            "ready_port": self.ready_port,
            "drain_seconds": 5,
            "heard_seconds": 1,
            "balancers": [],
            "servers": {"main": {"models": ["chat"], "seen_as": LINES}, "two": {"models": ["embed"], "seen_as": []}},
        }
        (root / "bin").mkdir()
        (root / "bin/systemctl").write_text(SYSTEMCTL.format(units=self.units))
        (root / "bin/systemctl").chmod(0o755)
        self.write()
        self.systemd()
        self.environment = {
            **os.environ,
            "PATH": f"{root}/bin:{os.environ['PATH']}",
            "ENGINEHOUSE_ROOT": str(root),
            "ENGINEHOUSE_SETTINGS": str(root),
            "ENGINEHOUSE_RUNTIME": str(root / "run"),
            "NOTIFY_SOCKET": str(root / "notify"),
        }
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.settimeout(300)
        self.notified.bind(str(root / "notify"))
        self.service: subprocess.Popen[str] | None = None

    def write(self) -> None:
        """Writes the settings."""
        (self.root / "traffic.json").write_text(json.dumps(self.wanted))

    def systemd(self, **states: tuple[str, str]) -> None:
        """Sets the state and invocation of each server that systemd shows from now on."""
        states_of_units = {"main": ("active", "first"), "two": ("active", "first"), **states}
        blocks = [
            UNIT.format(name=name, state=pair[0], invocation=pair[1], at=5_000_000)
            for name, pair in states_of_units.items()
        ]
        new = self.units.with_suffix(".new")
        new.write_text("\n".join(blocks))
        new.rename(self.units)

    def start(self) -> None:
        """Starts the service, which reports to systemd that it answers."""
        self.service = self.started("serve")
        notification = self.notified.recv(4096).decode()
        assert notification.startswith("READY=1\n"), notification

    def started(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """The program, as a unit or a person starts it."""
        program = [sys.executable, "-B", str(HERE / "files/host"), "traffic", *words]
        more = {**self.environment, **environment}
        return subprocess.Popen(program, env=more, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def runs(self, *words: str, **environment: str) -> tuple[int, str, str]:
        """Exit status, output and errors of the program."""
        process = self.started(*words, **environment)
        output, errors = process.communicate(timeout=300)
        return process.returncode, output, errors

    def stop(self) -> None:
        """Kills the service."""
        if self.service:
            self.service.kill()
            self.service.communicate(timeout=300)

    def agent(self, question: str = "main\n") -> str:
        """The agent's answer to HAProxy."""
        with socket.create_connection(("127.0.0.1", self.agent_port), timeout=300) as line:
            line.sendall(question.encode())
            return line.makefile().read()

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status and body of a page."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ready_port}{path}", timeout=300) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)


def until(holds: Callable[[], bool]) -> bool:
    """True if the condition became true within five minutes; checked without a pause."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if holds():
            return True
    return False


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host whose service is not started yet."""
    made = Host(tmp_path)
    try:
        yield made
    finally:
        made.stop()
        made.notified.close()


def test_an_active_server_is_ready_and_an_unknown_name_is_not(host: Host) -> None:
    host.start()
    assert [host.agent("main\n"), host.agent("other\n"), host.agent("\n")] == ["ready\n", "drain\n", "drain\n"]


def test_a_server_that_systemd_stops_is_drained_and_comes_back_with_it(host: Host) -> None:
    host.start()
    host.systemd(main=("deactivating", "first"))
    assert until(lambda: host.agent() == "drain\n")
    assert host.agent("two\n") == "ready\n"
    host.systemd(main=("active", "second"))
    assert until(lambda: host.agent() == "ready\n")


def test_a_stop_is_announced_before_systemd_is_asked_again(host: Host) -> None:
    host.start()
    assert host.runs("drained", "main", INVOCATION_ID="first")[0] == 0
    assert (host.agent("main\n"), host.agent("two\n")) == ("drain\n", "ready\n")
    assert (host.agent("main,two\n"), host.agent("two,other\n")) == ("ready\n", "drain\n")


def test_the_mark_of_an_earlier_stop_blocks_no_requests(host: Host) -> None:
    assert host.runs("drained", "main", INVOCATION_ID="before")[0] == 0
    host.start()
    assert host.agent() == "ready\n"


def test_a_service_that_was_killed_says_the_truth_with_its_first_answer(host: Host) -> None:
    host.start()
    host.stop()
    host.systemd(main=("activating", "second"))
    host.start()
    assert (host.agent(), host.agent("two\n")) == ("drain\n", "ready\n")


def test_a_silent_systemd_changes_no_state(host: Host) -> None:
    host.systemd(main=("activating", "first"))
    host.start()
    host.units.write_text("")
    assert host.service and host.service.stdout
    assert host.service.stdout.readline().startswith("<4>systemd does not answer")
    assert (host.agent(), host.agent("two\n")) == ("drain\n", "ready\n")


def test_ready_says_state_since_until_and_models(host: Host) -> None:
    host.start()
    code, answer = host.get("/ready/main")
    assert (code, answer["state"], answer["until"], answer["models"]) == (200, "ready", None, ["chat"])
    booted = time.time() - time.monotonic()
    assert abs(datetime.fromisoformat(answer["since"].replace("Z", "+00:00")).timestamp() - booted - 5) < 3


def test_the_whole_host_is_no_better_than_its_worst_server(host: Host) -> None:
    host.systemd(two=("failed", ""))
    host.start()
    code, answer = host.get("/ready")
    assert (code, answer["state"], answer["models"]) == (503, "drain", ["chat", "embed"])
    assert {name: server["state"] for name, server in answer["servers"].items()} == {"main": "ready", "two": "drain"}
    assert (host.get("/ready/main")[0], host.get("/ready/two")[0]) == (200, 503)


def test_other_pages_and_methods_are_refused(host: Host) -> None:
    host.start()
    assert host.get("/ready/other") == (404, {"error": "no such page; the pages are /ready, /ready/main, /ready/two"})
    with pytest.raises(urllib.error.HTTPError, match="405") as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{host.ready_port}/ready", data=b"{}", timeout=300)
    refused.value.close()


def test_a_silent_client_delays_no_other(host: Host) -> None:
    host.start()
    with socket.create_connection(("127.0.0.1", host.agent_port)) as silent:
        assert host.agent() == "ready\n"
        silent.settimeout(300)
        assert silent.recv(1) == b""  # hung up on


@pytest.mark.parametrize("sent", [b"\xff" * 100_000 + b"\n", b"\x00\n", "ä\n".encode("latin-1")])
def test_a_question_of_any_bytes_is_answered_or_hung_up_on(host: Host, sent: bytes) -> None:
    host.start()
    with socket.create_connection(("127.0.0.1", host.agent_port)) as line:
        try:
            line.sendall(sent)
            assert line.makefile("rb").read() in (b"drain\n", b"")
        except ConnectionError:
            pass
    assert host.agent() == "ready\n"


def test_an_operators_drain_ends_by_itself(host: Host) -> None:
    host.start()
    code, output, _ = host.runs("hold", "2", "main")
    assert (code, bool(re.fullmatch(r"main: drain until 2\S+Z; `host traffic admit main` ends it\n", output))) == (
        0,
        True,
    )
    assert until(lambda: host.get("/ready/main")[1]["until"] is not None)
    assert (host.agent("main\n"), host.agent("two\n")) == ("drain\n", "ready\n")
    assert until(lambda: host.agent() == "ready\n")


def test_an_operators_drain_of_all_servers_can_be_ended(host: Host) -> None:
    host.start()
    assert host.runs("hold", "1d")[0] == 0
    assert until(lambda: host.get("/ready")[1]["until"] is not None and host.agent("two\n") == "drain\n")
    assert host.runs("admit")[:2] == (0, "main: the operator's drain has ended\ntwo: the operator's drain has ended\n")
    assert until(lambda: host.get("/ready")[0] == 200)


@pytest.mark.parametrize("words", [("hold",), ("hold", "soon"), ("hold", "8d"), ("hold", "0"), ("drained",), ()])
def test_unknown_words_are_answered_with_the_usage(host: Host, words: tuple[str, ...]) -> None:
    code, _, errors = host.runs(*words)
    assert (code, "host traffic serve | drained SERVER | hold TIME [SERVER" in errors) == (64, True)


def test_a_server_of_another_host_is_not_held(host: Host) -> None:
    assert host.runs("hold", "1m", "mian") == (1, "", "mian: this host has main, two\n")


def llm(host: Host, state: str) -> None:
    """Adds the unit of an LLM beside `main` to systemd's answer."""
    block = UNIT.replace("triton@", "llm@").format(name="main", state=state, invocation="first", at=5_000_000)
    new = host.units.with_suffix(".more")
    new.write_text(host.units.read_text().split("\nId=llm@")[0] + "\n" + block)
    new.rename(host.units)


def test_a_server_with_an_llm_beside_it_is_ready_when_both_are(host: Host) -> None:
    host.wanted["servers"]["main"]["llm"] = True
    host.write()
    llm(host, "activating")
    host.start()
    assert (host.get("/ready/main")[0], host.get("/ready/two")[0]) == (503, 200)
    llm(host, "active")
    assert until(lambda: host.get("/ready/main")[0] == 200)
    assert host.agent().startswith("ready")
    llm(host, "failed")
    assert until(lambda: host.agent().startswith("drain"))
