"""The plan of hosts that may repair themselves: allowed repairs, and the number of their pool that may be out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deploy.slices.host import RepairSlice
from deploy.spec import Rollout
from tests.unit.samples import MACHINE, Source, plan
from tests.unit.wrong_balancers import edge, pool

MENDS = replace(MACHINE, repair="reset")


def pool_of(size: int, **data: object) -> list[Source]:
    """Hosts of one pool that may reset their GPUs, behind a balancer."""
    hosts = [
        Source(f"h{number}", {"machine": MENDS, **pool(peer_address=f"10.0.0.{number}"), **data})
        for number in range(11, 11 + size)
    ]
    return [*hosts, edge(**data)]


@pytest.mark.parametrize(
    ("size", "rollout", "most"), [(6, {}, 1), (8, {}, 2), (6, {"rollout": Rollout(max_unavailable=2)}, 2)]
)
def test_as_many_hosts_may_be_out_for_a_repair_as_in_a_rollout(
    size: int, rollout: dict[str, object], most: int
) -> None:
    repairs = {slice_.repair for slice_ in plan(*pool_of(size, **rollout)).slices}
    assert repairs == {RepairSlice(allowed="reset", max_unavailable=most)}


def test_a_host_alone_may_repair_itself_without_a_balancer() -> None:
    (mine,) = plan(machine=MENDS).slices
    assert mine.repair == RepairSlice(allowed="reset", max_unavailable=1)


def test_a_plan_without_repairs_keeps_its_digest() -> None:
    """A slice has no field of repairs unless the inventory declares them."""
    plain = json.loads(json.dumps(plan().slices[0].to_json()))
    assert "repair" not in {*plain, *plain["machine"]}
    assert plan(machine=MENDS).digest != plan().digest
