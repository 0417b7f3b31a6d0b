"""deploy.py on hosts without changes: the number of facts, and of remaining operations."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pyinfra.api import Host

from deploy.spec import Rollout
from deploy.topology.waves import pools_of, waves
from roles import preflight
from roles._pyinfra import steps
from tests.roles.fake import Ran, run

QUESTIONS = 3
OPERATIONS = 14
"""Preflight, lock, two gates and three looks are eight; each of the three waves has two more."""
HOSTS = ("first", "second", "third")


@pytest.fixture
def command_counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Number of commands to each host. Meanwhile every step and check finds its host as wanted."""
    counts, real = dict[str, int](), Host.get_fact

    def counting(host: Host, *arguments: Any, **more: Any) -> Any:
        counts[host.name] = counts.get(host.name, 0) + 1
        return real(host, *arguments, **more)

    monkeypatch.setattr(Host, "get_fact", counting)
    monkeypatch.setattr(preflight, "judge", lambda *_: [])
    for name in ("_step", "_check"):
        monkeypatch.setattr(steps, name, partial(content, getattr(steps, name)))
    return counts


def content(operation: Callable[..., Any], reading: Any, _: Any, *after: Any, **more: Any) -> Any:
    """An operation on a host that answers, and is as wanted."""
    return operation(reading, lambda _: [], *after, **more)


def deployed() -> Ran:
    """deploy.py on hosts that serve the plan; each is a wave."""
    (_, data), *_ = [value for name, value in runpy.run_path("inventories/h100.py").items() if name == "h100"]
    rollout = Rollout(canary_hosts=1, wave_percent=50, max_unavailable=1)
    answers = {"id -un": "user=root\nuid=0", "states=active,reloading": "triton@main.service"}
    data = {**data, "rollout": rollout}
    return run(lambda: runpy.run_path("deploy.py"), hosts=HOSTS, answers=answers, data=data, detect_changes=False)


def test_a_finished_host_is_asked_three_times_and_keeps_its_gates(command_counts: dict[str, int]) -> None:
    ran = deployed()
    assert (ran.commands, ran.failed_hosts, ran.stopped) == ((), (), "")
    assert command_counts == {f"@fake/{host}": QUESTIONS for host in HOSTS}
    assert {len(ran.on(host).operations) for host in HOSTS} == {OPERATIONS}


def test_a_finished_host_logs_that_no_server_is_drained(command_counts: dict[str, int]) -> None:
    assert sum("the host is not drained" in line for line in deployed().log) == len(HOSTS)


def test_a_fleet_of_200_keeps_within_twenty_operations_a_host() -> None:
    """The default rollout is used, with pools and without."""
    for pool in ("", "chat"):
        pools = pools_of(((f"h{number:03}", pool) for number in range(200)), Rollout())
        assert OPERATIONS - 2 * len(HOSTS) + 2 * len(waves(pools, Rollout())) <= 20
