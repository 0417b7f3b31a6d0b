"""Only the requirements of serving: driver, MIG instances, engine, toolkit."""

from pyinfra import host, inventory

import roles._pyinfra.connections
from deploy.io.inventory import planned
from roles import foundation
from roles._pyinfra import undo
from roles._shipping import programs

roles._pyinfra.connections.install(host)
programs.installed()
undo.installed()
foundation.apply(planned(inventory, host).for_host(host.name))
