"""Repairs by the host itself: a managed driver, whole GPUs for a reset, a balancer before its pool."""

from collections.abc import Iterator

from deploy.inventory.fleet import Fleet
from deploy.refusals import Refusal, refuse
from deploy.spec import Host
from deploy.topology.balancing import balancers_of
from deploy.topology.groups import group_of, pools_of_hosts

WHERE = "machine.repair"


def repair_problems(host: Host, fleet: Fleet) -> Iterator[Refusal]:
    """A refusal for each reason why this host cannot repair itself, although it declares so."""
    allowed = host.machine.repair
    if allowed not in ("reset", "reboot"):
        return
    declared = f"repair={allowed!r}".replace("'", '"')
    if host.farm or not host.servers:
        yield refuse(
            "repair-without-server",
            "a repair is verified by the answers of the host's servers, and this host has no servers",
            where=WHERE,
            seen=f"{declared}, no servers",
            wanted="a host that serves",
            attempt=f"leave {declared} out",
        )
    if not host.driver.manage:
        yield refuse(
            "repair-not-managed",
            "the driver is managed elsewhere (manage=False), so this project does not reset or reboot for its GPUs",
            where=WHERE,
            seen=f"{declared}, Driver(manage=False)",
            wanted="Driver(manage=True), or no repair",
            attempt=f"leave {declared} out; or driver = Driver(manage=True)",
        )
    if allowed == "reset" and host.machine.mig:
        yield refuse(
            "repair-mig",
            "a reset removes the MIG instances of a GPU; a reboot creates them again",
            where=WHERE,
            seen=f"{declared}, mig={host.machine.mig}",
            wanted='repair="reboot" for a machine that is cut into instances',
            attempt='Machine(repair="reboot")',
        )
    if group := group_of(host):
        yield refuse(
            "repair-in-a-group",
            "a host of a group is not repaired by itself: the other hosts of its group would stop serving, too",
            where=WHERE,
            seen=f"{declared}, a model over {', '.join(group)}",
            wanted="no repair on hosts of a group",
            attempt=f"leave {declared} out",
        )
    else:
        yield from _unasked(host, fleet, declared)


def _unasked(host: Host, fleet: Fleet, declared: str) -> Iterator[Refusal]:
    """The refusal for a pool without a balancer that can report how many of its hosts are out."""
    pools = pools_of_hosts(fleet.hosts, fleet.rollout)
    pool = next((pool for pool in pools if pool.name == host.pool), None)
    if pool is None or pool.allowed >= len(pool.units) or balancers_of(host, fleet.balancers):
        return
    name = f"pool {host.pool!r}" if host.pool else "the hosts without a pool"
    yield refuse(
        "repair-without-balancer",
        "a repair needs a balancer, which tells how many hosts of the pool are out of service; this pool has none",
        where=WHERE,
        seen=f"{declared}; {name}: {len(pool.units)} hosts, of which {pool.allowed} may be out, and no balancer",
        wanted="a balancer with a route to the pool, or no repair",
        attempt=f"leave {declared} out; or a Balancer with Route(pool={(host.pool or 'chat')!r}, …)".replace("'", '"'),
    )
