"""Wrong inventories that were once believed: a word with nothing behind it, another model's numbers, typed-out keys.

A table like the one of tests.unit.wrong, kept apart because these are about what a plan may claim.
"""

from __future__ import annotations

from deploy.spec import Firewall
from tests.unit.given import main
from tests.unit.wrong import Wrong

PROTECTION = {
    "the word firewall closes nothing": Wrong(
        main(address="0.0.0.0", protection="firewall"), "protection-without-firewall", 'servers["main"].protection'
    ),
    "the word balancer closes nothing": Wrong(
        main(address="10.0.0.5", protection="balancer"), "protection-without-firewall", 'servers["main"].protection'
    ),
    "a balancer is named by its addresses": Wrong(
        main(address="10.0.0.5", protection="balancer")
        | {"firewall": Firewall(allow=("10.0.0.9/32", "10.1.0.0/16", "fd00::9", "fd00::/64"))},
        "balancer-not-named",
        "firewall.allow",
    ),
}

ALL = PROTECTION
