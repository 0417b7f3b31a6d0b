"""Take off every host what this project put there, and nothing else. Says what would go, unless `--data remove=yes`."""

from pyinfra import host, inventory

import roles._pyinfra.connections
import roles._pyinfra.lock
from deploy.io.inventory import planned
from roles import removal, rollout
from roles._pyinfra.settings import known_settings

roles._pyinfra.connections.install(host)
plan = planned(inventory, host, known_settings())

if host.data.get("remove") == "yes":
    roles._pyinfra.lock.take(plan.digest)
rollout.gate(plan.hosts, rollout.UNTOUCHED, name="Gate | Every host answers")
removal.apply(agreed=host.data.get("remove") == "yes")
