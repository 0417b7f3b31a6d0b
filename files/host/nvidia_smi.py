"""nvidia-smi, called with a time limit, because after some faults it hangs in the driver."""

from __future__ import annotations

import subprocess

ANSWER_SECONDS = 60


class NoAnswer(Exception):
    """nvidia-smi did not answer; the text is its output."""


def query(*words: str) -> list[list[str]]:
    """The cells of each line that a `--query-…` prints. Raises NoAnswer if it fails, is missing or hangs."""
    command = ["nvidia-smi", *words, "--format=csv,noheader,nounits"]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as missing:
        raise NoAnswer(f"nvidia-smi is not on this host ({missing.strerror})") from None
    try:
        output, errors = process.communicate(timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()  # unlike subprocess.run, does not wait for it: it may never end
        raise NoAnswer(f"nothing within {ANSWER_SECONDS} s") from None
    if process.returncode:
        lines = (output + errors).strip().splitlines()
        raise NoAnswer(lines[0] if lines else f"it ended with status {process.returncode}")
    return [[cell.strip() for cell in line.split(",")] for line in output.splitlines() if line.strip()]
