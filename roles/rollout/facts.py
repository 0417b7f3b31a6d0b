"""The state of a host's servers, and the hosts to which its balancers send requests."""

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pyinfra.api import FactBase

from deploy.slices.traffic import SeenBySlice
from deploy.topology.balancing import backends, line_of
from deploy.topology.waves import Pool
from roles._shipping.places import command

STATUS = re.compile(r'haproxy_server_status\{proxy="([^"]+)",server="([^"]+)",state="UP"\} (\S+)')
ASKED_SECONDS = 5


@dataclass(frozen=True)
class ServerFacts:
    """State of a server: its release, systemd's state and start number, and the verdict of its last swap.

    `problem`: the fault in its answers, if it was probed.
    """

    server: str
    release: str = ""
    active: str = ""
    invocation: str = ""
    swap: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


class RolloutFacts(FactBase[dict[str, ServerFacts]]):
    """State of each server, by its name; with `asks` every model of a server gets its test request."""

    default = dict

    def command(self, servers: Sequence[str], asks: bool = False) -> str:
        """The command; empty on a host without our programs."""
        words = [*(["--ask"] if asks else []), *servers]
        return f"{command('tell')} {' '.join(map(shlex.quote, words))} 2>/dev/null || true" if servers else "true"

    def process(self, output: list[str]) -> dict[str, ServerFacts]:
        """The states in the lines of JSON; other lines are skipped. Raises: ValueError for a record of another form."""
        all_facts = [_server_facts(json.loads(line)) for line in output if line.startswith("{")]
        return {facts.server: facts for facts in all_facts}


def _server_facts(record: dict[str, Any]) -> ServerFacts:
    facts = ServerFacts(**{key.name: record[key.name] for key in fields(ServerFacts) if key.name in record})
    texts = (facts.server, facts.release, facts.active, facts.invocation, facts.problem)
    swap = facts.swap if isinstance(facts.swap, dict) else {"seconds": None}
    answers = [swap.get(key, {}) for key in ("answers", "answers_before")]
    is_known = all(isinstance(text, str) for text in texts) and all(isinstance(times, dict) for times in answers)
    seconds = [swap.get("seconds", 0), *(value for times in answers if is_known for value in times.values())]
    if not is_known or not all(map(_is_time, seconds)):
        raise ValueError("a server's state with fields of other types")
    return facts


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and 0 <= value < 1e12


def readiness_command(balancers: Iterable[SeenBySlice]) -> str:
    """The shell command that prints the name of each balancer that answers, and its state of the host's servers."""
    commands = (
        f"if seen=$(curl -fsS --max-time {ASKED_SECONDS} {shlex.quote(balancer.metrics)} 2>/dev/null); then"
        f" echo balancer={shlex.quote(balancer.name)};"
        """ printf '%s\\n' "$seen" | grep '^haproxy_server_status{.*state="UP"'; fi"""
        for balancer in balancers
    )
    return "; ".join([*commands, "true"])


def ready_hosts(output: Iterable[str], pools: Iterable[Pool]) -> dict[str, bool]:
    """By host of the pools that a balancer knows: True if every balancer sends to all of the host's servers.

    `output` is the output of `readiness_command`. A host without a line in a pool's backends is not ready there.
    """
    known = list(pools)
    ready: dict[str, bool] = {}
    for lines in _by_balancer(output):
        for pool in known:
            states = [(line, up) for proxy, line, up in lines if proxy in backends(pool.name)]
            for host in pool.hosts if pool.name and states else ():
                of_host = [up for line, up in states if line.rpartition(".")[0] == line_of(host)]
                ready[host] = ready.get(host, True) and bool(of_host) and all(of_host)
    return ready


def _by_balancer(output: Iterable[str]) -> list[list[tuple[str, str, bool]]]:
    """(backend, line, is up) of each balancer that answered."""
    answers: list[list[tuple[str, str, bool]]] = []
    for line in output:
        if line.startswith("balancer="):
            answers.append([])
        elif (match := STATUS.match(line)) and answers:
            answers[-1].append((match[1], match[2], float(match[3]) == 1))
    return answers
