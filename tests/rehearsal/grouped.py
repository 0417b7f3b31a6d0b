"""Machines that serve one LLM together, after their first deploy, and their operator."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from rehearsal import gateway
from rehearsal.machine import Machine
from rehearsal.places import Places
from tests.faults.scene import until
from tests.rehearsal.operator import Operator, Run, fresh_machines

INVENTORY = "tests/rehearsal/inventories/group.py"
ANSWER = " rehearsal stand-in of an answer"
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
class Group:
    """The machines in the order of their ranks, the operator, the keys of the gateways, the program, and the first
    run."""

    machines: tuple[Machine, ...]
    operator: Operator
    keys: dict[str, str]
    runtime: str
    first: Run

    @property
    def leader(self) -> Machine:
        """The machine whose program answers."""
        return self.machines[0]

    @property
    def follower(self) -> Machine:
        """The machine with the last ranks."""
        return self.machines[-1]

    def deploy(self, *words: str, batch: int = 8) -> Run:
        """A run with this many requests at once."""
        return deployed(self.operator, self.runtime, *words, batch=batch)

    def deploys_at_once(self, *batches: int) -> list[Run]:
        """The runs of as many operators, who begin together and want releases of different sizes."""
        with ThreadPoolExecutor(len(batches)) as operators:
            return list(operators.map(lambda batch: self.deploy(batch=batch), batches))

    def findings(self) -> list[str]:
        """The doctor's findings on the LLM of any host."""
        operator = replace(self.operator, variables={"RUNTIME": self.runtime})
        doctor = json.loads(operator.python("-m", "deploy", "doctor", INVENTORY, "--json").stdout)
        lines = [json.dumps(finding) for findings in doctor["hosts"].values() for finding in findings]
        return [line for line in lines if "llm" in line]

    def starts(self) -> list[str]:
        """The invocation of the LLM's unit on each host, which differs after every start."""
        return [says(machine, "systemctl show -P InvocationID llm@main.service") for machine in self.machines]

    def states(self) -> list[str]:
        """The state of the LLM's unit on each host."""
        return [says(machine, "systemctl is-active llm@main") for machine in self.machines]

    def releases(self) -> list[str]:
        """The release of each host; releases differ, because each contains its host's number."""
        return [says(machine, RELEASE) for machine in self.machines]

    def answers(self) -> list[str]:
        """The answer of each host's gateway."""
        return [self.answer(machine) for machine in self.machines]

    def answer(self, machine: Machine) -> str:
        """The text of a completion through a host's gateway; empty if none comes."""
        body = json.dumps({"model": "llama-tiny", "prompt": "hello", "max_tokens": 5})
        headers = f"-H 'Authorization: Bearer {self.keys[machine.name]}' -H 'Content-Type: application/json'"
        printed = says(machine, f"curl -sS -m 20 {headers} -d '{body}' http://127.0.0.1:8080/v1/completions")
        try:
            return str(json.loads(printed)["choices"][0]["text"])
        except (ValueError, KeyError):
            return ""

    def is_whole(self) -> bool:
        """True if all units are active and all gateways give the answer of all ranks in their order."""
        return {*self.states()} == {"active"} and {*self.answers()} == {ANSWER}

    def has_restarted(self, before: Sequence[str]) -> bool:
        """True if every host's part has started anew since `before`."""
        return all(new != old for new, old in zip(self.starts(), before, strict=True))

    def results(self) -> list[str]:
        """The result of the last swap on each host."""
        lines = [says(machine, "tail -n 1 /var/lib/enginehouse/history.jsonl") for machine in self.machines]
        return [str(json.loads(line)["result"]) for line in lines]

    @contextlib.contextmanager
    def link_cut(self) -> Iterator[None]:
        """The network between follower and leader drops every packet meanwhile; the hosts stay up."""
        address = self.leader.address
        self.follower.run(CUT.format("iptables -I", address, "iptables -I", address))
        try:
            yield
        finally:
            self.follower.run(CUT.format("iptables -D", address, "iptables -D", address))

    @contextlib.contextmanager
    def follower_refuses_new_releases(self) -> Iterator[None]:
        """Makes the follower's unit refuse every release except the present one."""
        release = says(self.follower, RELEASE)
        check = f"ExecStartPre=/bin/sh -c '[ \"$({RELEASE.replace('$', '$$')})\" = {release} ]'"
        self.follower.put(FAILS, f"[Service]\n{check}\n")
        self.follower.run("systemctl daemon-reload")
        try:
            yield
        finally:
            self.follower.run(f"rm {FAILS}; systemctl daemon-reload")

    def start_clients(self) -> None:
        """Three clients on every host begin to ask its gateway."""
        for machine in self.machines:
            machine.run(CLIENTS.replace("KEY", self.keys[machine.name]))

    def statuses(self) -> dict[str, dict[str, int]]:
        """Stops the clients; the number of answers by host and status."""
        for machine in self.machines:
            machine.run("touch /root/enough")
        asking = "pgrep -f '[a]sking-clients'"
        assert until(lambda: not any(says(machine, asking) for machine in self.machines), 60)
        counted = {machine.name: says(machine, "sort /root/statuses-* | uniq -c").split() for machine in self.machines}
        return {
            name: {status: int(count) for count, status in zip(words[::2], words[1::2], strict=True)}
            for name, words in counted.items()
        }


def says(machine: Machine, command: str) -> str:
    """Output of a command on a machine."""
    return machine.run(command, check=False).stdout.strip()


def reaches(address: str, port: int, uid: int = 0) -> str:
    """A command that prints whether a user of the machine can connect."""
    connect = f"timeout 3 bash -c '</dev/tcp/{address}/{port}'"
    return f"setpriv --reuid {uid} --clear-groups {connect} 2>/dev/null && echo yes || echo no"


def deployed(operator: Operator, runtime: str, *words: str, batch: int = 8) -> Run:
    """A run with this program and this many requests at once."""
    return replace(operator, variables={"BATCH": str(batch), "RUNTIME": runtime}).pyinfra(*words, inventory=INVENTORY)


@contextlib.contextmanager
def fresh_group(places: Places, names: Sequence[str], runtime: str) -> Iterator[Group]:
    """Machines with Debian 13 after their first deploy; removed before and afterwards."""
    with fresh_machines(places, names, "13") as (operator, machines):
        first = deployed(operator, runtime)
        assert first.code == 0, first.output[-4000:]
        keys = {machine.name: gateway.opened(machine).key for machine in machines}
        yield Group(tuple(machines), operator, keys, runtime, first)
