"""Only what a host needs before it serves: driver, MIG instances, engine, toolkit."""

from pyinfra import host, inventory

import roles.connections
from deploy.edge.inventory import planned
from roles import foundation

roles.connections.install(host)
foundation.apply(planned(inventory, host).for_host(host.name))
