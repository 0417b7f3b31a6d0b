"""An LLM beside Triton on a machine: deployed, asked through the gateway, swapped, killed, promoted to another program.

The tests share one machine and run in pytest's order. vLLM and trtllm-serve are stand-ins (rehearsal/runtimes).
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest

from rehearsal import gateway
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places
from tests.faults.scene import until
from tests.rehearsal.operator import Operator, Run, fresh_machines

# Minutes on a machine: `make faults` runs it.
pytestmark = [pytest.mark.rehearsal, pytest.mark.faults, pytest.mark.xdist_group("number-1")]

NUMBER = int(os.environ.get("ENGINEHOUSE_BESIDE_NUMBER", "1"))
"""Rehearsal number; an environment variable names another one beside a run of all tests."""
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
INVENTORY = "tests/rehearsal/inventories/beside.py"
UNITS = ("triton@main", "llm@main")
STARTED = "systemctl show -P InvocationID {}.service"
WORDS = 66
"""Words of the answers to rehearsal/replay/prompts.jsonl, 16 tokens each."""
CLIENTS = r"""rm -f /root/enough /root/statuses-*; cat >/root/asking-clients <<'END'
while [ ! -e /root/enough ]; do
  curl -s -o /dev/null -m 700 -w '%{http_code}\n' -H 'Authorization: Bearer KEY' -H 'Content-Type: application/json' \
    -d '{"model": "llama-tiny", "prompt": "hello", "max_tokens": 4}' http://127.0.0.1:8080/v1/completions
  sleep 0.2
done
END
for number in 1 2 3; do setsid bash /root/asking-clients >/root/statuses-$number 2>&1 </dev/null & done"""
"""Three clients of the gateway, who ask one question after the other until /root/enough exists."""
RELEASE = "basename $(readlink /var/lib/enginehouse/servers/main/current)"


@dataclass
class Story:
    """The machine, its operator, the key of its gateway, and the first run."""

    machine: Machine
    operator: Operator
    key: str
    first: Run

    def deploy(self, *words: str, verb: str = "deploy.py", **environment: str) -> Run:
        """Runs `pyinfra INVENTORY VERB`, with these words for the inventory."""
        with mock.patch.dict(os.environ, environment):
            run = self.operator.pyinfra(*words, inventory=INVENTORY, verb=verb)
        assert run.code == 0, run.output[-4000:]
        return run

    def says(self, command: str) -> str:
        """Returns the output of a command on the machine."""
        return self.machine.run(command, check=False).stdout.strip()

    def starts(self) -> list[str]:
        """Returns the invocations of both units, which change at each start."""
        return [self.says(STARTED.format(unit)) for unit in UNITS]

    def ask(self, path: str, **body: Any) -> Any:
        """Returns the gateway's answer on the machine."""
        sent = f"-H 'Content-Type: application/json' -d '{json.dumps(body)}'"
        curl = f"curl -sS -m 120 -H 'Authorization: Bearer {self.key}' {sent} http://127.0.0.1:8080{path}"
        return json.loads(self.machine.run(curl).stdout)

    @property
    def version(self) -> str:
        """Returns the version that the gateway's answers name as `system_fingerprint`."""
        return self.says(f"curl -sS -m 20 -H 'Authorization: Bearer {self.key}' http://127.0.0.1:8080/version")

    def tokens(self, **more: Any) -> int:
        """Returns the tokens of a completion through the gateway."""
        answer = self.ask("/v1/completions", model="llama-tiny", prompt="hello", max_tokens=4, **more)
        return int(answer["usage"]["completion_tokens"])

    def serves(self) -> bool:
        """Returns True if both models answer through the gateway."""
        vector = self.ask("/v1/embeddings", model="minilm", input="some text").get("data")
        return bool(vector) and self.tokens() == 4


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """Yields a machine after its first deploy; removes it before and afterwards."""
    with fresh_machines(PLACES, ["d13b"], "13") as (operator, (machine,)):
        first = operator.pyinfra(inventory=INVENTORY)
        assert first.code == 0, first.output[-4000:]
        yield Story(machine, operator, gateway.opened(machine).key, first)


def test_both_units_serve_and_a_token_comes_through_the_gateway(story: Story) -> None:
    assert [story.says(f"systemctl is-active {unit}") for unit in UNITS] == ["active", "active"]
    assert until(story.serves, 60)
    assert "rehearsal stand-in of vllm 0.26.0" in story.says("journalctl -u llm@main -o cat")


def test_a_stream_of_the_gateway_comes_from_the_program(story: Story) -> None:
    body = json.dumps({"model": "llama-tiny", "prompt": "hello", "max_tokens": 4, "stream": True})
    curl = f"curl -sSN -m 60 -H 'Authorization: Bearer {story.key}' -H 'Content-Type: application/json' -d '{body}'"
    lines = story.machine.run(f"{curl} http://127.0.0.1:8080/v1/completions").stdout.splitlines()
    assert sum(line.startswith("data: {") for line in lines) > 1 and "data: [DONE]" in lines


def test_a_second_run_changes_nothing(story: Story) -> None:
    before = story.starts()
    assert (story.deploy().changed, story.starts()) == ({}, before)


