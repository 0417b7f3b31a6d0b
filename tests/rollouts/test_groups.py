"""Groups of two machines behind a balancer, under load: a second group takes the requests of a group that is being
swapped.

With only one group, requests wait at the balancer until it serves again. ENGINEHOUSE_GROUP_RUNTIME names another
program than trtllm-serve. Five machines take two cores a quarter of an hour.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from rehearsal import certificates, gateway, machines, requirements
from rehearsal.gateway import Gateway
from rehearsal.hardware import NO_GPU
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places
from tests.faults.scene import until
from tests.faults.through_gateway import Load, loaded
from tests.rehearsal.grouped import RELEASE, says
from tests.rehearsal.operator import Operator, Run

NUMBER = int(os.environ.get("ENGINEHOUSE_GROUP_NUMBER", "14"))
"""Rehearsal number; an environment variable names another one beside a run of all tests."""
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
INVENTORY = "tests/rollouts/inventories/groups.py"
RUNTIME = os.environ.get("ENGINEHOUSE_GROUP_RUNTIME", "trtllm-serve")
NAMES = ["d13a", "d13b", "d13c", "d13d"]
ANSWER = ("/v1/completions", {"model": "llama-tiny", "prompt": "hello", "max_tokens": 8, "stream": True})


@dataclass
class Pool:
    """The machines in the order of their groups, their operator, and the gateway behind the balancer."""

    hosts: list[Machine]
    operator: Operator
    gateway: Gateway

    def deploy(self, batch: int) -> Run:
        """A run over these hosts and the balancer, with this many requests at once."""
        return deployed(self.operator, batch, len(self.hosts) // 2)

    def releases(self) -> list[str]:
        """The release of each host."""
        return [says(host, RELEASE) for host in self.hosts]

    def all_serve(self) -> bool:
        """True if the LLM's unit is active on every host."""
        return {says(host, "systemctl is-active llm@main") for host in self.hosts} == {"active"}

    def swapped_under_load(self, batch: int) -> Load:
        """The outcome of every request that was sent while all groups were swapped to a new release."""
        before = self.releases()
        with loaded(self.gateway, [ANSWER]) as load:
            assert until(lambda: load.answered_so_far > 8, 60)
            run = self.deploy(batch)
            assert until(self.all_serve, 120)
        assert run.code == 0, run.output[-4000:]
        assert all(new != old for new, old in zip(self.releases(), before, strict=True))
        return load


def deployed(operator: Operator, batch: int, groups: int = 2) -> Run:
    """A run over this many groups and their balancer, with this many requests at once."""
    variables = {"BATCH": str(batch), "RUNTIME": RUNTIME, "GROUPS": str(groups)}
    return replace(operator, variables=variables).pyinfra(inventory=INVENTORY)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """Two groups behind a balancer after their first deploy; removed before and afterwards."""
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    machines.down(PLACES)
    operator = Operator.fresh(PLACES)
    try:
        (edge,) = machines.up(["e1"], "12", NO_GPU, PLACES)
        hosts = machines.up(NAMES, "13", places=PLACES)
        place = PLACES.root / "edge"
        certificates.certificate(place, ["gateway.rehearsal.internal"], [edge.address])
        assert operator.python("-m", "rehearsal.services", "up").returncode == 0
        first = deployed(operator, 8)
        assert first.code == 0, first.output[-4000:]
        yield Pool(hosts, operator, gateway.behind(f"https://{edge.address}:9443", str(place / "ca.crt"), hosts))
    finally:
        machines.down(PLACES)
        operator.python("-m", "rehearsal.services", "down")


def test_a_swap_of_two_groups_loses_no_request(pool: Pool) -> None:
    """Each group serves while the other group is out."""
    assert pool.swapped_under_load(16).lost == []


def test_a_group_that_dies_under_load_loses_only_started_requests(pool: Pool) -> None:
    """Requests of the dead rank may fail; the other group answers every later request."""
    with loaded(pool.gateway, [ANSWER]) as load:
        assert until(lambda: load.answered_so_far > 8, 60)
        pool.hosts[1].run("docker kill llm-main")
        assert until(lambda: not pool.all_serve(), 60)
        assert until(pool.all_serve, 180)
    assert len(load.lost) <= 4, load.lost


def test_a_single_group_holds_requests_and_loses_none(pool: Pool) -> None:
    """The second group is taken out of the inventory, and so out of the balancer's pool."""
    alone = replace(pool, hosts=pool.hosts[:2])
    assert alone.deploy(16).code == 0
    assert alone.swapped_under_load(32).lost == []
