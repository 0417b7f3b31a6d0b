"""The firewall role alone: what a test of who gets in needs, without a deploy around it."""

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
