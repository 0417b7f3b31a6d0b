"""A single GPU host serves OpenAI's own client from outside over HTTPS, without a second machine.

The tests share a machine with services and an ACME authority and run in pytest's order: ordered, asked with a key,
probed from outside, renewed, replaced by the operator's own certificate, and removed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rehearsal import gateway
from rehearsal.machine import Machine
from rehearsal.network import Network
from rehearsal.places import REPOSITORY, Places
from tests.faults.scene import until
from tests.rehearsal.acme import NAME, authority
from tests.rehearsal.operator import Operator, Run, fresh_machines
from tests.rehearsal.surface import answering
from tests.unit.certificates import write_certificate

pytestmark = [pytest.mark.rehearsal, pytest.mark.faults, pytest.mark.xdist_group("number-6")]

PLACES = Places(REPOSITORY / ".rehearsal" / "number-6", 6)
INVENTORY = "tests/rehearsal/inventories/https.py"
LOCK = REPOSITORY / "locks/requirements-clients.lock"
CLIENT = """
import json, socket, sys
from openai import AuthenticationError, OpenAI
name, address, key = sys.argv[1:]
plain = socket.getaddrinfo
socket.getaddrinfo = lambda host, *words, **more: plain(address if host == name else host, *words, **more)
client = OpenAI(base_url=f"https://{name}/v1", api_key=key, max_retries=0, timeout=300)
try:
    vector = client.embeddings.create(model="minilm", input="some text", encoding_format="float").data[0].embedding
except AuthenticationError as error:
    print(json.dumps({"status": error.status_code}))
    sys.exit()
