"""Build, judge and sign every engine of the inventory, and keep it for the fleet; nothing is served or swapped."""

from pyinfra import host, inventory

from deploy.io.inventory import planned
from roles import engines, foundation, ground, preflight, rollout, stage
from roles._pyinfra import connections, lock
from roles._pyinfra.settings import known_settings
from roles.bundle_connection import connected_to_bundle

connections.install(host)
plan = planned(inventory, host, known_settings())  # the same plan as deploy.py's, so the same engines
mine, support_slice = plan.parts(host.name)

preflight.confirm(connected_to_bundle(mine) if mine else support_slice)  # support hosts get nothing from a build
lock.take(plan.digest)
rollout.gate(plan.hosts, rollout.UNTOUCHED, name="Gate | Every host matches the plan")

if host.name in engines.builders(plan.slices):  # one host for each engine, hosts that only build before others
    ground.apply()  # a record of the host before us, our programs, and the program that reverts changes
    foundation.apply(mine)
    stage.build(mine, plan.slices)
