"""A run as a person types it, over many fake hosts: the screen, and the file of its events."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roles._shipping.texts import HERE

SECRET = "nvapi-canary-2b8f4d1c"
VERB = """
from pyinfra import host
from pyinfra.operations import server
from deploy.spec import Secret
from roles import rollout
from roles._pyinfra.events import emit
from roles._shipping.secrets import SecretText

HOSTS = [f"@fake/h{number:02}" for number in range(1, 13)]
WAVES = (HOSTS[:2], HOSTS[2:7], HOSTS[7:])
emit(waves=WAVES)
rollout.gate(HOSTS, name="Gate | Every host answers")
server.shell("log in", name="Docker | Log in", _stdin=SecretText(Secret.env("NGC_API_KEY")))
for number, wave in enumerate(host.loop(WAVES), start=1):
    if host.name in wave:
        server.shell("swap", name="Triton | Swap")
    rollout.gate(wave, name=f"Gate | Wave {number} of 3")
"""
INVENTORY = """
hosts = [(f"@fake/h{number:02}", {"fake_delay": 0, "fake_delay_jitter": 0}) for number in range(1, 13)]
hosts[4][1]["fake_responses"] = {"swap": {"success": False, "stderr": ["no room", "on the GPU", "for embed"]}}
"""
TOLD = """\
--> Starting operation: Gate | Every host answers
--> Starting operation: Docker | Log in
    12 hosts changed, in 0 s

--> Starting operation: Triton | Swap
    2 hosts changed, in 0 s

--> Starting operation: Gate | Wave 1 of 3
    Wave 1 of 3 passed its gate: 2 hosts changed, in 0 s; 0 s since the run began; about 0 s for the rest

--> Starting operation: Triton | Swap
    [@fake/h05] no room
    [@fake/h05] on the GPU
    [@fake/h05] for embed
    [@fake/h05] Error: executed 0 commands
    4 hosts changed, 1 failed, in 0 s

--> Starting operation: Gate | Wave 2 of 3
    [whoever] the gate failed: 1 of 5 hosts are lost
    [whoever]   lost   @fake/h05
    [whoever]   means  an operation failed there, or it could not be reached; its own messages are above
    [whoever]   try    repair it, or leave it out of the inventory, and run again: finished steps are not repeated
    [whoever]   state  finished waves are done and stay so; on all other hosts nothing further happens
    [whoever] Error: executed 0 commands
    the same on 10 more hosts: (eight names) and 2 more
    no hosts changed, 11 failed, in 0 s
    Wave 2 of 3 did not pass its gate: 4 hosts changed, 1 failed, in 0 s; 0 s since the run began

"""


@dataclass(frozen=True)
class Typed:
    """`pyinfra` as a person types it, over twelve hosts of which one fails in the second of three waves."""

    output: str
    events: list[dict[str, Any]]
    file: Path


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Typed:
    """The terminal's output, and the events in the file."""
    place = tmp_path_factory.mktemp("fleet")
    (place / "verb.py").write_text(VERB)
    (place / "fleet.py").write_text(INVENTORY)
    words = ["fleet.py", "verb.py", "-y", "--config", str(HERE / "config.py"), "--data", "events=events.jsonl"]
    done = subprocess.run(
        [sys.executable, "-m", "pyinfra", *words],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(HERE), "NGC_API_KEY": SECRET},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    lines = (place / "events.jsonl").read_text().splitlines()
    return Typed(done.stdout, [json.loads(line) for line in lines], place / "events.jsonl")


def test_a_failed_wave_is_printed_completely_and_once(typed: Typed) -> None:
    """The host's own message, and the gate's message, which eleven hosts log, are each printed once."""
    shown = typed.output.partition("--> Beginning operation run...\n")[2].partition("--> Disconnecting")[0]
    for varies, as_told in (
        (r"\b\d+ s\b", "0 s"), (r" +\n", "\n"), (r"\[@fake/h(?!05)\d\d\]", "[whoever]"),
        (r"hosts: (@fake/h\d\d(, )?){8} and", "hosts: (eight names) and"),
    ):  # fmt: skip
        shown = re.sub(varies, as_told, shown)
    assert shown == TOLD


def test_every_operation_of_every_host_is_in_the_file(typed: Typed) -> None:
    """The file has the result of each; hosts without a part in an operation are counted."""
    results: dict[str, list[tuple[str, int, str]]] = {}
    for event in typed.events:
        if event["event"] == "result":
            results.setdefault(event["operation"], []).append((event["host"][-3:], event["wave"], event["result"]))
    wave_of = {f"h{number:02}": 1 if number < 3 else 2 if number < 8 else 3 for number in range(1, 13)}
    everywhere = list(wave_of.items())
    assert {name: sorted(of_hosts) for name, of_hosts in results.items()} == {
        "Gate | Every host answers": [(*host_and_wave, "unchanged") for host_and_wave in everywhere],
        "Docker | Log in": [(*host_and_wave, "changed") for host_and_wave in everywhere],
        "Triton | Swap": [
            (*host_and_wave, "failed" if host_and_wave[0] == "h05" else "changed")
            for host_and_wave in everywhere
            if host_and_wave[1] < 3
        ],
        "Gate | Wave 1 of 3": [(*host_and_wave, "unchanged") for host_and_wave in everywhere],
        "Gate | Wave 2 of 3": [(*host_and_wave, "failed") for host_and_wave in everywhere if host_and_wave[0] != "h05"],
    }
    ended = [
        event["hosts"] for event in typed.events if (event["event"], event["operation"]) == ("ended", "Triton | Swap")
    ]
    assert ended == [{"changed": 2, "skipped": 10}, {"changed": 4, "failed": 1, "skipped": 7}]


def test_every_line_that_was_not_shown_is_in_the_file(typed: Typed) -> None:
    """Eleven hosts logged the gate's message."""
    lines = [event["line"] for event in typed.events if event["event"] == "line" and event["host"]]
    assert [lines.count(line) for line in ("Connected", "the gate failed: 1 of 5 hosts are lost")] == [12, 11]


def test_the_file_is_its_owners_and_holds_no_secret(typed: Typed) -> None:
    """The screen shows no secret either."""
    assert (SECRET in typed.file.read_text() + typed.output, stat.S_IMODE(typed.file.stat().st_mode)) == (False, 0o600)
