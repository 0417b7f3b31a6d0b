"""A host that its cloud takes back: balancers are told, answers run until the margin, and what is left is counted.

The drain is that of the traffic service: a hold of every server, which balancers and gateways hear of within a second
or two. At `margin_seconds` before the end the servers are stopped, so that clients whose answers are not done get an
error at once and can ask another host. A drained host keeps its servers: a notice may be withdrawn.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from host import disk, history
from host.systemd import systemctl
from host.traffic.state import cut_file, hold_file, hold_of
from host.traffic.stopping import GONE, Wait

HELD_SECONDS = 300.0
"""Beyond the end, renewed while the notice stands: a host that lives on takes requests again by itself."""


@dataclass(frozen=True)
class InFlight:
    """The balancers' view of this host: `is_heard` if all of them have taken it out, and their requests here.

    `requests` is None if no balancer sends to the host, or none answers: then nobody counts.
    """

    is_heard: bool
    requests: int | None


def hold(servers: list[str], until: float, why: str, now: float) -> None:
    """Keeps balancers from sending to these servers until `until`; an operator's longer drain stays as it is."""
    for server in servers:
        present = hold_of(server)
        if present and present.until >= until:
            continue
        record = {"since": now, "until": until, "who": f"the cloud: {why}", "cloud": 1}
        try:
            hold_file(server).parent.mkdir(parents=True, exist_ok=True)
            disk.replace_durably(hold_file(server), json.dumps(record) + "\n")
            hold_file(server).chmod(0o644)
        except OSError as problem:  # it is stopped at the margin all the same
            print(f"<4>{server} could not be held: {problem}", flush=True)


def release(servers: list[str]) -> None:
    for server in servers:
        try:
            is_ours = json.loads(hold_file(server).read_text()).get("cloud") == 1
        except (OSError, ValueError, AttributeError):
            continue
        if is_ours:
            hold_file(server).unlink(missing_ok=True)


def in_flight(traffic: dict[str, Any]) -> InFlight:
    """The requests that balancers have on this host's servers."""
    seen_as = [line for server in traffic["servers"].values() for line in server["seen_as"]]
    waits = [Wait(balancer, seen_as, traffic) for balancer in traffic["balancers"] if seen_as]
    if not waits:
        return InFlight(True, None)
    with ThreadPoolExecutor(len(waits)) as threads:
        answers = [answer for answer in threads.map(_scraped, waits) if answer]
    if not answers:
        return InFlight(False, None)
    is_heard = all(states <= GONE for states, _ in answers)
    return InFlight(is_heard, sum(sessions for _, sessions in answers))


def _scraped(wait: Wait) -> tuple[set[str], int] | None:
    """The balancers' state; None if it cannot be read, since the host goes away in any case."""
    try:
        return wait.scraped()
    except (OSError, HTTPException, ValueError, LookupError):
        return None


def units(traffic: dict[str, Any]) -> list[str]:
    """The units that answer requests: an LLM beside Triton first, as it is started last."""
    names = list(traffic["servers"])
    beside = [f"llm@{name}.service" for name in names if traffic["servers"][name].get("llm")]
    return [*beside, *(f"triton@{name}.service" for name in names)]


def cut(traffic: dict[str, Any]) -> None:
    """The servers are being stopped; their own wait for balancers ends at once."""
    cut_file().parent.mkdir(parents=True, exist_ok=True)
    cut_file().touch()
    systemctl("stop", "--no-block", *units(traffic))


def start_again(traffic: dict[str, Any]) -> None:
    """Servers that were stopped for a notice that was withdrawn are started."""
    cut_file().unlink(missing_ok=True)
    systemctl("start", "--no-block", *units(traffic))


def record(entry: dict[str, Any]) -> str:
    """Appends a line to the host's history; the result is the problem, or empty."""
    return history.record({"when": history.now(), "who": "this host's cloud"} | entry)


def boot() -> str:
    """The id of this boot: a host that was rebooted has had its interruption."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return str(os.getppid())
