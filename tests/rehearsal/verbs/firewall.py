"""The firewall role alone: what a test of who gets in needs, without a deploy around it."""

from pyinfra import host, inventory

import roles.connections
from deploy.edge.inventory import planned
from roles import firewall, programs, undo

roles.connections.install(host)
plan = planned(inventory, host)
programs.installed()
undo.installed()
firewall.apply(plan.for_host(host.name))
