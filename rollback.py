"""Put back the release that served before, on every server of the hosts named; run again, it goes forward again.

After a run that stopped half way, name the hosts that did not go back (`--limit`).
"""

from pyinfra import host, inventory

import roles.connections
import roles.lock
from deploy.edge.inventory import planned
from roles import rollout, traffic, triton
from roles.settings import known_settings

roles.connections.install(host)
plan = planned(inventory, host, known_settings())
mine = plan.for_host(host.name)

roles.lock.take(plan.digest)
rollout.gate(plan.hosts, rollout.UNTOUCHED, name="Gate | Every host answers")
triton.tell_what_stays(mine)

for number, wave in enumerate(host.loop(plan.waves), start=1):
    if host.name in wave:
        traffic.drain(mine, name="Traffic | Drain")
        triton.back(mine, plan.digest)
        traffic.admit(mine, name="Traffic | Admit")
    rollout.gate(wave, attempt=rollout.ONLY_THE_REST, name=f"Gate | Wave {number} of {len(plan.waves)}")
