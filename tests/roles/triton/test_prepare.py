"""The host program that runs before a server's container: engines are whole and signed, or nothing starts."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

PREPARE = Path(__file__).resolve().parents[3] / "files" / "triton" / "host" / "prepare.sh"
VERIFIER = """
import sys
print(*sys.argv[1:], file=open("{log}", "a"))
if sys.argv[1] == "verify" and not sys.argv[2].endswith(("one", "two", "good")):
    print("rank0.engine: its sha256 is another one" if "bad" in sys.argv[2] else "nobody signs here")
    sys.exit(1 if "bad" in sys.argv[2] else 2)
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host's programs: the verifier as a few lines, and a docker that is not there."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "engine.py").write_text(VERIFIER.format(log=tmp_path / "asked"))
    (programs / "docker").write_text(f"#!/bin/sh\necho docker >> {tmp_path}/asked\nexit 7\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    return tmp_path


def prepared(host: Path, *engines: str) -> tuple[str, list[str]]:
    """What it said, and what it asked for, up to the first word to Docker."""
    for engine in engines:
        (host / engine).mkdir()
        if "unsigned" not in engine:
            (host / engine / "engine.json.sig").write_text("signature")
    current = host / "servers" / "main" / "current"
    current.mkdir(parents=True)
    named = [{"path": str(host / engine), "fingerprint": "0" * 16} for engine in engines]
    (current / "server.json").write_text(json.dumps({"engines": named}))
    environment = os.environ | {
        "PATH": f"{host / 'programs'}:{os.environ['PATH']}", "ENGINEHOUSE_PROGRAMS": str(host / "programs"),
        "ENGINEHOUSE_SERVERS": str(host / "servers"), "RUNTIME_DIRECTORY": str(host / "nowhere"),
    }  # fmt: skip
    ran = subprocess.run(["bash", PREPARE, "main"], env=environment, capture_output=True, text=True, check=False)
    asked = (host / "asked").read_text().replace(f"{host}/", "").splitlines()
    return ran.stderr, asked


def test_every_engine_of_the_release_is_verified_before_anything_else(host: Path) -> None:
    assert prepared(host, "one", "two")[1][:3] == ["verify one", "verify two", "docker"]


def test_an_engine_that_is_not_what_was_signed_stops_the_start(host: Path) -> None:
    said, asked = prepared(host, "good", "bad")
    assert ("rank0.engine: its sha256 is another one" in said, "docker" in asked) == (True, False)


def test_it_is_moved_aside_with_the_reason(host: Path) -> None:
    assert prepared(host, "bad")[1] == ["verify bad", "refuse bad rank0.engine: its sha256 is another one"]


def test_a_release_without_engines_asks_nobody(host: Path) -> None:
    assert prepared(host)[1][0] == "docker"


def test_a_host_that_can_judge_nothing_moves_nothing(host: Path) -> None:
    said, asked = prepared(host, "unjudged")
    assert (said.strip(), asked) == ("nobody signs here", ["verify unjudged"])


def test_an_engine_that_waits_for_its_signature_is_not_loaded_and_stays(host: Path) -> None:
    """A server that keeps trying must not take a fresh build away from whoever is about to sign it."""
    assert prepared(host, "bad-unsigned")[1] == ["verify bad-unsigned"]
