"""A monitor of Debian's own packages reads a serving machine and a balancer, and raises the right alert for each fault.

In order: a second run, targets, dashboards, an hour's worth of calm recorded, six faults one after the other, pictures.
From the dashboards on, Prometheus reads copies of its files in which time is short (tests/monitoring/live/hurried.py).
"""

from __future__ import annotations

import socket
import time

import pytest

from rehearsal.machine import Machine
from tests.faults.scene import until
from tests.monitoring.live import pictures
from tests.monitoring.live.scene import EDGE, MONITOR, SERVING, Watched, answers_soon, recorded_pages
from tests.monitoring.live.strikes import STRIKES, Strike
from tests.monitoring.quiet import QUIET, recorded
from tests.monitoring.scraped import SCRAPES

JOBS = {"dcgm": 1, "gateway": 1, "haproxy": 1, "host": 3, "probe": 6, "triton": 1}
ABSENT = ("ALERTS{", "(up == 0)", "enginehouse_gpu_xids")
"""Queries without an answer on a healthy fleet; the faults give them one."""
UNTOLD = 'kind="cached"'
"""A query for cached tokens, which the stand-in of TensorRT-LLM does not report."""
OF_A_CARD = ("h100", "trtllm")
"""Kept scrapes with metrics that only a real card, or an engine built by TensorRT-LLM, exports."""
CALM_SECONDS, SETTLED_SECONDS = 20, 8


def test_a_second_run_changes_nothing(watched: Watched) -> None:
    again = watched.deploy()
    assert again.is_silent, again.output[-6000:]


def test_every_target_answers(watched: Watched) -> None:
    targets_up: dict[str, int] = {}

    def all_up() -> bool:
        rows = watched.prometheus("count by (job) (up == 1)")
        targets_up.update({row["metric"]["job"]: int(row["value"][1]) for row in rows})
        return targets_up == JOBS

    assert until(all_up, 60, 1), targets_up
    assert {row["metric"]["host"] for row in watched.prometheus("up")} == {SERVING, EDGE, MONITOR}
    assert until(lambda: watched.prometheus("probe_success == 0") == [], 60, 1)


def test_only_the_monitor_reads_a_host(watched: Watched) -> None:
    """This computer is in the network that may read the monitor and log in."""
    assert [port for port in (8005, 8006, 8007, 9100) if _answers(watched.serving, port)] == []
    assert [port for port in (8005, 8006, 8008, 9094, 9100, 9115) if _answers(watched.eyes, port)] == []
    assert [port for port in (9090, 9093) if _answers(watched.eyes, port)] == [9090, 9093]


def test_the_distributions_own_units_never_ran(watched: Watched) -> None:
    for machine in (watched.serving, watched.edge, watched.eyes):
        assert machine.run("journalctl -q -b -o cat -u 'prometheus*'; true").stdout == ""


def test_every_dashboard_shows_something(watched: Watched) -> None:
    """Series that need a card or an engine come from kept scrapes, under another host's name."""
    left: set[str] = set()

    def all_full() -> bool:
        watched.ask()
        left.clear()
        left.update(query for query in watched.look() if not any(words in query for words in (*ABSENT, UNTOLD)))
        return not left

    with recorded_pages(OF_A_CARD) as place:
        watched.hurry(pages=place)
        assert until(all_full, 120, 2), sorted(left)
    watched.hurry()


def test_no_alert_fires_while_all_is_well_and_the_scrapes_are_recorded(watched: Watched) -> None:
    assert until(lambda: watched.notified() == set(), 60, 1), watched.notified()
    assert until(lambda: watched.alerts() == set(), 60, 1), watched.alerts()
    end = time.monotonic() + CALM_SECONDS
    while time.monotonic() < end:
        watched.ask()
        assert watched.notified() == set()
    rows = watched.prometheus('{job=~".+",host!="h100"}[20s]')
    QUIET.write_text(recorded(rows, "three rehearsal machines of Debian 12 under a light load; tests/monitoring/live"))


@pytest.mark.parametrize("strike", STRIKES, ids=lambda strike: strike.alert)
def test_a_fault_raises_its_alert_and_no_other_and_the_alert_ends(watched: Watched, strike: Strike) -> None:
    wanted = {(strike.alert, strike.host)}
    assert until(lambda: watched.notified() == set(), 60, 0.5), watched.notified()
    strike.apply(watched)
    try:
        # An alert that waits half an hour before it notifies is pending by then, so this test does not wait for it.
        whole = (wanted, {strike.alert} | strike.behind)
        assert until(lambda: (watched.notified(), watched.alerts()) == whole, 90, 0.5), (
            watched.notified(),
            watched.alerts(),
        )
        time.sleep(SETTLED_SECONDS)
        assert until(lambda: (watched.notified(), watched.alerts()) == whole, 20, 0.5), (
            watched.notified(),
            watched.alerts(),
        )
        watched.look()
        if strike.alert == "SwapRefused":
            (SCRAPES / "systemd.prom").write_text(watched.units())
        if strike.alert == pictures.SHOWN:
            pictures.top()
            pictures.pages(watched.url, pictures.DURING)
    finally:
        strike.mend(watched)
    assert until(lambda: watched.notified() == set(), 90, 0.5), watched.notified()


def test_every_query_of_the_dashboards_has_had_an_answer(watched: Watched) -> None:
    assert [query for query in sorted(watched.look()) if UNTOLD not in query] == []


def test_prometheus_own_pages_show_it(watched: Watched) -> None:
    pictures.pages(watched.url, pictures.AFTERWARDS)


def test_a_monitor_that_is_killed_is_back_with_its_samples(watched: Watched) -> None:
    watched.eyes.run("systemctl kill --signal=KILL enginehouse-prometheus")
    assert answers_soon(watched, "count_over_time(up[2m]) > 10", 60)


def test_a_plain_run_puts_the_real_rules_back(watched: Watched) -> None:
    run = watched.deploy()
    assert run.code == 0, run.output[-4000:]
    assert "interval: 1m" in watched.eyes.run("cat /etc/enginehouse/monitor/rules.yml").stdout


def _answers(machine: Machine, port: int) -> bool:
    """Returns True if the machine lets this computer connect to the port."""
    try:
        socket.create_connection((machine.address, port), timeout=2).close()
    except OSError:
        return False
    return True
