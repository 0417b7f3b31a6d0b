"""Messages of a failed transfer: the error of rsync, the state of the host, and the command to type next."""

from __future__ import annotations

from typing import Any

import pytest

from roles._shipping.rsync import transfer


class Listening:
    """A host that records the log lines under its name."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log_styled(self, line: str, **style: Any) -> None:
        self.lines.append(line)


class Patient:
    """Settings without a second attempt."""

    rsync_seconds, rsync_attempts = 10, 1


@pytest.mark.parametrize(
    ("words", "attempt"),
    [
        ("write failed: No space left on device (28)", "see what fills it (df -h /var/lib/enginehouse on this host)"),
        ("Connection to 10.0.0.5 port 22 timed out", "send packets of full size to its address (ping "),
        ("timeout in data send/receive", "send packets of full size to its address (ping "),
        ("Timeout, server gpu-01 not responding.", "send packets of full size to its address (ping "),
        ("some files vanished", "correct the cause that rsync names, then run again"),
    ],
)
def test_an_impossible_transfer_names_the_next_command(words: str, attempt: str) -> None:
    host = Listening()
    assert not transfer(host, ["sh", "-c", f"cat >/dev/null; echo '{words}' >&2; exit 11"], "weights of m", Patient())
    what, state, then = host.lines
    assert what == f"weights of m: rsync ended with 11: {words}"
    assert state.startswith("  state   no serving program was changed; sent bytes stay")
    assert then.startswith(f"  try     {attempt}")
