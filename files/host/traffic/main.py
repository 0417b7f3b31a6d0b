"""Tells balancers if a Triton server may be sent requests, and waits for them before the server stops.

    host traffic serve                      run by enginehouse-traffic.service
    host traffic drained SERVER             first ExecStop of triton@SERVER: waits until its open requests have ended
    host traffic hold TIME [SERVER …]       an operator's own drain (90, 30m, 2h, 1d); the drain ends by itself
    host traffic admit [SERVER …]           ends the drain now

Settings: /etc/enginehouse/traffic.json. A server is ready while systemd has its unit active, no hold exists, and its
unit has not begun to stop. The sources of these facts:

    systemd      every second while a server is not active, else every five: a query takes 10 ms of CPU
    stops        /run/enginehouse/traffic/SERVER.stops names the invocation that has begun to stop. `drained` writes it
                 first, so a drain is visible at once, without waiting for the next query of systemd. An
                 invocation's name becomes stale by itself, so the file needs no removal, even after a kill
    holds        /var/lib/enginehouse/traffic/SERVER.json; read every second. They survive a reboot

Answers come from memory and from /run, so a hanging disk or systemd delays no answer. After a restart the service reads
the state before it listens, so no answer is a guess.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import re
import sys
import time

from host import disk
from host.traffic.service import serve
from host.traffic.state import hold_file, iso, settings
from host.traffic.stopping import drained

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_HOLD_SECONDS = 7 * 86400


def main(arguments: list[str]) -> int:
    """0 on success; 64 for unknown arguments."""
    verb, words = (arguments or [""])[0], arguments[1:]
    if verb == "serve":
        return asyncio.run(serve(settings()))
    if verb == "drained" and len(words) == 1:
        return drained(words[0])
    if verb == "hold" and words and seconds_of(words[0]):
        return hold(seconds_of(words[0]), words[1:])
    if verb == "admit":
        return admit(words)
    print("host traffic serve | drained SERVER | hold TIME [SERVER …] | admit [SERVER …]", file=sys.stderr)
    print(f"TIME is 90, 30m, 2h or 1d, and at most {LONGEST_HOLD_SECONDS // 86400}d", file=sys.stderr)
    return 64


def seconds_of(time_told: str) -> int:
    """Seconds of 90, 30m, 2h, 1d; 0 for any other text, or too long a time."""
    match = re.fullmatch(r"(\d{1,9})([smhd]?)", time_told)
    seconds = int(match[1]) * UNITS[match[2]] if match else 0
    return seconds if seconds <= LONGEST_HOLD_SECONDS else 0


def hold(seconds: int, servers: list[str]) -> int:
    """Keeps balancers from sending to the named servers, or to all of the host, for that time.

    Returns 0, or 1 if the host lacks one of them.
    """
    until = (now := time.time()) + seconds
    record = {"since": now, "until": until, "who": os.environ.get("SUDO_USER") or getpass.getuser()}
    for server in (names := named(servers)):
        hold_file(server).parent.mkdir(parents=True, exist_ok=True)
        disk.replace_durably(hold_file(server), json.dumps(record) + "\n")
        hold_file(server).chmod(0o644)
        print(f"{server}: drain until {iso(until)}; `host traffic admit {server}` ends it")
    return 0 if names else 1


def admit(servers: list[str]) -> int:
    """Ends the operator's drain of the named servers, or of all of the host.

    Returns 0, or 1 if the host lacks one of them.
    """
    for server in (names := named(servers)):
        hold_file(server).unlink(missing_ok=True)
        print(f"{server}: the operator's drain has ended")
    return 0 if names else 1


def named(servers: list[str]) -> list[str]:
    """The named servers; none if one of them is not on this host."""
    known = list(settings()["servers"])
    unknown = [server for server in servers if server not in known]
    if unknown:
        print(f"{', '.join(unknown)}: this host has {', '.join(known)}", file=sys.stderr)
        return []
    return servers or known
