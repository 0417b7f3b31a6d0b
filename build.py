"""Build, judge and sign every engine of the inventory, and keep them for the fleet; nothing is served or swapped."""

from pyinfra import host, inventory

from deploy.io.inventory import planned
from roles import engines, foundation, ground, preflight, rollout, stage
from roles._pyinfra import connections, lock
from roles._pyinfra.settings import known_settings
from roles.bundled import reach

connections.install(host)
plan = planned(inventory, host, known_settings())  # the plan that deploy.py has, so the engines it will look for
mine, edge = plan.parts(host.name)

preflight.confirm(reach(mine) if mine else edge)  # a build takes nothing to a balancer or monitor
lock.take(plan.digest)
rollout.gate(plan.hosts, rollout.UNTOUCHED, name="Gate | Every host is what the plan believes")

if host.name in engines.builders(plan.slices):  # one host for each engine, hosts that only build before others
    ground.lay()  # what was here before us, our programs, a way back
    foundation.apply(mine)
    stage.build(mine, plan.slices)
