"""The pool of this host in its balancers' view, and whether one more host may leave it for a repair.

The balancers' own states coordinate the hosts. A host announces its drain, waits until every balancer shows it, and
only then counts the others. Of two hosts that do so at once, the later one sees the earlier one and withdraws.
`seconds_to_turn` makes that rare: hosts announce in turn, by the clock.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from typing import Any

from host.traffic.stopping import Line, lines_at

TURN_SECONDS = 10
"""Seconds of a turn: longer than balancers need to notice a drain."""
IN_SERVICE = "UP"
"""HAProxy's word for a server that gets new requests; every other word counts as out of service."""


class Unknown(Exception):
    """A balancer gave no answer about this pool."""


@dataclass(frozen=True)
class Pool:
    """Hosts of the pool, by the names of their lines: this host, all hosts, and the hosts that a balancer has taken
    out.

    `is_out`: every balancer has taken this host out.
    """

    host: str
    hosts: tuple[str, ...]
    out: frozenset[str]
    is_out: bool

    @property
    def others_out(self) -> tuple[str, ...]:
        return tuple(sorted(self.out - {self.host}))

    def has_room(self, max_unavailable: int) -> bool:
        return self.is_out or len(self.others_out) < max_unavailable

    def seconds_to_turn(self, now: float) -> float:
        """Seconds until this host's next turn on the clock; 0 during it."""
        mine, turn = self.hosts.index(self.host), int(now // TURN_SECONDS)
        turns = (mine - turn) % len(self.hosts)
        return max(0.0, (turn + turns) * TURN_SECONDS - now)


def seen_by_balancers(traffic: dict[str, Any]) -> Pool | None:
    """The pool, or None if no balancer sends to this host. Raises Unknown if any balancer does not answer."""
    own = [tuple(line.split("/")[:2]) for server in traffic["servers"].values() for line in server["seen_as"]]
    balancers = traffic["balancers"] if own else []
    if not balancers:
        return None
    host, backends = _host_of(own[0][1]), {backend for backend, _ in own}
    with ThreadPoolExecutor(len(balancers)) as threads:
        answers = list(threads.map(partial(_states, seconds=traffic["heard_seconds"]), balancers))
    out, hosts, is_out = set[str](), {host}, True
    for balancer, states in zip(balancers, answers, strict=True):
        lines = {line: state for line, state in states.items() if line[0] in backends}
        mine = [lines[line] for line in own if line in lines]
        if not mine:
            raise Unknown(f"{balancer['name']} reports nothing about this host")
        hosts |= {_host_of(server) for _, server in lines}
        out |= {_host_of(server) for (_, server), state in lines.items() if state != IN_SERVICE}
        is_out = is_out and IN_SERVICE not in mine
    return Pool(host, tuple(sorted(hosts)), frozenset(out), is_out)


def _states(balancer: dict[str, str], seconds: float) -> dict[Line, str]:
    try:
        return lines_at(f"{balancer['metrics']}?scope=server", seconds)[0]
    except (OSError, HTTPException, ValueError) as problem:
        raise Unknown(f"{balancer['name']} does not answer: {problem}") from None


def _host_of(line: str) -> str:
    """The host of a line `HOST.SERVER`; a name in HAProxy has no further dot."""
    return line.partition(".")[0]
