"""Removes all that this project put on each host, and nothing else; without `--data remove=yes` it only lists it."""

from pyinfra import host, inventory

from deploy.io.inventory import planned
from roles import removal, rollout
from roles._pyinfra import connections, lock
from roles._pyinfra.settings import known_settings

connections.install(host)
plan = planned(inventory, host, known_settings())

if host.data.get("remove") == "yes":
    lock.take(plan.digest)
rollout.gate(plan.hosts, rollout.UNTOUCHED, name="Gate | Every host answers")
removal.apply(agreed=host.data.get("remove") == "yes")
