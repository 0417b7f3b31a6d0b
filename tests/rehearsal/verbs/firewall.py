"""The firewall role alone, for tests of network access without a deploy."""

from pyinfra import host, inventory

import roles._pyinfra.connections
from deploy.io.inventory import planned
from roles import firewall
from roles._pyinfra import undo
from roles._shipping import programs

roles._pyinfra.connections.install(host)
plan = planned(inventory, host)
programs.installed()
undo.installed()
firewall.apply(plan.for_host(host.name))