messages = [{"role": "user", "content": "hello"}]
chunks = list(client.chat.completions.create(model="gpt-oss-tiny", messages=messages, max_tokens=8, stream=True))
models = sorted(model.id for model in client.models.list())
print(json.dumps({"status": 200, "vector": len(vector), "chunks": len(chunks), "models": models}))
"""
SHOWN = f"openssl s_client -connect 127.0.0.1:443 -servername {NAME} </dev/null 2>/dev/null | openssl x509 -noout"
PROCESS = "systemctl show -P MainPID -P ActiveEnterTimestampMonotonic enginehouse-https"
LEFT = (
    "ls -d /etc/enginehouse/https /etc/systemd/system/enginehouse-{https,certificate}* 2>/dev/null;"
    " systemctl list-units --all --plain --no-legend 'enginehouse-https*' 'enginehouse-certificate*'; true"
)


@dataclass
class Story:
    """The machine, its operator, the client's Python, the authority's root, and the first run."""

    machine: Machine
    operator: Operator
    python: Path
    root: Path
    first: Run
    key: str

    def deploy(self, monkeypatch: pytest.MonkeyPatch, https: str) -> Run:
        """Runs a deploy with this HTTPS word of the inventory."""
        monkeypatch.setenv("HTTPS", https)
        run = self.operator.pyinfra(inventory=INVENTORY)
        assert run.code == 0, run.output[-4000:]
        return run

    def client(self, key: str = "", root: Path | None = None) -> dict[str, Any]:
        """Returns the answers of OpenAI's client on the outer machine, which trusts only the authority."""
        command = [str(self.python), "-c", CLIENT, NAME, self.machine.address, key or self.key]
        ended = subprocess.run(
            command, env={"SSL_CERT_FILE": str(root or self.root)}, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr[-2000:]
        answers: dict[str, Any] = json.loads(ended.stdout)
        return answers

    def shown(self, what: str) -> str:
        """Returns a property of the certificate that the machine shows."""
        return self.machine.run(f"{SHOWN} -{what}").stdout.strip()

    def renew(self) -> None:
        """Starts the timer's unit."""
        started = "systemctl start enginehouse-certificate.service"
        journal = "journalctl -u enginehouse-certificate -n 40 -o cat"
        ended = self.machine.run(f"{started} || {{ {journal}; ls -lR /etc/enginehouse/https; false; }}", check=False)
        assert ended.returncode == 0, ended.stdout

    def open_ports(self) -> list[int]:
        """Returns ports that answer from outside, among the machine's listening ports and a few more."""
        listening = self.machine.run("ss -Hltn | awk '{ print $4 }'").stdout.split()
        ports = {int(place.rpartition(":")[2]) for place in listening} | {80, 8000, 8001, 8002, 8080, 2375, 10250}
        return answering(self.machine.address, sorted(ports), Network(PLACES.number).bridge_address)


def openai_python(folder: Path) -> Path:
    """Returns the Python of an environment with the locked version of OpenAI's client."""
    python = folder / "bin/python"
    (pin,) = [line.split()[0] for line in LOCK.read_text().splitlines() if line.startswith("openai==")]
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", pin]
    subprocess.run(install, check=True)
    return python


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """Yields a machine after its first deploy; removes it before and afterwards."""
    services = PLACES.root / "services"
    with fresh_machines(PLACES, ["d12s"], "12") as (operator, (machine,)):
        address = Network(PLACES.number).bridge_address
        with authority(PLACES.root / "acme", services, address, machine.address) as root:
            first = operator.pyinfra(inventory=INVENTORY)
            assert first.code == 0, first.output[-4000:]
            key = gateway.opened(machine).key
            yield Story(machine, operator, openai_python(PLACES.root / "clients"), root, first, key)


def test_openai_s_client_is_served_over_https_from_outside(story: Story) -> None:
    assert until(lambda: story.client()["status"] == 200, 60)
    answers = story.client()
    assert (answers["vector"], answers["models"]) == (384, ["gpt-oss-tiny", "minilm"]) and answers["chunks"] > 1


def test_a_request_with_an_unknown_key_is_refused(story: Story) -> None:
    assert story.client("eh-unknown") == {"status": 401}


def test_only_ssh_and_https_answer_from_outside(story: Story) -> None:
    assert story.open_ports() == [22, 443]


def test_clients_trust_the_certificate_by_the_authority_s_root_alone(story: Story) -> None:
    stranger = write_certificate(PLACES.root, "stranger")
    with pytest.raises(AssertionError, match="Connection error"):
        story.client(root=stranger)


def test_a_second_run_changes_nothing_and_orders_nothing(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    before = story.shown("serial")
    assert story.deploy(monkeypatch, "acme").changed == {}
    assert story.shown("serial") == before


def test_the_timers_unit_renews_due_certificates_and_haproxy_keeps_serving(story: Story) -> None:
    """The running HAProxy shows certbot's answer after a reload, without a restart."""
    before, process = story.shown("serial"), story.machine.run(PROCESS).stdout
    assert story.machine.run("systemctl is-active enginehouse-certificate.timer").stdout.strip() == "active"
    story.renew()
    assert until(lambda: story.shown("serial") != before, 60)
    assert story.machine.run(PROCESS).stdout == process
    assert story.client()["status"] == 200
    assert story.open_ports() == [22, 443], "nothing answers at the challenge's port between orders"


def test_a_renewal_that_fails_leaves_the_certificate_and_the_doctor_says_so(story: Story) -> None:
    before = story.shown("serial")
    story.machine.run("nft insert rule inet enginehouse arriving tcp dport 80 drop")
    try:
        assert story.machine.run("systemctl start enginehouse-certificate.service", check=False).returncode != 0
    finally:
        story.machine.run("systemctl restart enginehouse-firewall.service")
    doctor = story.operator.python("-m", "deploy", "doctor", INVENTORY, "--json")
    assert "enginehouse-certificate.service failed" in doctor.stdout
    assert story.shown("serial") == before and story.client()["status"] == 200
    story.renew()


def test_a_certificate_of_the_operator_s_takes_the_order_s_place(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    own = write_certificate(PLACES.root, "own", names=(NAME,))
    story.deploy(monkeypatch, "file")
    assert story.client(root=own)["status"] == 200
    assert story.machine.run("ls /etc/enginehouse/https").stdout.count("acme") == 0
    assert story.machine.run("stat -c %a /etc/enginehouse/https/tls-*.key").stdout.strip() == "600"
    assert "dport 80" not in story.machine.run("nft list table inet enginehouse").stdout
    assert story.deploy(monkeypatch, "file").changed == {}


def test_https_that_leaves_the_inventory_leaves_nothing_behind(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.deploy(monkeypatch, "none")
    assert story.machine.run(LEFT).stdout == ""
    assert 443 not in story.open_ports()
