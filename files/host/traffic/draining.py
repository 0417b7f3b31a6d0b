"""Drains that a program of the host begins and ends: holds of its servers, and the requests that remain there."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from host import disk
from host.traffic.state import hold_file, hold_of
from host.traffic.stopping import GONE, Wait


@dataclass(frozen=True)
class InFlight:
    """The balancers' view of this host: `is_heard` if all of them have taken it out, and their requests here.

    `requests` is None if no balancer sends to the host, or none answers.
    """

    is_heard: bool
    requests: int | None


def hold(servers: list[str], until: float, who: str, mark: str, now: float) -> None:
    """Keeps balancers from sending to these servers until `until`; an operator's longer drain is not changed.

    `mark` is the key by which `release` finds the holds of one program.
    """
    for server in servers:
        present = hold_of(server)
        if present and present.until >= until:
            continue
        record = {"since": now, "until": until, "who": who, mark: 1}
        try:
            hold_file(server).parent.mkdir(parents=True, exist_ok=True)
            disk.replace_durably(hold_file(server), json.dumps(record) + "\n")
            hold_file(server).chmod(0o644)
        except OSError as problem:  # the caller stops the server even without a hold
            print(f"<4>{server} could not be held: {problem}", flush=True)


def release(servers: list[str], mark: str) -> None:
    for server in servers:
        try:
            is_ours = json.loads(hold_file(server).read_text()).get(mark) == 1
        except (OSError, ValueError, AttributeError, RecursionError):
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
    """The balancers' state; None if one does not answer, because the host is reclaimed in any case."""
    try:
        return wait.scraped()
    except (OSError, HTTPException, ValueError, LookupError):
        return None


def units(traffic: dict[str, Any]) -> list[str]:
    """The units that answer requests: an LLM beside Triton first, because it is started last."""
    names = list(traffic["servers"])
    beside = [f"llm@{name}.service" for name in names if traffic["servers"][name].get("llm")]
    return [*beside, *(f"triton@{name}.service" for name in names)]
