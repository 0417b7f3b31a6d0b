"""Build, judge and sign every engine of the inventory, and keep them for the fleet; nothing is served or swapped."""

from pyinfra import host, inventory

import roles._pyinfra.connections
import roles._pyinfra.lock
import roles.ground
from deploy.io.inventory import planned
from roles import engines, foundation, preflight, rollout, stage
from roles._pyinfra.settings import known_settings

roles._pyinfra.connections.install(host)
plan = planned(inventory, host, known_settings())  # the plan that deploy.py has, so the engines it will look for
mine, edge = plan.parts(host.name)

preflight.confirm(mine or edge)
roles._pyinfra.lock.take(plan.digest)
rollout.gate(plan.hosts, rollout.UNTOUCHED, name="Gate | Every host is what the plan believes")

if host.name in engines.builders(plan.slices):  # one host for each engine, hosts that only build before others
    roles.ground.lay()  # what was here before us, our programs, a way back
    foundation.apply(mine)
    stage.build(mine, plan.slices)
