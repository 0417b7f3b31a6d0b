"""Machines serve one LLM of trtllm-serve under Debian's own Open MPI: the story of test_group.py, and two operators.

The ranks exchange through MPI for every token (rehearsal/runtimes): a rank that is missing, doubled or out of order
changes the answer. Hosts start each other's ranks without a login: ssh between them is never used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from deploy.doctor.installed import LINK_SHARE
from rehearsal.places import REPOSITORY, Places
from roles.doctor.questions import LINKS
from tests.faults.scene import until
from tests.rehearsal.grouped import ANSWER, Group, fresh_group, reaches, says

# Minutes on two machines: `make faults` runs it.
pytestmark = [pytest.mark.rehearsal, pytest.mark.faults, pytest.mark.xdist_group("number-13")]

NUMBER = int(os.environ.get("ENGINEHOUSE_GROUP_NUMBER", "13"))
"""Rehearsal number; an environment variable names another one beside a run of all tests."""
NAMES = [f"d13{letter}" for letter in "abcd"[: int(os.environ.get("ENGINEHOUSE_GROUP_HOSTS", "2"))]]
"""Machines: two, or as many as an environment variable names; each has a rank."""
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
CONTAINER_UID = 61140
LOG = "journalctl -u llm@main -o cat"
SUM = "all-reduce of 64 MiB by all ranks: "


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    """The machines after their first deploy; removed before and afterwards."""
    with fresh_group(PLACES, NAMES, "trtllm-serve") as fresh:
        yield fresh


def test_every_host_has_ranks_of_one_open_mpi_job(group: Group) -> None:
    assert until(group.is_whole, 60)
    log = says(group.leader, LOG)
    for rank, machine in enumerate(group.machines):
        assert f"rehearsal stand-in: rank {rank} of {len(group.machines)} on {machine.name}" in log
    version = says(group.leader, "docker exec llm-main /usr/bin/mpirun --version")
    assert version.startswith("mpirun (Open MPI) 4.1")


def test_ranks_have_added_up_right_before_their_first_start(group: Group) -> None:
    """The bandwidth of the links between all ranks is in the leader's log, and the doctor reads it only there."""
    assert says(group.leader, LOG).count(SUM) == 1
    server, gigabytes = says(group.leader, LINKS).split()
    assert (server, says(group.follower, LINKS)) == ("main", "")
    assert f"{SUM}{gigabytes} GB/s" in says(group.leader, LOG)


def test_a_second_run_changes_nothing(group: Group) -> None:
    before = group.starts()
    again = group.deploy()
    assert (again.code, again.changed, group.starts()) == (0, {}, before)


def test_the_doctor_finds_only_the_slow_link(group: Group) -> None:
    """Ranks that share busy cores have exchanged at 0.2 Gbit/s, of 1 that is declared (2026-11-28)."""
    is_slow = float(says(group.leader, LINKS).split()[1]) * 8 < LINK_SHARE
    assert ['"link-slow"' in finding for finding in group.findings()] == [True] * is_slow


def test_ranks_are_started_without_a_login_between_hosts(group: Group) -> None:
    """Ranks have no ssh keys; a rank can reach only the other hosts of its group."""
    for machine in group.machines:
        assert says(machine, "docker exec llm-main sh -c 'ls -A ~/.ssh /root/.ssh 2>/dev/null'") == ""
        assert "ssh" not in says(machine, "ps -e -o user:20,args | grep 61140")
    outside = f"{group.leader.address.rpartition('.')[0]}.1"
    assert says(group.leader, reaches(outside, 22, CONTAINER_UID)) == "no"


def test_a_killed_rank_takes_the_group_down_and_it_recovers(group: Group) -> None:
    """The rank of the last host is killed, not its container."""
    before = group.starts()
    group.follower.run("pkill -KILL -u 61140 -f trtllm-llmapi-launch")
    assert until(lambda: group.has_restarted(before), 60)
    assert until(group.is_whole, 120)
    assert says(group.leader, LOG).count(SUM) == 1, "a restart of the same release measures nothing again"


def test_a_server_that_dies_takes_its_ranks_with_it(group: Group) -> None:
    """Upstream's launcher leaves the ranks waiting for a program that ended badly."""
    before = group.starts()
    group.leader.run("pkill -KILL -u 61140 -f 'trtllm-serve serve'")
    assert until(lambda: group.has_restarted(before), 60)
    assert until(group.is_whole, 120)


def test_a_cut_link_ends_all_parts_and_they_meet_again(group: Group) -> None:
    with group.link_cut():
        assert until(lambda: "active" not in group.states(), 60)
        assert ANSWER not in group.answers()
    assert until(group.is_whole, 120)


def test_the_group_is_whole_after_its_leader_has_rebooted(group: Group) -> None:
    group.leader.reboot()
    assert until(group.is_whole, 180)


def test_a_swap_that_fails_on_one_host_leaves_all_on_the_old_release(group: Group) -> None:
    before = group.releases()
    with group.follower_refuses_new_releases():
        failed = group.deploy(batch=16)
    assert failed.code != 0
    assert group.releases() == before
    assert until(group.is_whole, 60)
    assert {*group.results()} == {"put back"}


def test_a_swap_under_load_loses_no_request_of_any_gateway(group: Group) -> None:
    group.start_clients()
    swapped = group.deploy(batch=16)
    assert until(group.is_whole, 60)
    statuses = group.statuses()
    assert swapped.code == 0, swapped.output[-4000:]
    assert {name: [*counts] for name, counts in statuses.items()} == {name: ["200"] for name in group.keys}, statuses
    assert all(counts["200"] > 30 for counts in statuses.values())


def test_only_one_of_two_simultaneous_operators_changes_the_group(group: Group) -> None:
    """Both operators request another release, of different sizes; the group is complete on one of the two."""
    before, runs = group.releases(), group.deploys_at_once(4, 6)
    assert [run.code != 0 for run in runs].count(True) == 1, [run.output[-2000:] for run in runs]
    assert all(new != old for new, old in zip(group.releases(), before, strict=True))
    assert until(group.is_whole, 60)
    sizes = [says(machine, "cat /var/lib/enginehouse/servers/main/current/llm/run") for machine in group.machines]
    assert ("--max_batch_size 4" in sizes[0]) != ("--max_batch_size 6" in sizes[0])
