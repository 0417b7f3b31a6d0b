"""Hosts behind a balancer, under load, repair their own failing GPUs; then a notice of interruption.

All tests share one fleet and one load, in pytest's order: the last tests count the lost requests, and remove a host's
own program. ENGINEHOUSE_REPAIR_HOSTS=6 makes a larger fleet.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks import fleet, front
from benchmarks.client_protocols import Place
from benchmarks.open_loop import Load, Running, running
from benchmarks.outcomes import losses
from benchmarks.rollout import EMBEDDER, LLM, PATIENCE_SECONDS
from deploy.io.doctor import examined
from rehearsal import metadata, requirements
from rehearsal.faults import fault
from rehearsal.machine import Machine
from rehearsal.places import RehearsalRefused
from tests.faults.scene import until
from tests.rehearsal.operator import Operator, Run
from tests.rollouts.timeline import Timeline

# Minutes on machines: `make faults` runs it.
pytestmark = [pytest.mark.rehearsal, pytest.mark.faults, pytest.mark.xdist_group("number-3")]

INVENTORY = "tests/rehearsal/inventories/repairs.py"
HOSTS = int(os.environ.get("ENGINEHOUSE_REPAIR_HOSTS", "3"))
RATE, WAIT_SECONDS = 5.0, 400
HISTORY = "/var/lib/enginehouse/history.jsonl"
FAULTS = "/run/rehearsal/gpu-faults"
PENDING = "0 remapped_rows.pending Yes\n"
XID = "logger -t kernel 'NVRM: Xid (PCI:0000:01:00): {}, pid=1, name=tritonserver (rehearsal)'"
CLOUD = """import pathlib, time, metadata
with metadata.metadata("aws", "169.254.169.254", 80) as cloud:
    while True:
        is_announced = pathlib.Path("/run/rehearsal/notice").exists()
        if is_announced and not cloud.event:
            cloud.notice(seconds=120)
        if not is_announced and cloud.event:
            cloud.withdraw()
        time.sleep(0.2)
"""
STAND_INS = "/usr/local/lib/rehearsal"
METADATA = (
    "ip address add 169.254.169.254/32 dev lo; systemd-run -q --unit rehearsal-metadata"
    f" --setenv=PYTHONPATH={STAND_INS} python3 {STAND_INS}/cloud.py"
)


@dataclass
class Fleet:
    """The hosts by number, their balancer's view, and the load."""

    hosts: list[Machine]
    timeline: Timeline
    load: Running

    def results(self, host: Machine, whose: str = "this host's repair") -> list[str]:
        """Returns the results in the host's history, written by its repairs or by others."""
        try:
            lines = host.run(f"cat {HISTORY}", check=False).stdout.splitlines()
        except RehearsalRefused:  # the machine reboots
            return []
        return [entry["result"] for entry in map(json.loads, lines) if entry["who"] == whose]

    def state(self, host: Machine) -> dict[str, Any]:
        """Returns the state of a host's repairs."""
        return dict(json.loads(host.run("cat /var/lib/enginehouse/repair/state.json").stdout))

    def looked(self, host: Machine) -> float:
        """Returns the time of a host's last GPU check."""
        words = host.run("grep ^enginehouse_repair_looked /var/lib/enginehouse/metrics/repair.prom").stdout
        return float(words.split()[-1])

    def all_in(self) -> bool:
        """Returns True if the balancer sends to every host."""
        return all(self.timeline.now.get(host.name) == "UP" for host in self.hosts)


def typed(*words: str, verb: str = "deploy.py") -> Run:
    """Runs a deploy like an operator."""
    run = Operator(fleet.NUMBER, fleet.PLACES.root / "operator.log", Path.home()).pyinfra(
        *words, inventory=INVENTORY, verb=verb
    )
    assert run.code == 0, run.output[-4000:]
    return run


