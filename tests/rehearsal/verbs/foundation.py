"""Only what a host needs before it serves: driver, MIG instances, engine, toolkit."""

from pyinfra import host, inventory

import roles.connections
from deploy.edge.inventory import planned
from roles import foundation, programs, undo

roles.connections.install(host)
programs.installed()
undo.installed()
foundation.apply(planned(inventory, host).for_host(host.name))
