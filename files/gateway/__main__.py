"""Starts a process of the gateway: python -m gateway serve SETTINGS [NUMBER]

NUMBER says which port of `listen.ports` is this process's own, counted from 0. Exit status 64 where the words are not
understood, 78 where the settings are not.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

GRPC_EXPERIMENTS = "-event_engine_client"
"""gRPC 1.85 reads sockets in threads of its own, beside the one that Python waits for. Without those a chat costs 15 %
less CPU, and an embedding is answered 0.1 ms sooner (2026-11-23)."""


def main(words: list[str]) -> int:
    """The exit status."""
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
