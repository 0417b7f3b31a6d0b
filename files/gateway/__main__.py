"""Starts a process of the gateway: python -m gateway serve SETTINGS [NUMBER]

NUMBER says which port of `listen.ports` is this process's own, counted from 0. Exit status 64 where the words are not
understood, 78 where the settings are not.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gateway.gateway import Gateway
from gateway.server import serve


def main(words: list[str]) -> int:
    """The exit status."""
    number = (words[2:] or ["0"])[0]
    if len(words) not in (2, 3) or words[0] != "serve" or not number.isdecimal():
        print((__doc__ or "").splitlines()[0], file=sys.stderr)
        return 64
    try:
        gateway = Gateway(Path(words[1]))
        port = gateway.settings.listen.ports[int(number)]
    except (OSError, ValueError, IndexError) as error:
        print(f"{words[1]}: {error}", file=sys.stderr)
        return 78
    return serve(gateway, port)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
