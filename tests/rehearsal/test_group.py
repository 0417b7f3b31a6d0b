"""Two machines serve one LLM together: a rank dies, the link is cut, a swap fails on one host, the leader reboots.

The tests run in pytest's order: after each of these the group is complete, on the new or the old release, and answers.
vLLM is a stand-in, whose ranks exchange over TCP for every token (rehearsal/runtimes).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

import pytest

from rehearsal import gateway
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places
from tests.faults.scene import until
from tests.rehearsal.operator import Operator, Run, fresh_machines

# Minutes on two machines: `make faults` runs it.
pytestmark = [pytest.mark.rehearsal, pytest.mark.faults, pytest.mark.xdist_group("number-12")]

NUMBER = int(os.environ.get("ENGINEHOUSE_GROUP_NUMBER", "12"))
"""Rehearsal number; an environment variable names another one beside a run of all tests."""
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
INVENTORY = "tests/rehearsal/inventories/group.py"
ANSWER = " rehearsal stand-in of an answer"
CONTAINER_UID = 61140
CUT = "{} INPUT -s {} -j DROP; {} OUTPUT -d {} -j DROP"
CLIENTS = r"""rm -f /root/enough /root/statuses-*; cat >/root/asking-clients <<'END'
while [ ! -e /root/enough ]; do
  curl -s -o /dev/null -m 400 -w '%{http_code}\n' -H 'Authorization: Bearer KEY' -H 'Content-Type: application/json' \
    -d '{"model": "llama-tiny", "prompt": "hello", "max_tokens": 4}' http://127.0.0.1:8080/v1/completions
  sleep 0.2
done
END
for number in 1 2 3; do setsid bash /root/asking-clients >/root/statuses-$number 2>&1 </dev/null & done"""
"""Three clients of a gateway, who ask one question after the other until /root/enough exists."""
FAILS = "/etc/systemd/system/llm@main.service.d/zz-fails.conf"
RELEASE = "basename $(readlink /var/lib/enginehouse/servers/main/current)"


@dataclass
class Pair:
    """The two machines in the order of their ranks, their operator, the keys of their gateways, and the first run."""

    leader: Machine
    follower: Machine
    operator: Operator
    keys: dict[str, str]
    first: Run

    @property
    def both(self) -> tuple[Machine, Machine]:
        """Returns both machines, the leader first."""
        return self.leader, self.follower

    def deploy(self, *words: str, batch: int = 8) -> Run:
        """Runs a deploy with this many requests at once."""
        with mock.patch.dict(os.environ, {"BATCH": str(batch)}):
            return self.operator.pyinfra(*words, inventory=INVENTORY)

    def starts(self) -> list[str]:
        """Returns the invocation of the LLM's unit on each host, which changes at each start."""
        return [says(machine, "systemctl show -P InvocationID llm@main.service") for machine in self.both]

    def states(self) -> list[str]:
        """Returns the state of the LLM's unit on each host."""
        return [says(machine, "systemctl is-active llm@main") for machine in self.both]

    def releases(self) -> list[str]:
        """Returns the release of each host; the two differ, as each has its host's number."""
        return [says(machine, RELEASE) for machine in self.both]

    def answers(self) -> list[str]:
        """Returns the answer of each host's gateway."""
        return [self.answer(machine) for machine in self.both]

    def answer(self, machine: Machine) -> str:
        """Returns the text of a completion through a host's gateway; empty if none comes."""
        body = json.dumps({"model": "llama-tiny", "prompt": "hello", "max_tokens": 5})
        headers = f"-H 'Authorization: Bearer {self.keys[machine.name]}' -H 'Content-Type: application/json'"
        printed = says(machine, f"curl -sS -m 20 {headers} -d '{body}' http://127.0.0.1:8080/v1/completions")
        try:
            return str(json.loads(printed)["choices"][0]["text"])
        except (ValueError, KeyError):
            return ""

    def is_whole(self) -> bool:
        """Returns True if both units are active and both gateways give the answer of all ranks in order."""
        return self.states() == ["active", "active"] and self.answers() == [ANSWER, ANSWER]


def says(machine: Machine, command: str) -> str:
    """Returns the output of a command on a machine."""
    return machine.run(command, check=False).stdout.strip()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Yields two machines after their first deploy; removes them before and afterwards."""
    with fresh_machines(PLACES, ["d13a", "d13b"], "13") as (operator, (leader, follower)):
        first = operator.pyinfra(inventory=INVENTORY)
        assert first.code == 0, first.output[-4000:]
        keys = {machine.name: gateway.opened(machine).key for machine in (leader, follower)}
        yield Pair(leader, follower, operator, keys, first)


def test_both_hosts_answer_as_one_model(pair: Pair) -> None:
    assert until(pair.is_whole, 60)
    assert "ranks 0 to 0 of 2 have met" in says(pair.leader, "journalctl -u llm@main -o cat")
    assert "ranks 1 to 1 of 2 have met" in says(pair.follower, "journalctl -u llm@main -o cat")


def test_a_second_run_changes_nothing(pair: Pair) -> None:
    before = pair.starts()
    again = pair.deploy()
    assert (again.code, again.changed, pair.starts()) == (0, {}, before)


def test_the_doctor_finds_nothing_wrong_with_either_part(pair: Pair) -> None:
    doctor = pair.operator.python("-m", "deploy", "doctor", INVENTORY, "--json")
    findings = [finding for host in json.loads(doctor.stdout)["hosts"].values() for finding in host]
    assert [finding for finding in findings if "llm" in json.dumps(finding)] == []


def test_nobody_but_the_hosts_of_the_group_reaches_its_ranks(pair: Pair) -> None:
    """This computer is on the same bridge. The container's user can connect only to the group."""
    for port in (29_500, 29_501):
        with pytest.raises(OSError), socket.create_connection((pair.leader.address, port), timeout=3):
            pass
        assert says(pair.follower, reaches(pair.leader.address, port)) == "yes"
    assert says(pair.leader, reaches(bridge(pair), 22, CONTAINER_UID)) == "no"
    assert says(pair.leader, reaches(pair.follower.address, 22, CONTAINER_UID)) == "yes"


