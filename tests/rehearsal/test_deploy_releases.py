"""Failing, succeeding and rolled-back releases, and the serving release meanwhile; on the Debian 13 machine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
import tritonclient.http

from rehearsal.machine import Machine
from tests.rehearsal.conftest import PLACES, Pair
from tests.rehearsal.operator import Operator, Run
from tests.rehearsal.unloadable import TENSOR, make_unloadable
from tests.smoke import ask

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("number-4")]

SERVER = "/var/lib/enginehouse/servers/main"
READY_SECONDS = 600


def current(machine: Machine) -> str:
    """Returns the serving release, by its link."""
    return machine.run(f"basename $(readlink {SERVER}/current)").stdout.strip()


def history(machine: Machine) -> list[dict[str, str]]:
    """Returns every swap that the host remembers, oldest first."""
    return [json.loads(line) for line in machine.run("cat /var/lib/enginehouse/history.jsonl").stdout.splitlines()]


def answers(machine: Machine) -> bool:
    """Returns True if every embedder of the machine gives vectors; other results raise."""
    with tritonclient.http.InferenceServerClient(f"{machine.address}:8000") as client:
        widths = [ask.embed(client, name, [["some text"]]).shape[-1] for name in ("minilm", "nomic-moe")]
        return widths == [384, 64] and ask.rerank(client, "xlmr-reranker", "query", ["a", "b"]).shape == (2,)


@pytest.fixture(scope="module")
def good(deployed: Pair) -> str:
    """Returns the release of the rehearsal's own inventory."""
    return current(deployed.d13)


@pytest.fixture(scope="module")
def failing(operator: Operator, deployed: Pair, good: str) -> Run:
    """Runs a deploy whose release lacks a tensor and never becomes ready."""
    make_unloadable(deployed.services.checkpoints, PLACES.root)
    return operator.pyinfra("--limit", "d13", inventory="tests/rehearsal/inventories/never_ready.py")


def test_a_release_that_never_becomes_ready_fails_the_run_and_says_why(failing: Run) -> None:
    assert failing.code == 1
    assert "nomic-moe does not load" in failing.output and TENSOR in failing.output


def test_the_previous_release_serves_again_within_the_same_run(failing: Run, deployed: Pair, good: str) -> None:
    assert f"{good} is put back and serves" in failing.output
    assert (current(deployed.d13), answers(deployed.d13)) == (good, True)


def test_the_host_records_the_failed_release_and_its_reason(failing: Run, deployed: Pair, good: str) -> None:
    last = history(deployed.d13)[-1]
    assert (last["result"], last["from"]) == ("put back", good)
    assert TENSOR in last["reason"]


def test_the_good_inventory_finds_nothing_to_do_after_it(operator: Operator, failing: Run) -> None:
    again = operator.pyinfra("--limit", "d13")
    assert (again.code, again.changed) == (0, {})


def test_a_second_release_is_swapped_in(operator: Operator, deployed: Pair, good: str, second: str) -> None:
    assert second != good
    assert answers(deployed.d13)


@pytest.fixture(scope="module")
def second(operator: Operator, deployed: Pair, failing: Run) -> str:
    """Swaps in another release and returns it."""
    run = operator.pyinfra("--limit", "d13", inventory="tests/rehearsal/inventories/other_batch.py")
    assert run.code == 0, run.output[-4000:]
    return current(deployed.d13)


def test_rollback_takes_the_last_run_back_once(operator: Operator, deployed: Pair, good: str, second: str) -> None:
    brought = history(deployed.d13)[-1]["run"]
    gone_back, again = (operator.pyinfra("--limit", "d13", verb="rollback.py") for _ in range(2))
    assert (gone_back.code, current(deployed.d13), answers(deployed.d13)) == (0, good, True)
    assert (again.code, again.changed, history(deployed.d13)[-1]["back"]) == (0, {}, brought)
    assert f"run {brought} is already reverted on d13" in again.output