def test_the_smoke_tests_pass(story: Story) -> None:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/smoke", "--inventory", INVENTORY]
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=REPOSITORY,
        env=story.operator.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-4000:]
    assert "test_beside" not in ended.stdout or "failed" not in ended.stdout


def test_the_doctor_finds_nothing_wrong_with_the_llm(story: Story) -> None:
    doctor = story.operator.python("-m", "deploy", "doctor", INVENTORY, "--json")
    findings = json.loads(doctor.stdout)["hosts"]["d13b"]
    assert [finding for finding in findings if "llm" in json.dumps(finding)] == []


def test_no_user_of_the_host_and_no_other_machine_reaches_the_program(story: Story) -> None:
    curl = "curl -s -m 5 -o /dev/null -w '%{http_code}' http://127.0.0.1:8010/health"
    assert story.says(f"runuser -u nobody -- {curl}") == "000"
    assert story.says(curl) == "200"
    outside = subprocess.run(
        ["curl", "-s", "-m", "5", f"http://{story.machine.address}:8010/health"], capture_output=True, check=False
    )
    assert outside.returncode != 0


def test_a_killed_llm_comes_back_alone(story: Story) -> None:
    triton, llm = story.starts()
    story.machine.run("docker kill llm-main")
    assert until(lambda: story.says("systemctl is-active llm@main") == "active" and story.starts()[1] != llm, 120)
    assert story.starts()[0] == triton
    assert until(story.serves, 60)


def test_a_swap_replaces_both_and_a_rollback_brings_both_back(story: Story) -> None:
    before, first, version = story.says(RELEASE), story.starts(), story.version
    story.deploy(BATCH="4")
    assert until(lambda: story.version != version, 30)
    assert "--max-num-seqs 4" in story.says(f"cat /var/lib/enginehouse/releases/$({RELEASE})/llm/run")
    assert all(new != old for new, old in zip(story.starts(), first, strict=True))
    assert until(story.serves, 60)
    story.deploy(verb="rollback.py", BATCH="4")
    assert story.says(RELEASE) == before
    assert until(lambda: story.version == version, 30)
    assert until(story.serves, 60)


def test_a_rollback_restores_the_gateways_settings_and_the_earlier_plan_changes_nothing(
    story: Story,
) -> None:
    settings = "sha256sum < /etc/enginehouse/gateway/settings.json"
    restored = story.says(settings)
    assert (story.deploy().changed, story.says(settings)) == ({}, restored)


def test_a_promotion_below_its_threshold_changes_nothing(story: Story) -> None:
    """An 8-bit cache changes a word in five: the candidate is removed before a client has seen it."""
    before = story.says(RELEASE)
    with mock.patch.dict(os.environ, {"CACHE": "fp8"}):
        refused = story.operator.pyinfra("--data", f"promote={promotion(story)}", inventory=INVENTORY)
    assert refused.code != 0
    assert f"llama-tiny: 86.4 % of {WORDS} words equal (90.0 % wanted)" in refused.output, refused.output[-4000:]
    assert "tokens a second" in refused.output and "GPU seconds a million tokens" in refused.output
    assert story.says(RELEASE) == before and until(story.serves, 60)
    assert program(story) == "vllm"


def test_a_promotion_under_load_loses_nothing_and_its_inventory_changes_nothing(story: Story) -> None:
    plan = story.operator.python("-m", "deploy", "promote", INVENTORY, "llama-tiny", *promotion_words(story), "--json")
    expected = json.loads(plan.stdout)["plan"]["digest"]
    story.machine.run(CLIENTS.replace("KEY", story.key))
    promoted = story.deploy("--data", f"promote={promotion(story)}", "--data", f"expect={expected}")
    story.machine.run("sleep 2; touch /root/enough; while pgrep -f [a]sking-clients; do sleep 1; done")
    statuses = story.says("cat /root/statuses-*").split()
    assert set(statuses) == {"200"}, statuses
    assert f"llama-tiny: 100.0 % of {WORDS} words equal (90.0 % wanted)" in promoted.output
    assert program(story) == "trtllm-serve"
    compared = json.loads(story.says("tail -n 1 /var/lib/enginehouse/history.jsonl"))["compared"]
    assert compared["is_good"] and compared["now"]["tokens_per_second"] > 0
    assert story.deploy(RUNTIME="trtllm-serve").changed == {}


def test_one_command_reverts_a_promotion_and_the_gateways_program(story: Story) -> None:
    story.deploy(verb="rollback.py")
    assert program(story) == "vllm"
    assert until(story.serves, 60)


def program(story: Story) -> str:
    """Returns the program that serves the LLM, by its last start line."""
    lines = story.says("journalctl -u llm@main -o cat").splitlines()
    return [line for line in lines if line.startswith("rehearsal stand-in of ")][-1].split()[3]


def promotion_words(story: Story) -> tuple[str, ...]:
    """Returns the promotion in `enginehouse promote`'s form: the program, and its image in the machine's registry."""
    with mock.patch.dict(os.environ, story.operator.environment | {"RUNTIME": "trtllm-serve"}):
        ((_, data),) = runpy.run_path(INVENTORY)["rehearsal"]
    return "--to", "trtllm-serve", "--image", data["servers"][0].models[-1].image


def promotion(story: Story) -> str:
    """Returns the promotion in the form of `--data promote=`."""
    return f"llama-tiny:trtllm-serve:{promotion_words(story)[-1]}"
