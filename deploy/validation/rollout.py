"""The fleet as a whole: it has hosts, and a rollout that reaches all of them without too many out at once."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from deploy.refusals import Refusal, refuse, source
from deploy.spec import Host, Rollout
from deploy.topology.groups import pools_of_hosts
from deploy.topology.waves import Pool

SHARE = re.compile(r"[0-9]{1,3}%|")
POOL = re.compile(r"[A-Za-z0-9_-]+")
"""Pattern of a pool's name, which is part of names in HAProxy's configuration."""


def rollout_problems(rollout: Rollout, hosts: Iterable[Host]) -> Iterator[Refusal]:
    """A refusal for each mistake in the sizes of canary and waves, and for a pool of which no host may be out."""
    limit = rollout.max_unavailable
    serving = [host for host in hosts if not host.farm]
    members = [(host.name, host.pool) for host in serving]
    yield from _too_many_canaries(rollout, members)
    if isinstance(limit, str) and not (SHARE.fullmatch(limit) and int(limit.rstrip("%") or 0) <= 100):
        yield _no_share(limit, members)
    elif rollout.may_be_lost >= 0:
        yield from (_nobody(pool, rollout) for pool in pools_of_hosts(serving, rollout) if pool.wave < 1)


def _too_many_canaries(rollout: Rollout, members: list[tuple[str, str]]) -> Iterator[Refusal]:
    """A refusal for more canaries than the largest pool has hosts: every host would be a canary."""
    sizes = Counter(pool for _host, pool in members)
    largest = max(sizes.values(), default=0)
    if sizes and rollout.canary_hosts > max(1, largest):
        yield refuse(
            "canaries-beyond-the-fleet",
            f"{rollout.canary_hosts:,} canaries of each pool, and the largest pool has {largest} hosts",
            where="rollout.canary_hosts",
            seen=f"canary_hosts={rollout.canary_hosts}, {largest} hosts",
            wanted="fewer canaries than hosts: a canary's failure has to spare the other hosts",
            attempt="Rollout(canary_hosts=1)",
        )


def _no_share(limit: str, members: Sequence[tuple[str, str]]) -> Refusal:
    smallest = min(Counter(pool for _, pool in members).values(), default=1)
    attempt = f"Rollout(max_unavailable={source('25%' if smallest > 3 else 1)})"
    number = re.fullmatch(r"([0-9]{1,3}) *(?:percent|per cent|pct)?", limit)
    if number and 1 <= (share := int(number[1])) <= 100:
        hosts = f"; {share} without quotes is a number of hosts" if limit.isdecimal() else ""
        attempt = f'Rollout(max_unavailable="{share}%"){hosts}'
    return refuse(
        "out-of-range",
        f"`max_unavailable` is a number of hosts or a share of a pool, and {limit!r} is neither",
        where="rollout.max_unavailable",
        seen=repr(limit),
        wanted='a whole number, or one with % behind it: "25%"',
        attempt=attempt,
    )


def _nobody(pool: Pool, rollout: Rollout) -> Refusal:
    name, size = f"pool {pool.name}" if pool.name else "the hosts without a pool", len(pool.units)
    lost = f"; hosts that may be lost: {rollout.may_be_lost}" if rollout.may_be_lost else ""
    none = "the hosts that may be lost are all that may be out" if lost else "no host may be out of service"
    least = 1 + max(0, rollout.may_be_lost)
    limit = rollout.max_unavailable if rollout.max_unavailable != "" else "nothing, which is a quarter"
    return refuse(
        "nobody-out",
        f"{name}: {none}, so none can be updated",
        where="rollout.max_unavailable",
        seen=f"{limit}; hosts that may be out: {max(0, pool.allowed)} of {size}{lost}",
        wanted=f"room for {least} at least" + (": the hosts that may be lost, and one that is swapped" if lost else ""),
        attempt=f"Rollout(max_unavailable={least})" if least <= size else "Rollout(may_be_lost=0), or a larger pool",
    )


def pool_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for a pool's name that a balancer cannot write, and for a pool of a host without servers."""
    if host.pool and not POOL.fullmatch(host.pool):
        yield refuse(
            "pool-name",
            f"{host.pool!r} is not a valid name for a pool",
            where="pool",
            seen=repr(host.pool),
            wanted="letters, digits, - and _: it names a backend of the balancers",
            attempt=f'"pool": "{re.sub("[^A-Za-z0-9_-]+", "-", host.pool).strip("-") or "chat"}"',
        )
    if host.pool and host.farm:
        yield refuse(
            "farm-in-a-pool",
            "a farm host serves no clients, so it cannot be in a pool",
            where="pool",
            seen=f"pool={host.pool!r}, farm=True",
            wanted="a pool of hosts that serve, or farm=True without a pool",
            attempt=f'take "pool": "{host.pool}" off this host',
        )


_COPY = "copy inventories/h100.py and change the address"


def no_hosts(reason: str = "", meant: str = "") -> Refusal:
    """The refusal of an inventory without hosts; `reason` says why no variable of it is a group, `meant` is a group."""
    example = '([("203.0.113.7", {"ssh_user": "ubuntu"})], {"machine": Machine(…), "servers": (Server(…),)})'
    return refuse(
        "no-hosts",
        "the inventory has no hosts",
        where="the inventory file",
        seen=reason or "no list of hosts, or an empty one",
        wanted=f"h100 = {example}",
        attempt=meant or ("a public name for a list of hosts, or for (hosts, data)" if reason else _COPY),
    )


def one_program(programs: Sequence[str]) -> Iterator[Refusal]:
    """A refusal for several programs in one run: their gates would not know each other's waves."""
    if len(programs) > 1:
        yield refuse(
            "several-programs",
            f"{' and '.join(programs)} are {len(programs)} programs, and a run has one",
            where="the command line",
            seen=" ".join(programs),
            wanted="one program for each command",
            attempt=f"pyinfra INVENTORY {programs[0]} --dry, and the next one after its end",
        )


def out_of_step(typed: Iterable[str]) -> Iterator[Refusal]:
    """A refusal for each option of pyinfra in `typed` that stops hosts from waiting for each other."""
    means = {
        "--serial": "each host would go through all waves before the next host begins",
        "--no-wait": "hosts would not wait for each other, and later waves would begin before earlier ones have ended",
    }
    for option in typed:
        yield refuse(
            "out-of-step",
            f"{option} does not work with gates: {means[option]}",
            where="the command line",
            seen=option,
            wanted="all hosts in step: a gate opens the next wave after every host of the last wave has reached it",
            attempt=f"the same command without {option}; Rollout(max_unavailable=1) brings one host over at a time",
        )
