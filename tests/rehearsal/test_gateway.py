"""The gateway on serving machines: deployed by itself, asked with a key, restarted, removed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from rehearsal import ssh
from rehearsal.machine import Machine
from tests.rehearsal.conftest import Pair
from tests.rehearsal.operator import Operator, Run

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("number-4")]

INVENTORY = "tests/rehearsal/inventories/with_gateway.py"
KEY = "eh-a-key-of-this-test-alone-and-of-nobody-else"
LINE = {"sha256": hashlib.sha256(KEY.encode()).hexdigest(), "prefix": "eh-a", "tenant": "test", "models": ["*"]}
KEYS = "/etc/enginehouse/gateway/keys.json"
LEFT = (
    "ls -d /etc/enginehouse/gateway /usr/local/lib/enginehouse/gateway /etc/systemd/system/*gateway* 2>/dev/null;"
    " systemctl list-units --all --plain --no-legend 'enginehouse-gateway@*'; true"
)


def answer_of(machine: Machine, path: str, body: dict[str, Any] | None = None, port: int = 8080) -> Any:
    """Returns the gateway's answer to a request from the machine itself."""
    sent = f"-d '{json.dumps(body)}' -H 'Content-Type: application/json'" if body else ""
    curl = f"curl -sS -m 60 {sent} -H 'Authorization: Bearer {KEY}' http://127.0.0.1:{port}{path}"
    return json.loads(machine.run(curl).stdout)


def gateway(operator: Operator, inventory: str = INVENTORY) -> Run:
    """Deploys only the gateways."""
    run = operator.pyinfra("--data", "only=gateway", inventory=inventory)
    assert run.code == 0, run.output[-4000:]
    return run


@pytest.fixture(scope="module")
def opened(operator: Operator, deployed: Pair) -> Run:
    """Gives both machines a gateway, and a key that only the machine knows."""
    run = gateway(operator)
    for machine in deployed.both:
        # Replaced by rename, with the mode that lets the group read it.
        machine.run(
            f"cat >{KEYS}.new && chmod 640 {KEYS}.new && mv {KEYS}.new {KEYS}", input=json.dumps({"keys": [LINE]})
        )
    return run


def test_only_the_gateway_is_touched(opened: Run, deployed: Pair) -> None:
    assert {name.split(" | ")[0] for name in opened.changed.values()} == {"Gateway"}
    assert opened.told_of("Gateway | Run every process") == deployed.names


def test_a_second_run_changes_nothing_and_leaves_the_keys_of_the_host(
    operator: Operator, opened: Run, deployed: Pair
) -> None:
    assert gateway(operator).changed == {}
    assert all("sha256" in machine.run(f"cat {KEYS}").stdout for machine in deployed.both)


def test_every_process_offers_every_model_and_they_are_ready(opened: Run, deployed: Pair) -> None:
    for machine in deployed.both:
        for port in (8080, 8081):
            models = answer_of(machine, "/health", port=port)["models"]
            assert set(models.values()) == {True} and len(models) == 5


def test_clients_with_the_key_get_vectors_scores_and_text(opened: Run, deployed: Pair) -> None:
    for machine in deployed.both:
        vector = answer_of(machine, "/v1/embeddings", {"model": "text-embedding-3-small", "input": "hello"})
        assert len(vector["data"][0]["embedding"]) == 384
        ranked = answer_of(machine, "/v1/rerank", {"model": "xlmr-reranker", "query": "a", "documents": ["a", "b"]})
        assert len(ranked["results"]) == 2
        text = answer_of(machine, "/v1/completions", {"model": "llama-tiny", "prompt": "hello", "max_tokens": 4})
        assert text["usage"]["completion_tokens"] in range(1, 5)


def test_a_gateway_refuses_requests_without_a_key_and_other_machines(opened: Run, deployed: Pair) -> None:
    d12, d13 = deployed.both
    curl = "curl -s -o /dev/null -m 5 -w '%{http_code}'"
    assert d12.run(f"{curl} http://127.0.0.1:8080/v1/models").stdout == "401"
    assert d13.run(f"{curl} http://{d12.address}:8080/health", check=False).stdout == "000"


def test_the_processes_run_as_a_user_without_further_rights(opened: Run, deployed: Pair) -> None:
    for machine in deployed.both:
        shown = "systemctl show -p User,NoNewPrivileges,ProtectSystem,MemoryDenyWriteExecute enginehouse-gateway@1"
        assert set(machine.run(shown).stdout.split()) == {
            "User=enginehouse-gateway",
            "NoNewPrivileges=yes",
            "ProtectSystem=strict",
            "MemoryDenyWriteExecute=yes",
        }
        pid = machine.run("systemctl show -p MainPID --value enginehouse-gateway@1").stdout.strip()
        status = machine.run(f"grep -E 'CapEff|Seccomp:|NoNewPrivs' /proc/{pid}/status").stdout.split()
        assert status == ["CapEff:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"]


def test_a_process_that_was_killed_comes_back_by_itself(opened: Run, deployed: Pair) -> None:
    machine = deployed.d13
    machine.run("systemctl kill -s KILL enginehouse-gateway@0")
    machine.run("until curl -sf -m 5 http://127.0.0.1:8080/health; do :; done", timeout=300)


def used(operator: Operator) -> tuple[int, list[str], dict[str, int]]:
    """Returns exit status, missing hosts, and the test tenant's answered requests by model from `enginehouse usage`."""
    shown = operator.python("-m", "deploy", "usage", INVENTORY, "--by", "tenant,model", "--json")
    report = json.loads(shown.stdout)
    lines = [line for line in report["usage"] if line["tenant"] == "test" and line["model"]]
    return shown.returncode, report["missing"], {line["model"]: line["requests"] - line["errors"] for line in lines}


def test_usage_of_both_machines_is_added_up_over_ssh(operator: Operator, opened: Run, deployed: Pair) -> None:
    """The sum includes the counters of a killed process; a machine without sshd is named, and the other machine
    counted."""
    assert used(operator) == (0, [], {"llama-tiny": 2, "minilm": 2, "xlmr-reranker": 2})
    deployed.d13.run("systemctl stop ssh.socket ssh.service")
    ssh.close_connection(deployed.d13.places, deployed.d13.name)
    try:
        assert used(operator) == (3, [deployed.d13.name], {"llama-tiny": 1, "minilm": 1, "xlmr-reranker": 1})
    finally:
        deployed.d13.run("systemctl start ssh.service")


def test_a_gateway_that_leaves_the_inventory_leaves_nothing_behind(
    operator: Operator, opened: Run, deployed: Pair
) -> None:
    gateway(operator, "inventories/rehearsal.py")
    assert [machine.run(LEFT).stdout for machine in deployed.both] == ["", ""]
    assert gateway(operator, "inventories/rehearsal.py").changed == {}
