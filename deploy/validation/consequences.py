"""Refusals that follow from another one. They vanish with their cause, so they are not shown with it."""

import re
from collections.abc import Iterable

from deploy.refusals import Refusal

Refused = tuple[str, Refusal]
"""(host, refusal)."""
OF_ADDRESSES = frozenset({"no-peer-address"})
"""Kinds that follow if the address itself is refused."""
OF_BALANCERS = frozenset({"protection-without-balancer", "route-without-hosts"})
"""Kinds that follow if a balancer of the inventory, or a host behind it, could not be read."""


def without_consequences(refusals: Iterable[Refused]) -> list[Refused]:
    """The refusals that do not follow from another refusal."""
    every = list(refusals)
    addresses = {host for host, problem in every if problem.kind == "bad-peer-address"}
    is_balancer_unread = any(_is_of_a_balancer(problem) for _, problem in every)
    unfilled = {(host, problem.facts["where"]) for host, problem in every if problem.kind == "unfilled-text"}
    return [
        (host, problem)
        for host, problem in every
        if (problem.kind == "unfilled-text" or (host, problem.facts.get("where")) not in unfilled)
        and not (problem.kind in OF_ADDRESSES and host in addresses)
        and not (problem.kind in OF_BALANCERS and is_balancer_unread)
    ]


def _is_of_a_balancer(problem: Refusal) -> bool:
    """True for a refusal that removes a balancer from the plan."""
    where = problem.facts.get("where", "")
    is_read = problem.kind not in ("wrong-type", "literal-secret", "unsafe-text", "unfilled-text", "unknown-choice")
    is_of_it = problem.kind in ("balancer-with-servers", "pool-name")
    return is_of_it or (not is_read and re.match(r"balancer\b", where) is not None)
