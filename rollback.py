"""Take one run back: what it changed serves again what served before, on those hosts, in waves.

`--data run=ID` names the run; without it, it is the last one that changed something. Typed twice, it does nothing.
"""

from pyinfra import host, inventory

import roles.connections
import roles.edge
import roles.lock
from deploy.edge.inventory import planned
from roles import rollout, triton
from roles.settings import known_settings

roles.connections.install(host)
plan = planned(inventory, host, known_settings())
back = triton.taken_back(plan.slices, str(host.data.get("run") or ""))  # every host is asked what it remembers
waves = plan.only(back.hosts).waves

roles.lock.take(plan.digest)
rollout.gate(plan.hosts, rollout.UNTOUCHED, name="Gate | Every host answers")

if waves and (edge := plan.parts(host.name)[1]):
    roles.edge.relax(edge)  # the release of before may have had other models

for number, wave in enumerate(host.loop(waves), start=1):
    if host.name in wave:
        triton.back(plan.for_host(host.name), plan.digest, back, number)
    rollout.gate(wave, name=f"Gate | Wave {number} of {len(waves)}")
