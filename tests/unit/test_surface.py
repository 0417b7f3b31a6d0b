"""Access rules and the separation of tenants, from the inventory into the plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.spec import Firewall, KVCache
from tests.unit.samples import LLAMA, main, plan

DECLARED = Firewall(allow=("10.0.0.0/8",), rest="closed")


def test_a_declared_firewall_reaches_the_host() -> None:
    """The declaration is unchanged."""
    assert plan(firewall=DECLARED).slices[0].firewall == DECLARED


def test_a_firewall_is_part_of_the_digest() -> None:
    """An expected digest covers the firewall rules."""
    assert plan(firewall=DECLARED).digest != plan().digest


def test_an_undeclared_firewall_changes_no_digest() -> None:
    """Inventories older than the firewall keep their approved digests."""
    assert "firewall" not in plan().slices[0].to_json()


@pytest.mark.parametrize("allow", ["10.0.0.0/8", "10.0.0.9/32", "fd00::9"])
def test_a_public_address_behind_a_firewall_of_its_host_is_planned(allow: str) -> None:
    """The protection covers clients, or a balancer outside the inventory."""
    data = main(address="10.0.0.5", protection="firewall")
    assert plan(**data, firewall=Firewall(allow=(allow,))).slices[0].servers[0].address == "10.0.0.5"


def test_a_loopback_address_needs_no_firewall_under_any_protection() -> None:
    """No other machine reaches a loopback address."""
    assert plan(**main(protection="balancer")).slices[0].firewall is None


def test_tenants_kept_apart_reuse_no_blocks() -> None:
    """The settings and the plan's text of the model agree."""
    (model,) = plan(**main(replace(LLAMA, kv_cache=KVCache(per_tenant=True)))).slices[0].servers[0].models
    assert (model.kv_reuse, model.settings["kv_cache_config"]["enable_block_reuse"]) == (False, False)


def test_otherwise_blocks_are_reused() -> None:
    """The model is the same, without `per_tenant`."""
    (model,) = plan(**main(LLAMA)).slices[0].servers[0].models
    assert model.kv_reuse
