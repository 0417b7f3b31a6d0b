"""Runs a program that connects to a machine, and limits its output."""

import contextlib
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

MIB = 2**20


@dataclass(frozen=True)
class Output:
    """A program's exit status and output; `is_too_long` if it was stopped because of too much output.

    Bytes that are not UTF-8 are marked in the text.
    """

    status: int
    stdout: str
    stderr: str
    is_too_long: bool


def output_of(argv: Sequence[str], *, stdin: str = "", seconds: float, most_bytes: int = 16 * MIB) -> Output:
    """The output of a program. Raises: OSError if it does not start, `subprocess.TimeoutExpired` if it does not end."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin and process.stdout and process.stderr
    written: dict[int, bytes] = {}

    def read(place: int, stream: IO[bytes]) -> None:
        """Keeps a stream's output up to the limit; at the limit the program is stopped."""
        with stream:
            written[place] = stream.read(most_bytes + 1)
        if len(written[place]) > most_bytes:
            process.kill()

    streams = (process.stdout, process.stderr)
    # Daemon threads, because a process that the program left running may keep a stream open for ever.
    readers = [threading.Thread(target=read, args=pair, daemon=True) for pair in enumerate(streams)]
    for reader in readers:
        reader.start()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(stdin.encode())
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    for reader in readers:
        reader.join(seconds)
    stdout, stderr = (written.get(place, b"") for place in range(2))
    is_too_long = max(len(stdout), len(stderr)) > most_bytes
    return Output(status, stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace"), is_too_long)
