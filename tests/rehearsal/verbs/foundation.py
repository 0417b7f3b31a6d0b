"""Only what a host needs before it serves: driver, MIG instances, engine, toolkit."""

from pyinfra import host, inventory

from deploy.edge.inventory import planned
from roles import foundation

foundation.apply(planned(inventory, host).for_host(host.name))
