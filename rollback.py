"""Reverts one run: the hosts that it changed serve their earlier releases again, the last wave first.

`--data run=ID` names the run; the default is the last run that changed something. A repetition changes nothing.
"""

from pyinfra import host, inventory

from deploy.io.inventory import planned
from roles import gateway, rollout, support, traffic, triton
from roles._pyinfra import connections, lock
from roles._pyinfra.settings import known_settings

connections.install(host)
whole = planned(inventory, host, known_settings())
back = triton.taken_back(whole.slices, str(host.data.get("run") or ""))  # every host is asked what it remembers
plan = back.within(whole)  # what the run changed; canaries come last
mine, edge = plan.parts(host.name)

lock.take(plan.digest)
rollout.gate(plan.hosts, rollout.UNTOUCHED, name="Gate | Every host answers")

if edge and plan.waves:
    support.relax(edge)  # the release of before may have had other models
rollout.all_staged(mine, plan, name="Gate | Every host has what it goes back to")

for number, wave in enumerate(host.loop(plan.waves), start=1):
    if host.name in wave:
        returned = triton.back(mine, plan.digest, back, number)
        traffic.tell(mine, returned)
        gateway.back(mine, returned)
    rollout.end_of_wave(mine, plan, number, triton.put_back)