@pytest.fixture(scope="module")
def ill() -> Iterator[Fleet]:
    """Yields the fleet under load; at most one of its hosts may be out."""
    if lacking := [*requirements.missing(fleet.PLACES), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", str(fleet.NUMBER))
        patch.setenv("ROLLOUT_OUT", "1")
        with fleet.up(HOSTS, 1, "12") as (serving, (edge,)):
            typed()
            http, grpc = front.ports(0)
            load = Load(
                place=Place(f"{edge.address}:{http}", f"{edge.address}:{grpc}"),
                rate=RATE,
                embedder=EMBEDDER,
                llm=LLM,
                long_percent=0,
                drain_seconds=front.DRAIN_SECONDS,
                patience_seconds=PATIENCE_SECONDS,
            )
            exporter = f"http://{edge.address}:{front.METRICS_PORT}/metrics"
            with running(load) as sent, Timeline(exporter, "pool0", sent.so_far, lambda _: None) as timeline:
                yield Fleet(list(serving), timeline, sent)


def test_a_finished_fleet_changes_nothing(ill: Fleet) -> None:
    assert typed().changed == {}
    assert ill.hosts[0].run("systemctl is-active enginehouse-repair").stdout == "active\n"


def test_two_ill_hosts_are_drained_repaired_and_back_one_after_the_other(ill: Fleet) -> None:
    """Faults: rows of one host wait for a reset, and a GPU of another fell off the bus, which needs a reboot."""
    assert until(ill.all_in, WAIT_SECONDS)
    first, second = ill.hosts[:2]
    boots = second.run("cat /proc/sys/kernel/random/boot_id").stdout
    first.put(FAULTS, PENDING)
    fault("gpu-gone").strike(second)
    for host in (first, second):
        assert until(lambda host=host: ill.results(host)[-1:] == ["repaired"], WAIT_SECONDS)
    assert until(ill.all_in, WAIT_SECONDS)
    assert [ill.results(host) for host in (first, second)] == [["repair begun", "repaired"]] * 2
    assert second.run("cat /proc/sys/kernel/random/boot_id").stdout != boots
    assert all("DRAIN" in ill.timeline.seen(host.name) for host in (first, second))


def test_a_third_ill_host_serves_on_while_another_one_is_out(ill: Fleet) -> None:
    """An operator drains the first; the uncontained error of the third is repaired once the drain has ended."""
    first, third = ill.hosts[0], ill.hosts[2]
    first.run("python3 -B /usr/local/lib/enginehouse/host traffic hold 10m")
    assert until(lambda: ill.timeline.now[first.name] == "DRAIN", WAIT_SECONDS)
    third.run(XID.format(95))
    reason = f"{first.name} of the pool are out of service, which is the limit"
    assert until(lambda: ill.state(third)["waits"] == reason, WAIT_SECONDS)
    assert "repair-waits" in finding_ids(third)
    assert (ill.timeline.now[third.name], ill.results(third)) == ("UP", [])
    first.run("python3 -B /usr/local/lib/enginehouse/host traffic admit")
    assert until(lambda: ill.results(third) == ["repair begun", "repaired"], WAIT_SECONDS)
    assert until(ill.all_in, WAIT_SECONDS)


def test_an_application_s_own_fault_is_left_alone(ill: Fleet) -> None:
    first = ill.hosts[0]
    before, looked = ill.results(first), ill.looked(first)
    for number in (13, 31, 43):
        first.run(XID.format(number))
    assert until(lambda: ill.looked(first) > looked + 15, WAIT_SECONDS)
    assert (ill.results(first), ill.state(first)["why"]) == (before, "")


def test_a_fault_that_comes_back_three_times_is_left_to_a_person(ill: Fleet) -> None:
    """The host then serves again; doctor and metrics report that a person is needed."""
    third = ill.hosts[2]
    for repairs in (2, 3):
        third.put(FAULTS, PENDING)
        assert until(lambda repairs=repairs: ill.results(third).count("repaired") == repairs, WAIT_SECONDS)
    third.put(FAULTS, PENDING)
    assert until(lambda: ill.results(third)[-1] == "left to a person", WAIT_SECONDS)
    assert until(ill.all_in, WAIT_SECONDS)
    assert "repair-person" in finding_ids(third)
    metric = "cat /var/lib/enginehouse/metrics/repair.prom"
    assert "\nenginehouse_repair_person 1\n" in third.run(metric).stdout
    third.run(f"rm {FAULTS}")
    assert until(lambda: "\nenginehouse_repair_person 0\n" in third.run(metric).stdout, WAIT_SECONDS)


def test_a_notice_drains_the_host_and_a_withdrawn_one_gives_it_back(
    ill: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The role's installed unit asks at the cloud's own address, which the machine itself has here."""
    last = ill.hosts[-1]
    last.put(f"{STAND_INS}/metadata.py", Path(metadata.__file__).read_text())
    last.put(f"{STAND_INS}/cloud.py", CLOUD)
    last.run(METADATA)
    monkeypatch.setenv("NOTICES", "aws")
    assert "Traffic | Ask for notices" in typed("--limit", last.name).changed.values()
    assert typed("--limit", last.name).changed == {}
    never = "enginehouse_notice_answered_timestamp_seconds 0"
    assert until(lambda: never not in last.run("cat /var/lib/enginehouse/metrics/notices.prom").stdout, WAIT_SECONDS)
    last.run("touch /run/rehearsal/notice")
    assert until(lambda: ill.timeline.now[last.name] == "DRAIN", 60)
    assert until(lambda: ill.results(last, "this host's cloud") == ["announced", "drained"], 60)
    assert "notice-drains" in finding_ids(last)
    last.run("rm /run/rehearsal/notice")
    assert until(lambda: ill.results(last, "this host's cloud")[-1] == "withdrawn", 60)
    assert until(ill.all_in, WAIT_SECONDS)


def test_no_request_was_lost_and_never_was_more_than_one_host_out(ill: Fleet) -> None:
    """The test covers the whole load of this file."""
    outcomes = ill.load.end(2 * PATIENCE_SECONDS)
    lost = {"hosts": HOSTS, "sent": len(outcomes)} | losses(outcomes, ill.timeline._began)
    (fleet.PLACES.root / "repairs.json").write_text(json.dumps(lost))
    assert (lost["reasons"], ill.timeline.least_in()) == ({}, HOSTS - 1), (lost, ill.timeline.events)
    assert len(outcomes) > 300


def test_removal_takes_the_program_off(ill: Fleet) -> None:
    name = ill.hosts[0].name
    typed("--limit", name, "--data", "remove=yes", verb="remove.py")
    left = "ls -d /etc/systemd/system/enginehouse-* /etc/enginehouse /var/lib/enginehouse/* 2>/dev/null; true"
    assert ill.hosts[0].run(left).stdout == ""


def finding_ids(host: Machine) -> set[str]:
    """Returns ids of the doctor's findings on the host."""
    report = examined(INVENTORY, limit=(host.name,), with_drift=False)
    return {finding.id for listed in report.findings.values() for finding in listed}
