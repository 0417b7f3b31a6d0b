"""The firewall role alone: what a test of who gets in needs, without a deploy around it."""

from pyinfra import host, inventory

from deploy.edge.inventory import planned
from roles import firewall

plan = planned(inventory, host)
firewall.apply(plan.for_host(host.name))
