"""A serving machine's answers to a balancer while its server, or Docker below it, is stopped."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.faults.scene import Scene, answers, until

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

LIVES = "docker inspect -f '{{.State.Running}}' triton-main"
LEFT = "systemctl show -P InactiveEnterTimestampMonotonic triton@main docker | grep ."
"""Prints when the server and Docker were last down, in this order, in microseconds."""
JOURNAL = "journalctl -q -b -o cat -u triton@main --since '-30s' | grep -c 'without a drain'"

FAILED = "journalctl -q -b -o cat -u triton@main --since @{since} | grep -c 'Failed with result'"


def heard(scene: Scene) -> str:
    """The answer to one agent-check, as HAProxy sends it."""
    with socket.create_connection((scene.machine.address, 8004), timeout=10) as line:
        line.sendall(b"main\n")
        return line.makefile().read().strip()


@contextmanager
def going(scene: Scene, command: str) -> Iterator[None]:
    """Runs the command during the block and waits for its end."""
    typed = threading.Thread(target=scene.says, args=(command,))
    typed.start()
    try:
        yield
    finally:
        typed.join()


@pytest.fixture
def ready(serving: Scene) -> Scene:
    """Returns the machine with a ready server; its unit may restart without a limit."""
    serving.says("systemctl reset-failed triton@main; systemctl start triton@main")
    assert until(lambda: heard(serving) == "ready", 60, 0.1)
    return serving


def test_a_server_drains_before_its_container_stops_and_is_ready_after(ready: Scene) -> None:
    with going(ready, "systemctl stop triton@main"):
        assert until(lambda: heard(ready) == "drain", 30, 0.01)
        assert ready.says(LIVES) == "true"
    assert ready.diagnosed() == {"unit-stopped"}
    ready.says("systemctl start triton@main")
    assert until(lambda: heard(ready) == "ready", 60, 0.1) and answers(ready.machine)


def test_docker_restarts_only_after_the_server_was_drained_and_stopped(ready: Scene) -> None:
    daemon = ready.says("systemctl show -P MainPID docker")
    with going(ready, "systemctl restart docker"):
        assert until(lambda: heard(ready) == "drain", 30, 0.01)
        assert ready.says(LIVES) == "true"
        assert ready.says("systemctl show -P MainPID docker") == daemon
    server_left, docker_left = map(int, ready.says(LEFT).split())
    assert server_left <= docker_left
    assert until(lambda: heard(ready) == "ready", 60, 0.1) and answers(ready.machine)
    assert ready.says(JOURNAL) == "0"


def test_stopping_docker_stops_its_server_and_starting_it_restarts_both(ready: Scene) -> None:
    ready.says("systemctl stop docker.socket docker.service")
    assert ready.says("systemctl is-active triton@main") == "inactive"
    assert ready.diagnosed() == {"docker-down", "unit-stopped"}
    ready.says("systemctl start docker.service")
    assert until(lambda: heard(ready) == "ready", 60, 0.1)


def test_a_docker_that_starts_late_brings_its_server_back(ready: Scene) -> None:
    """The server's unit has reached its limit of starts before Docker starts."""
    ready.says("systemctl stop docker.socket docker.service; systemctl mask --runtime docker.service docker.socket")
    try:
        ready.says("for n in 1 2 3 4 5 6; do systemctl restart triton@main; done")
        assert ready.says("systemctl is-failed triton@main") == "failed"
        assert ready.diagnosed() == {"docker-down", "unit-failed"}
    finally:
        ready.says("systemctl unmask --runtime docker.service docker.socket")
    ready.says("systemctl start docker.service")
    assert until(lambda: heard(ready) == "ready", 60, 0.1)


def test_a_start_that_has_to_restart_docker_is_not_stopped_by_it(ready: Scene) -> None:
    """A docker-proxy without a container holds the server's port until Docker restarts."""
    ready.says("systemctl stop triton@main")
    since, daemon = ready.says("date +%s; systemctl show -P MainPID docker").split()
    name = f"docker-proxy -proto tcp -host-ip {ready.machine.address} -host-port 8000 -container-port 8000"
    ready.says(f'systemd-run bash -c \'exec -a "{name}" bash -c "while kill -0 {daemon}; do sleep 0.1; done"\'')
    ready.says("systemctl start triton@main")
    assert until(lambda: heard(ready) == "ready", 60, 0.1) and answers(ready.machine)
    assert ready.says("systemctl show -P MainPID docker") != daemon
    assert ready.says(FAILED.format(since=since)) == "0"


def test_a_traffic_service_that_is_killed_is_back_within_a_second(ready: Scene) -> None:
    ready.says("systemctl kill --signal=KILL enginehouse-traffic")
    assert until(lambda: _answers_ready(ready), 10, 0.05)


def _answers_ready(scene: Scene) -> bool:
    try:
        return heard(scene) == "ready"
    except OSError:
        return False
