"""Build, judge and sign every engine of the inventory, and keep them for the fleet; nothing is served or swapped."""

from pyinfra import host, inventory

import roles.connections
import roles.lock
import roles.undo
from deploy.edge.inventory import planned
from roles import engines, foundation, preflight, programs, removal, rollout, stage
from roles.settings import known_settings

roles.connections.install(host)
plan = planned(inventory, host, known_settings())  # the plan that deploy.py has, so the engines it will look for
mine = plan.for_host(host.name)

preflight.confirm(mine)
roles.lock.take(plan.digest)
rollout.gate(plan.hosts, rollout.UNTOUCHED, name="Gate | Every host is what the plan believes")

if host.name in engines.builders(plan.slices):  # one host for each engine, hosts that only build before others
    removal.remember()  # what was here before us, so that remove.py leaves it
    programs.installed()  # what runs on hosts, before anything names it
    roles.undo.installed()  # what takes back a change that shuts us out, before the first such change
    foundation.apply(mine)
    stage.build(mine, plan.slices)