def reaches(address: str, port: int, uid: int = 0) -> str:
    """Returns a command that tests whether a user of the machine can connect."""
    connect = f"timeout 3 bash -c '</dev/tcp/{address}/{port}'"
    return f"setpriv --reuid {uid} --clear-groups {connect} 2>/dev/null && echo yes || echo no"


def bridge(pair: Pair) -> str:
    """Returns this computer's address on the machines' bridge."""
    return f"{pair.leader.address.rpartition('.')[0]}.1"


def test_a_part_of_a_group_is_not_deployed(pair: Pair) -> None:
    before = pair.starts()
    limited = pair.deploy("--limit", pair.leader.name, batch=2)
    assert limited.code != 0 and "changed together" in limited.output
    assert pair.starts() == before


def test_a_rank_that_dies_takes_the_group_down_and_it_comes_back(pair: Pair) -> None:
    before = pair.starts()
    pair.follower.run("docker kill llm-main")
    assert until(lambda: all(new != old for new, old in zip(pair.starts(), before, strict=True)), 60)
    assert until(pair.is_whole, 120)


def test_a_cut_link_ends_both_parts_and_they_meet_again(pair: Pair) -> None:
    """The hosts stay up; neither continues alone, and no wrong answer comes meanwhile."""
    address = pair.leader.address
    pair.follower.run(CUT.format("iptables -I", address, "iptables -I", address))
    try:
        assert until(lambda: "active" not in pair.states(), 60)
        assert ANSWER not in pair.answers()
    finally:
        pair.follower.run(CUT.format("iptables -D", address, "iptables -D", address))
    assert until(pair.is_whole, 120)


def test_the_group_is_whole_after_its_leader_has_rebooted(pair: Pair) -> None:
    pair.leader.reboot()
    assert until(pair.is_whole, 180)


def test_a_new_release_is_swapped_in_on_both_hosts_together(pair: Pair) -> None:
    before = pair.releases()
    swapped = pair.deploy(batch=4)
    assert swapped.code == 0, swapped.output[-4000:]
    assert all(new != old for new, old in zip(pair.releases(), before, strict=True))
    assert until(pair.is_whole, 60)


def test_a_swap_that_fails_on_one_host_leaves_both_on_the_old_release(pair: Pair) -> None:
    before = pair.releases()
    check = f"ExecStartPre=/bin/sh -c '[ \"$({RELEASE.replace('$', '$$')})\" = {before[1]} ]'"
    pair.follower.put(FAILS, f"[Service]\n{check}\n")
    pair.follower.run("systemctl daemon-reload")
    try:
        failed = pair.deploy(batch=16)
    finally:
        pair.follower.run(f"rm {FAILS}; systemctl daemon-reload")
    assert failed.code != 0
    assert pair.releases() == before
    assert until(pair.is_whole, 60)
    results = [says(machine, "tail -n 1 /var/lib/enginehouse/history.jsonl") for machine in pair.both]
    assert [json.loads(line)["result"] for line in results] == ["put back", "put back"]


def test_the_same_swap_succeeds_once_the_host_is_well(pair: Pair) -> None:
    swapped = pair.deploy(batch=16)
    assert swapped.code == 0, swapped.output[-4000:]
    assert until(pair.is_whole, 60)


def test_a_swap_under_load_loses_no_request_of_either_gateway(pair: Pair) -> None:
    """The gateways hold new requests while no host serves; the leader ends its running requests."""
    for machine in pair.both:
        machine.run(CLIENTS.replace("KEY", pair.keys[machine.name]))
    swapped = pair.deploy(batch=4)
    assert until(pair.is_whole, 60)
    for machine in pair.both:
        machine.run("touch /root/enough")
    assert swapped.code == 0, swapped.output[-4000:]
    assert until(lambda: not any(says(machine, "pgrep -f '[a]sking-clients'") for machine in pair.both), 60)
    statuses = {machine.name: says(machine, "sort /root/statuses-* | uniq -c").split() for machine in pair.both}
    assert {name: counts[1::2] for name, counts in statuses.items()} == {name: ["200"] for name in pair.keys}, statuses
    assert all(int(counts[0]) > 30 for counts in statuses.values())
