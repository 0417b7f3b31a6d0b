"""Two machines serve one LLM together: a rank dies, the link is cut, a swap fails on one host, the leader reboots.

The tests run in pytest's order: after each of these the group is complete, on the new or the old release, and answers.
vLLM is a stand-in, whose ranks exchange over TCP for every token (rehearsal/runtimes).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from rehearsal.places import REPOSITORY, Places
from tests.faults.scene import until
from tests.rehearsal.grouped import ANSWER, Group, fresh_group, reaches, says

# Minutes on two machines: `make faults` runs it.
pytestmark = [pytest.mark.rehearsal, pytest.mark.faults, pytest.mark.xdist_group("number-12")]

NUMBER = int(os.environ.get("ENGINEHOUSE_GROUP_NUMBER", "12"))
"""Rehearsal number; an environment variable names another one beside a run of all tests."""
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
CONTAINER_UID = 61140


@pytest.fixture(scope="module")
def pair() -> Iterator[Group]:
    """Two machines after their first deploy; removed before and afterwards."""
    with fresh_group(PLACES, ["d13a", "d13b"], "vllm") as group:
        yield group


def test_both_hosts_answer_as_one_model(pair: Group) -> None:
    assert until(pair.is_whole, 60)
    assert "ranks 0 to 0 of 2 have met" in says(pair.leader, "journalctl -u llm@main -o cat")
    assert "ranks 1 to 1 of 2 have met" in says(pair.follower, "journalctl -u llm@main -o cat")


def test_a_second_run_changes_nothing(pair: Group) -> None:
    before = pair.starts()
    again = pair.deploy()
    assert (again.code, again.changed, pair.starts()) == (0, {}, before)


def test_the_doctor_finds_nothing_wrong_with_either_part(pair: Group) -> None:
    assert pair.findings() == []


def test_only_the_hosts_of_the_group_reach_its_ranks(pair: Group) -> None:
    """This computer is on the same bridge. The container's user can connect only to the group."""
    for port in (29_500, 29_501):
        with pytest.raises(OSError), socket.create_connection((pair.leader.address, port), timeout=3):
            pass
        assert says(pair.follower, reaches(pair.leader.address, port)) == "yes"
    assert says(pair.leader, reaches(bridge(pair), 22, CONTAINER_UID)) == "no"
    assert says(pair.leader, reaches(pair.follower.address, 22, CONTAINER_UID)) == "yes"


def bridge(pair: Group) -> str:
    """This computer's address on the machines' bridge."""
    return f"{pair.leader.address.rpartition('.')[0]}.1"


def test_a_part_of_a_group_is_not_deployed(pair: Group) -> None:
    before = pair.starts()
    limited = pair.deploy("--limit", pair.leader.name, batch=2)
    assert limited.code != 0 and "changed together" in limited.output
    assert pair.starts() == before


def test_a_rank_that_dies_takes_the_group_down_and_it_comes_back(pair: Group) -> None:
    before = pair.starts()
    pair.follower.run("docker kill llm-main")
    assert until(lambda: pair.has_restarted(before), 60)
    assert until(pair.is_whole, 120)


def test_a_cut_link_ends_both_parts_and_they_meet_again(pair: Group) -> None:
    """The hosts stay up; no host continues alone, and no wrong answer is given meanwhile."""
    with pair.link_cut():
        assert until(lambda: "active" not in pair.states(), 60)
        assert ANSWER not in pair.answers()
    assert until(pair.is_whole, 120)


def test_the_group_is_whole_after_its_leader_has_rebooted(pair: Group) -> None:
    pair.leader.reboot()
    assert until(pair.is_whole, 180)


def test_a_new_release_is_swapped_in_on_both_hosts_together(pair: Group) -> None:
    before = pair.releases()
    swapped = pair.deploy(batch=4)
    assert swapped.code == 0, swapped.output[-4000:]
    assert all(new != old for new, old in zip(pair.releases(), before, strict=True))
    assert until(pair.is_whole, 60)


def test_a_swap_that_fails_on_one_host_leaves_both_on_the_old_release(pair: Group) -> None:
    before = pair.releases()
    with pair.follower_refuses_new_releases():
        failed = pair.deploy(batch=16)
    assert failed.code != 0
    assert pair.releases() == before
    assert until(pair.is_whole, 60)
    assert pair.results() == ["put back", "put back"]


def test_the_same_swap_succeeds_once_the_host_is_well(pair: Group) -> None:
    swapped = pair.deploy(batch=16)
    assert swapped.code == 0, swapped.output[-4000:]
    assert until(pair.is_whole, 60)


def test_only_one_of_two_simultaneous_operators_changes_the_group(pair: Group) -> None:
    """Both operators request another release, of different sizes; the group is complete on one of the two."""
    before, runs = pair.releases(), pair.deploys_at_once(2, 6)
    assert [run.code != 0 for run in runs].count(True) == 1, [run.output[-2000:] for run in runs]
    assert all(new != old for new, old in zip(pair.releases(), before, strict=True))
    assert until(pair.is_whole, 60)
    sizes = [says(machine, "cat /var/lib/enginehouse/servers/main/current/llm/run") for machine in pair.machines]
    wanted = 2 if runs[0].code == 0 else 6
    assert [f"--max-num-seqs {wanted}" in size for size in sizes] == [True, True]


def test_a_swap_under_load_loses_no_request_of_either_gateway(pair: Group) -> None:
    """The gateways hold new requests while no LLM serves; the leader finishes the requests that it has begun."""
    pair.start_clients()
    swapped = pair.deploy(batch=4)
    assert until(pair.is_whole, 60)
    statuses = pair.statuses()
    assert swapped.code == 0, swapped.output[-4000:]
    assert {name: [*counts] for name, counts in statuses.items()} == {name: ["200"] for name in pair.keys}, statuses
    assert all(counts["200"] > 30 for counts in statuses.values())
