"""A real Triton that dies during the tests fails one of them, by its cause; there are no retries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
import os, signal, subprocess
import pytest
from tests.encoders import real_triton

@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    (folder / "triton_python_backend_stub").symlink_to("/bin/sleep")
    (folder / "log").write_text("malloc(): unaligned fastbin chunk detected")
    words = f"{folder}/triton_python_backend_stub 600 & echo up; wait; exec sleep 600"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(["sh", "-c", words], **pipes, start_new_session=True)
    process.stdout.readline()
    while not (stubs := real_triton.stubs_of(process.pid)):
        pass
    life = real_triton.Life(process, folder / "log", stubs)
    try:
        with real_triton.watched(life):
            yield life
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

def test_one(server):
    pass

def test_two(server):
    WHAT
    while not server.death():
        pass
    assert False, "the client lost its connection"

def test_three(server):
    pass

def test_four(server):
    pass
"""


def outcome(folder: Path, what: str) -> str:
    """The output of pytest in CI for a module whose second test has this fault."""
    (folder / "test_deaths.py").write_text(TESTS.replace("WHAT", what))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
    ]
    environment = os.environ | {"CI": "1", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [*command, "test_deaths.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    return ran.stdout + ran.stderr


def test_a_server_that_dies_fails_the_test_that_asked_it_and_no_other(tmp_path: Path) -> None:
    output = outcome(tmp_path, "os.kill(server.process.pid, signal.SIGABRT)")
    assert "1 failed, 1 passed, 2 skipped" in output, output
    assert re.search(r"tritonserver died of SIGABRT:\s+malloc\(\): unaligned fastbin chunk detected", output)
    assert "the client lost its connection" in output


def test_a_stub_that_dies_is_named_though_the_server_lives(tmp_path: Path) -> None:
    output = outcome(tmp_path, "os.kill(min(server.stubs), signal.SIGABRT)")
    assert "1 failed, 1 passed, 2 skipped" in output, output
    assert "1 of 1 Python stubs of tritonserver died:" in output
