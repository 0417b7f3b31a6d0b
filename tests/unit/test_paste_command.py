"""`enginehouse check`, as typed: text, a file or standard input, its output and its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRONG = "trtllm-build --checkpoint_dir c --max_batchsize 32"


def checked(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """`python -m deploy check …` in the repository."""
    argv = [sys.executable, "-m", "deploy", "check", *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, input=stdin)


def test_a_wrong_command_ends_with_1_and_shows_the_right_one() -> None:
    """The right command is printed on standard output."""
    done = checked(WRONG)
    right = "  trtllm-build --checkpoint_dir c --max_batch_size 32\n"
    assert (done.returncode, done.stdout.endswith(right), done.stderr) == (1, True, "")


def test_a_right_command_ends_with_0() -> None:
    """The verb prints a single line."""
    done = checked("trtllm-build --checkpoint_dir c --max_batch_size 32", "--release", "25.04")
    assert (done.returncode, done.stdout) == (0, "nothing is wrong; judged for release 25.04 (TensorRT-LLM 0.18.2)\n")


def test_json_is_json() -> None:
    """The exit code is the same."""
    done = checked(WRONG, "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, [finding["kind"] for finding in answer["checked"][0]["findings"]]) == (1, ["unknown-flag"])


def test_a_file_is_read(tmp_path: Path) -> None:
    """An existing path is not taken as a command."""
    file = tmp_path / "build.sh"
    file.write_text(WRONG, "utf-8")
    assert checked(str(file)).stdout == checked(WRONG).stdout


def test_a_dash_reads_what_is_piped_in() -> None:
    """Other programs do the same."""
    assert checked("-", stdin=WRONG).stdout == checked(WRONG).stdout


def test_an_unknown_release_is_refused() -> None:
    """The message has the nearest name, and nothing is judged."""
    done = checked(WRONG, "--release", "26.70")
    assert (done.returncode, done.stdout, "did you mean `26.07`" in done.stderr) == (1, "", True)
