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
reversal = triton.reversal_of(whole.slices, str(host.data.get("run") or ""))  # from the history of every host
plan = reversal.within(whole)  # only what the run changed; canaries come last
mine, support_slice = plan.parts(host.name)

lock.take(plan.digest)
rollout.gate(plan.hosts, rollout.UNTOUCHED, name="Gate | Every host answers")

if support_slice and plan.waves:
    support.check_servers_only(support_slice)  # the earlier release may have had other models
rollout.gate_before_drains(mine, plan, name="Gate | Every host has its earlier release")

for number, wave in enumerate(host.loop(plan.waves), start=1):
    if host.name in wave:
        reverted = triton.revert(mine, plan.digest, reversal, number)
        traffic.log_undrained(mine, reverted)
        gateway.revert(mine, reverted)
    rollout.gate_after_wave(mine, plan, number, triton.restore)
