"""Remove from every host what this project put there, and nothing else; only list it without `--data remove=yes`."""

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
