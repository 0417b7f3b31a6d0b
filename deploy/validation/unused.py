"""Notes about cards: unused ones, and pools with several kinds of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deploy.models.cards import declared_card
from deploy.spec import Host


def idle_gpus(host: Host) -> str:
    """A sentence about GPUs of a serving host that no server uses; empty if all are used."""
    if not host.servers or host.farm:
        return ""
    used = {index for server in host.servers for index in server.gpus}
    idle = [index for index in range(host.machine.gpus) if index not in used]
    if not used or not idle:
        return ""
    which = f"GPU {idle[0]}" if len(idle) == 1 else f"GPUs {', '.join(map(str, idle))}"
    return f"no server uses {which} of the machine's {host.machine.gpus}: one_per_gpu(Server(…), {host.machine.gpus})"


def mixed_pools(hosts: Iterable[Host]) -> Iterator[str]:
    """A sentence for each pool with several kinds of cards."""
    cards: dict[str, dict[str, int]] = {}
    titles: dict[str, str] = {}
    for host in hosts:
        if host.pool and (card := declared_card(host.machine)):
            of_pool, titles[card.name] = cards.setdefault(host.pool, {}), card.title
            of_pool[card.name] = of_pool.get(card.name, 0) + 1
    for pool, kinds in sorted(cards.items()):
        if len(kinds) > 1:
            counted = ", ".join(f"{count} with {titles[name]}" for name, count in sorted(kinds.items()))
            yield (
                f"pool {pool} has hosts of several cards ({counted}): the same request takes longer on the slower ones"
            )
