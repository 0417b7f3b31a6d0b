"""Starts a process of the gateway: python -m gateway serve SETTINGS [NUMBER]

NUMBER is the index of this process's port in `listen.ports`, from 0. The exit status is 64 for unknown arguments, 78
for invalid settings.

    python3 -m gateway usage FOLDER [SINCE]     prints the usage since a day that the processes of this host counted

`usage` needs only the standard library.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from pathlib import Path

GRPC_EXPERIMENTS = "-event_engine_client"
"""gRPC 1.85 reads sockets in additional threads. Without them a chat costs 15 % less CPU, and an embedding is
answered 0.1 ms sooner (2026-11-23)."""


def main(words: list[str]) -> int:
    """The exit status."""
    if len(words) in (2, 3) and words[0] == "usage":
        return print_usage(*words[1:])
    number = (words[2:] or ["0"])[0]
    if len(words) not in (2, 3) or words[0] != "serve" or not number.isdecimal():
        print((__doc__ or "").splitlines()[0], file=sys.stderr)
        return 64
    os.environ.setdefault("GRPC_EXPERIMENTS", GRPC_EXPERIMENTS)
    from gateway.gateway import Gateway  # gRPC looks at its environment when it is imported
    from gateway.server import serve

    try:
        gateway = Gateway(Path(words[1]))
        port = gateway.settings.listen.ports[int(number)]
    except (OSError, ValueError, IndexError) as error:
        print(f"{words[1]}: {error}", file=sys.stderr)
        return 78
    return serve(gateway, port)


def print_usage(folder: str, since: str = "") -> int:
    """The exit status; 1 if the folder cannot be read."""
    from gateway.usage import report

    try:
        print(json.dumps(report(Path(folder), since)))
    except (OSError, sqlite3.Error) as error:
        print(f"{folder}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
