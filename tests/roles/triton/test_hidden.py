"""A program gets a secret as an argument, and no list of processes shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HIDDEN = Path(__file__).resolve().parents[3] / "files" / "launch" / "hidden.py"
PROGRAM = """#!{python}
import os, sys
print(os.getpid())
print(*sys.argv[1:])
print(open("/proc/self/cmdline").read().replace(chr(0), " "))
"""
UNTRACEABLE = """
import sys
sys.path.insert(0, {folder!r})
import hidden
hidden.SEIZE = 0x9999
sys.exit(hidden.main(sys.argv[1:]))
"""
SIGNALLED = """
import os, signal, sys
sys.path.insert(0, {folder!r})
import hidden
start, arrived = os.execvpe, []


def signalled(*words):
    signal.signal(signal.SIGTERM, lambda number, frame: arrived.append(number))
    os.kill(os.getpid(), signal.SIGTERM)
    print(*arrived, flush=True)
    start(*words)


os.execvpe = signalled
sys.exit(hidden.main(sys.argv[1:]))
"""
"""The signal of `docker stop` arrives after the trace has begun, before the program is started."""
CUT = """
import os, sys
sys.path.insert(0, {folder!r})
import hidden
hidden.point = lambda process: os._exit(9)
sys.exit(hidden.main(sys.argv[1:]))
"""


def started(folder: Path, before: list[str], *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "key").write_text("s3cret\n")
    program = folder / "program"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    command = [sys.executable, *before, str(folder / "key"), str(program), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_program_has_the_key_as_an_argument_and_the_kernels_list_has_not(tmp_path: Path) -> None:
    words = ("--http=a,b:header=@KEY@", "--plain", "--grpc=a:header=@KEY@")
    ran = started(tmp_path, [str(HIDDEN)], *words)
    _, arguments, listed = ran.stdout.splitlines()
    assert arguments == "--http=a,b:header=s3cret --plain --grpc=a:header=s3cret"
    assert listed.rstrip().endswith("program --http=a,b:header=@KEY@ --plain --grpc=a:header=@KEY@")
    assert ran.stderr == ""


def test_the_program_keeps_the_number_of_the_process_that_became_it(tmp_path: Path) -> None:
    """Docker sends the stop signal to process 1."""
    (tmp_path / "key").write_text("s3cret")
    words = [sys.executable, HIDDEN, tmp_path / "key", "sh", "-c", "echo $$", "@KEY@"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.communicate()[0] == f"{process.pid}\n"


def test_a_program_that_cannot_be_traced_is_not_started(tmp_path: Path) -> None:
    ran = started(tmp_path, ["-c", UNTRACEABLE.format(folder=str(HIDDEN.parent))], "--http=@KEY@")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "the server's key cannot be kept out of the list of processes, so nothing starts" in ran.stderr


def test_a_status_of_the_program_is_the_process_s(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret")
    words = [sys.executable, HIDDEN, tmp_path / "key", "sh", "-c", "exit 7", "@KEY@"]
    assert subprocess.run(words, check=False, env=dict(os.environ)).returncode == 7


def test_a_signal_during_the_trace_arrives(tmp_path: Path) -> None:
    ran = started(tmp_path, ["-c", SIGNALLED.format(folder=str(HIDDEN.parent))], "--http=@KEY@")
    lines = ran.stdout.splitlines()
    assert (lines[0], lines[2], ran.returncode) == ("15", "--http=s3cret", 0)


def test_a_program_is_killed_if_its_tracer_dies(tmp_path: Path) -> None:
    """A program that runs on would use the public placeholder as its key."""
    ran = started(tmp_path, ["-c", CUT.format(folder=str(HIDDEN.parent))], "--http=@KEY@")
    assert (ran.returncode, ran.stdout) == (-9, "")


def test_a_missing_program_ends_the_start_without_showing_the_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret")
    words = [sys.executable, HIDDEN, tmp_path / "key", tmp_path / "none", "--http=@KEY@"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, "No such file" in ran.stderr, "s3cret" in ran.stderr) == (1, True, False)
