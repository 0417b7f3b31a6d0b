"""The exporters role on hosts in every state: bare, finished, half-finished, and without a monitor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deploy.slices.monitor import ExportersSlice
from roles import exporters, firewall
from roles.exporters import operations
from roles.exporters.counters import COUNTERS
from roles.exporters.defaults import DCGM, METRICS, NODE, PAGES, unit_path
from roles.firewall.rules import rules
from tests.monitoring.scraped import metrics
from tests.roles.fake import Ran, run
from tests.roles.monitor.plans import a_monitor, watched
from tests.roles.monitor.test_role import INSTALL, running
from tests.unit.golden import same_as_golden

SHOWN = watched().for_host("a").exporters
assert SHOWN
MINE: ExportersSlice = SHOWN
IMAGE = "nvcr.io/nvidia/k8s/dcgm-exporter@sha256:" + "a" * 64
WITH_DCGM = replace(MINE, dcgm_image=IMAGE)
PACKED = ["package\tprometheus-node-exporter\t1.5.0-1+b6\tii "]
DONE = [*PACKED, *running(NODE, METRICS)]
OFF = [f"value\tstale\t{DCGM}"]
"""The fact on a host where dcgm-exporter, which this plan does not have, has no current files."""


def play(*seen: str, mine: ExportersSlice = MINE, texts: str | None = None, **how: Any) -> Ran:
    """The role on a host with the facts `seen`."""
    placed = "\n".join(f"{text.wanted_fact} {text.path}" for text in operations.texts(mine))
    answers = {"dpkg-query": list(seen), "%n %a %U": placed if texts is None else texts}
    return run(lambda: exporters.apply(mine), answers=answers, **how)


def first_lines(ran: Ran) -> list[str]:
    """The commands without the content that they write."""
    return [text.split("\n")[0] for text in ran.commands]


def test_a_bare_host_gets_a_masked_package_units_and_pages() -> None:
    stale = [f"value\tstale\t{name}" for name in (NODE, METRICS, DCGM)]
    starts = [
        "systemctl mask prometheus-node-exporter.service",
        f"{INSTALL} --no-install-recommends prometheus-node-exporter",
        f"mkdir -p /etc/enginehouse && cat > {PAGES}",
        *["mkdir -p /etc/systemd/system && cat > "] * 2,
        "systemctl daemon-reload",
        *(start for name in (NODE, METRICS) for start in (f"systemctl enable {name}", f"systemctl restart {name}")),
    ]
    commands = first_lines(play(*stale, texts=""))
    assert [text.startswith(start) for text, start in zip(commands, starts, strict=True)] == [True] * len(starts)


def test_a_finished_host_gets_no_commands() -> None:
    assert play(*DONE, *OFF).commands == ()


def test_a_run_that_was_killed_before_it_restarted_something_is_finished() -> None:
    commands = first_lines(play(*DONE, *OFF, f"value\tstale\t{METRICS}"))
    assert [text.split(" || ")[0] for text in commands] == [f"systemctl restart {METRICS}"]


def test_a_host_without_monitors_has_no_exporters() -> None:
    def story() -> None:
        exporters.apply(None)

    assert run(story).commands == ()
    (command,) = run(story, answers={"ls -d": [unit_path(NODE), PAGES]}).commands
    assert command.startswith(f"systemctl stop {NODE} {METRICS} {DCGM}; rm -f ")
    assert f"{unit_path(NODE)} {PAGES} && systemctl daemon-reload" in command


def test_dcgm_exporter_comes_with_its_image_and_goes_with_it() -> None:
    there = [*DONE, *running(DCGM)]
    assert any(text.startswith(f"systemctl enable {DCGM}") for text in play(*DONE, mine=WITH_DCGM).commands)
    assert play(*there, mine=WITH_DCGM).commands == ()
    (command,) = play(*there, *OFF).commands
    assert command.startswith(f"systemctl disable --now {DCGM}; rm -f {unit_path(DCGM)}")


def test_dcgm_exporter_is_named_by_digest_and_listens_on_loopback() -> None:
    unit = operations.dcgm_unit(IMAGE).content
    assert f"  {IMAGE} --collectors" in unit
    assert "--publish 127.0.0.1:8007:9400" in unit
    same_as_golden("monitor/enginehouse-dcgm.service", unit)


def test_every_counter_is_one_of_dcgms() -> None:
    """The list was read beside the exporter's source."""
    assert {name for name, _, _ in COUNTERS} <= {name for name, row in metrics().items() if row.job == "dcgm"}


def test_a_firewall_admits_only_monitors_to_a_hosts_metrics() -> None:
    text = rules(watched().for_host("a"), [22])
    assert "ip saddr { 10.0.0.9/32 } accept" in text
    assert "ip daddr 10.0.0.11 tcp dport 8005 jump monitors" in text


def test_a_host_without_a_declared_firewall_closes_only_metrics_ports() -> None:
    bare = replace(watched().for_host("a"), firewall=None)
    text = rules(bare, [22])
    assert "jump monitors" in text
    assert "jump servers" not in text
    assert "jump metrics" not in text
    steps = run(lambda: firewall.apply(bare), answers={"ssh-ports": ["value\tssh-ports\t22"]}).operations
    assert "Firewall | Load the rules, confirmed" in steps


def test_a_monitor_is_open_to_its_readers_alone() -> None:
    assert "jump readers" not in rules(a_monitor(), [22])
    text = rules(a_monitor(allow=("10.1.0.0/16",)), [22])
    assert "ip daddr 10.0.0.9 tcp dport { 9090, 9093 } jump readers" in text
    assert "chain readers {\n    ip saddr { 10.1.0.0/16 } accept\n    counter drop" in text
