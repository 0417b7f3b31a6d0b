"""A host of a group: the start line, the facts and the unit's drop-in of its part, and the ports of its ranks."""

from __future__ import annotations

import json
import subprocess

import pytest

from deploy.slices.host import Slice
from deploy.spec import Parallel
from roles.firewall.rules import rules
from roles.triton.defaults import Defaults
from roles.triton.llm_files import drop_in
from roles.triton.release import release_of
from roles.triton.render import render
from tests.roles.triton.llm_servers import server_with
from tests.unit.golden import same_as_golden
from tests.unit.grouped import ETHERNET, GROUPS, INFINIBAND, MIXTRAL_8X22B, group, model, named
from tests.unit.samples import plan

HOSTS = plan(*GROUPS["mixtral_8x22b_ep4_2x4_h100"]).slices


def run_of(mine: Slice) -> str:
    """The start line of the host's part."""
    return render(mine.servers[0], Defaults())["llm/run"].decode()


@pytest.mark.parametrize("number", [0, 1])
def test_a_part_has_this_start_line(number: int) -> None:
    text = run_of(HOSTS[number])
    same_as_golden(f"groups/run-{number}.sh", text)
    assert subprocess.run(["bash", "-n"], input=text.encode(), check=False).returncode == 0


def test_a_part_is_on_the_network_of_its_host_and_publishes_nothing() -> None:
    """The program listens on loopback there, because it requires no key."""
    text = run_of(HOSTS[0])
    assert "--network host" in text and "--publish" not in text
    assert "--host 127.0.0.1 " in text + " " and "0.0.0.0" not in text


def test_devices_of_rdma_are_there_where_the_fabric_has_them() -> None:
    llm = model("mixtral", MIXTRAL_8X22B, parallel=Parallel(tensor=4, pipeline=2, hosts=named()))
    plain, fast = (plan(*group(llm, "h100-80", 4, fabric)).slices[0] for fabric in (ETHERNET, INFINIBAND))
    assert ["/dev/infiniband" in run_of(mine) for mine in (plain, fast)] == [False, True]
    assert ["NCCL_IB_DISABLE=1" in run_of(mine) for mine in (plain, fast)] == [True, False]


def test_members_know_each_other_by_one_identity_and_two_numbers() -> None:
    facts = [json.loads(render(mine.servers[0], Defaults())["server.json"])["group"] for mine in HOSTS]
    assert facts[0]["identity"] == facts[1]["identity"]
    assert [fact["number"] for fact in facts] == [0, 1]
    assert facts[0]["members"] == [
        {"host": "gpu-01", "address": "10.0.8.1"},
        {"host": "gpu-02", "address": "10.0.8.2"},
    ]


def test_another_start_line_is_another_identity_on_every_host() -> None:
    llm = model("mixtral-8x22b", MIXTRAL_8X22B, parallel=Parallel(tensor=4, pipeline=2, hosts=named()))
    identities = {
        json.loads(render(mine.servers[0], Defaults())["server.json"])["group"]["identity"]
        for mine in (*HOSTS, *plan(*group(llm, "h100-80", 4)).slices)
    }
    assert len(identities) == 2


def test_the_unit_of_a_part_stops_by_its_own_program() -> None:
    """A stop reaches the leader's program first, so no line of the unit stops a container by itself."""
    text = drop_in(HOSTS[1].servers[0], 0).content
    assert "KillMode=mixed\nExecStop=\nExecStop=-" in text and "docker stop llm" not in text
    assert "KillMode" not in drop_in(server_with(), 0).content
    assert release_of(HOSTS[0].servers[0], Defaults()).id != release_of(HOSTS[1].servers[0], Defaults()).id


@pytest.mark.parametrize(("number", "peer"), [(0, "10.0.8.2"), (1, "10.0.8.1")])
def test_ranks_exchange_with_the_hosts_of_their_group_alone(number: int, peer: str) -> None:
    text = rules(HOSTS[number], [22])
    assert f"ip saddr {{ {peer}/32 }} accept" in text and f"ip daddr {{ {peer}/32 }} accept" in text
    assert "meta skuid 61140 ct state new fib daddr type != local jump ranks" in text
