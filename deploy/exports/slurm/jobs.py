"""Hosts that share a batch file, the number of ranks of their servers, and the times of a job."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from deploy.exports.served import ServedHost, ServedServer

MARGIN_SECONDS = 30
"""Seconds beyond the stop of the slowest server: the start of the programs that drain it."""
MOST_SECONDS = 65_535
"""Longest time in seconds before a job's limit at which Slurm sends a signal."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A batch file. Each run of it takes the place of its node's host in the plan, and serves that host's servers."""

    name: str
    hosts: tuple[ServedHost, ...]

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(server.slice.name for server in self.hosts[0].servers)

    @property
    def gpus(self) -> int:
        return self.hosts[0].slice.machine.gpus

    @property
    def ranks(self) -> int:
        return max(ranks(server) for server in self.hosts[0].servers)

    @property
    def notice_seconds(self) -> int:
        """Seconds before the time limit at which the job is stopped: time to drain and to end."""
        stops = [server.stop_seconds for host in self.hosts for server in host.servers]
        return min(max(stops) + MARGIN_SECONDS, MOST_SECONDS)

    @property
    def start_seconds(self) -> int:
        return max(server.start_seconds for host in self.hosts for server in host.servers)


def ranks(server: ServedServer) -> int:
    """Number of a server's tasks under Slurm: one for each GPU of a split LLM, else one."""
    return len(server.slice.gpus) if any(model.kind == "llm" for model in server.slice.models) else 1


def jobs_of(hosts: Iterable[ServedHost]) -> tuple[Job, ...]:
    """A job for all equal hosts of a pool; a host without a pool has a job to itself."""
    alike = dict[tuple[object, ...], list[ServedHost]]()
    for host in hosts:
        alike.setdefault((_word(host), host.slice.machine.gpus, *map(_shape, host.servers)), []).append(host)
    several = Counter(str(word) for word, *_ in alike)
    return tuple(
        Job(
            name=str(word) if several[str(word)] == 1 else f"{word}-{_label(members[0].slice.host)}",
            hosts=tuple(members),
        )
        for (word, *_), members in alike.items()
    )


def nodes(hosts: Iterable[str]) -> dict[str, str]:
    """The name under which Slurm probably knows each host: its first label if no other host has it."""
    names = list(dict.fromkeys(hosts))
    several = Counter(map(_first, names))
    return {name: _first(name) if several[_first(name)] == 1 else name for name in names}


def addresses(host: ServedHost) -> tuple[str, ...]:
    """Addresses of the node that the job listens on, without addresses that every node has."""
    listening = [server.triton.address for server in host.servers]
    listening += [host.slice.traffic.address] if host.traffic and host.slice.traffic else []
    everywhere = ("0.0.0.0", "::", "127.0.0.1", "::1")
    return tuple(dict.fromkeys(address for address in listening if address not in everywhere))


def ports(host: ServedHost) -> tuple[int, ...]:
    """Ports of the node that the job listens on."""
    of_servers = [outside for server in host.servers for outside, _ in server.triton.ports]
    traffic = host.slice.traffic
    return (*of_servers, *([traffic.agent_port, traffic.ready_port] if host.traffic and traffic else []))


def _word(host: ServedHost) -> str:
    return host.slice.pool or _label(host.slice.host)


def _first(host: str) -> str:
    return host if re.fullmatch(r"[\d.:]+", host) else host.split(".")[0]


def _label(host: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", _first(host)).strip("-")


def _shape(server: ServedServer) -> tuple[object, ...]:
    return server.slice.name, server.slice.gpus, ranks(server)
