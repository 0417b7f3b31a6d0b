"""Queries and messages to systemd: units, and the status line of the unit that this program runs in."""

from __future__ import annotations

import os
import socket
import subprocess

Properties = dict[str, str]
MOST_WORDS = 2000
"""Characters of a message; systemd takes 64 KiB."""


def systemctl(*words: str) -> int:
    """Exit status of systemctl. Its messages are dropped, because the unit's state is checked afterwards."""
    return subprocess.run(["systemctl", *words], check=False, stderr=subprocess.DEVNULL).returncode


def show(unit: str, *properties: str) -> Properties:
    """The unit's properties from systemd; empty texts without an answer."""
    command = ["systemctl", "show", "-p", ",".join(properties), unit]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    values = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    return {name: values.get(name, "") for name in properties}


def active_states(*units: str) -> list[str]:
    """The state of each unit: active, inactive, failed …; "unknown" if systemd does not answer."""
    process = subprocess.run(["systemctl", "is-active", *units], capture_output=True, text=True, check=False)
    return [*process.stdout.split(), *["unknown"] * len(units)][: len(units)]


def has_job(properties: Properties) -> bool:
    return properties["Job"] not in ("", "0")


def say(status: str, also_print: bool = False, is_ready: bool = False) -> None:
    """Sets this unit's status line; prints it if there is no unit, or with `also_print` to the journal.

    `is_ready`: tells systemd that the unit is active (Type=notify).
    """
    status = words(status)
    address = os.environ.get("NOTIFY_SOCKET")
    if not address or also_print:
        print(status, flush=True)
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            line = status.replace("\n", " ")  # a line break would begin another message to systemd
            channel.send(f"{'READY=1' if is_ready else ''}\nSTATUS={line}".strip().encode())


def words(text: str, most: int = MOST_WORDS) -> str:
    """A program's text for the journal and for people: no control characters, and further lines are indented.

    The journal takes `<0>` at the beginning of a line for its priority, and shows such a line on every terminal.
    """
    shown = "".join(sign if sign.isprintable() or sign == "\n" else "?" for sign in text[: most + 1])
    lines = [line.rstrip() for line in shown[:most].split("\n")]
    return "\n    ".join(lines) + ("…" if len(shown) > most else "")
