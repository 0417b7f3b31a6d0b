"""Ports of a host that answer from outside: a separate nftables table, if the inventory declares a firewall.

Docker rewrites the address of a published port before the `input` chain sees it, so filters there have no effect; these
rules come before that, for IPv4 and IPv6. New rules are watched: unless a new SSH connection confirms them, the host
restores the old ones by itself. Without a declaration other tables stay unchanged, and this project's table is removed.
"""

from pyinfra.api.operation import OperationMeta

from roles._pyinfra.steps import CachedFact, step
from roles.firewall import operations
from roles.firewall.facts import FirewallHost
from roles.firewall.rules import Guarded, firewall_of


def apply(mine: Guarded) -> list[OperationMeta]:
    """Opens exactly the declared ports, also after a reboot. Returns the steps."""
    is_wanted = firewall_of(mine) is not None
    fact = CachedFact(FirewallHost, {"is_wanted": is_wanted})
    if not is_wanted:
        return [step(fact, operations.taken_away, name="Firewall | Remove rules that are no longer declared")]
    installed = step(fact, operations.packages, name="Firewall | Install nftables")
    placed = step(fact, operations.programs, name="Firewall | Place program and unit")
    loaded = step(
        fact,
        lambda facts: operations.in_force(facts, mine),
        after=(installed, placed),
        name="Firewall | Load the rules, confirmed",
    )
    return [installed, placed, loaded]