def test_rolling_back_a_rollback_restores_the_newer_release(
    operator: Operator, deployed: Pair, good: str, second: str
) -> None:
    took_back = history(deployed.d13)[-1]["run"]
    assert operator.pyinfra("--limit", "d13", "--data", f"run={took_back}", verb="rollback.py").code == 0
    assert (current(deployed.d13), answers(deployed.d13)) == (second, True)


def test_a_swap_needs_a_unit_that_may_open_the_card(deployed: Pair, second: str) -> None:
    """The swaps above succeeded; without `DeviceAllow=` the unit's own gate refuses."""
    machine, gate = deployed.d13, "/etc/systemd/system/enginehouse-swap@.service.d/52-enginehouse-gate.conf"
    swap = "systemctl daemon-reload; systemctl start enginehouse-swap@main.service"
    try:
        refused = machine.run(f"sed -i.whole /^DeviceAllow=/d {gate}; {swap}", check=False)
        reason = json.loads(machine.run(f"cat {SERVER}/verdict.json").stdout)["reason"]
    finally:
        machine.run(f"mv {gate}.whole {gate}; systemctl daemon-reload; systemctl reset-failed 'enginehouse-swap@*'")
    assert (refused.returncode, current(machine), answers(machine)) == (1, second, True)
    assert "GPU 0: nvidia-smi says: Failed to initialize NVML: Unknown Error" in reason


def test_rollback_lists_changes_that_it_does_not_revert(operator: Operator, second: str) -> None:
    dry = operator.pyinfra("--dry", "--limit", "d13", verb="rollback.py")
    assert "it does not undo: driver, Docker, container toolkit, weights, pulled images" in dry.output
    assert len(dry.announced) == 1


def test_a_deploy_after_it_brings_the_inventory_s_release_again(
    operator: Operator, deployed: Pair, good: str, second: str
) -> None:
    run = operator.pyinfra("--limit", "d13")
    assert (run.code, current(deployed.d13), answers(deployed.d13)) == (0, good, True)
    assert [name.split(" ")[2] for name in run.changed.values()] == ["Swap"]


def test_a_rejected_registry_key_is_explained_and_every_server_keeps_serving(
    operator: Operator, deployed: Pair, good: str
) -> None:
    run = operator.pyinfra("--limit", "d13", inventory="tests/rehearsal/inventories/wrong_key.py")
    assert run.code == 1
    assert "registry.rehearsal.internal:8443 rejected the key (401, unauthorized)" in run.output
    assert "the first line of `echo wrong`, 5 characters, not shown" in run.output
    assert (current(deployed.d13), answers(deployed.d13)) == (good, True)


def test_broken_engine_settings_are_explained_and_their_repair_restarts_the_engine(
    operator: Operator, deployed: Pair, good: str
) -> None:
    daemon = "/etc/docker/daemon.json"
    deployed.d13.run(f"echo '{{broken' > {daemon}; systemctl stop docker.socket docker.service", check=False)
    refused = operator.pyinfra("--limit", "d13")
    assert refused.code == 1 and f"{daemon} is not a JSON object" in refused.output
    deployed.d13.run(f"echo '{{}}' > {daemon}")
    mended = operator.pyinfra("--limit", "d13")
    assert (mended.code, current(deployed.d13), answers(deployed.d13)) == (0, good, True)


def test_a_rebooted_machine_serves_again_by_itself(deployed: Pair, good: str) -> None:
    deployed.d13.reboot()
    until(lambda: ready(deployed.d13), READY_SECONDS)
    assert (current(deployed.d13), answers(deployed.d13)) == (good, True)


def ready(machine: Machine) -> bool:
    """Returns True if the unit is active, so that every model has answered."""
    return machine.run("systemctl is-active triton@main.service", check=False).stdout == "active\n"


def until(is_so: Callable[[], bool], seconds: float) -> None:
    """Waits until the condition holds, at most `seconds`."""
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(1)
