"""Machines with Debian's own cloud-init deploy themselves at their first boot, without a login.

Three machines boot concurrently: the user-data as exported on Debian 12, the largest that a cloud
takes on Debian 13, and an archive that is not where the user-data says.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from deploy.reports.cloud_init import LIMIT
from rehearsal import machines, requirements
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places
from tests.faults.scene import answers, until
from tests.rehearsal.first_boot import Cloud, cloud, wait_until_ended

pytestmark = [pytest.mark.rehearsal, pytest.mark.faults, pytest.mark.xdist_group("number-16")]

PLACES = Places(REPOSITORY / ".rehearsal" / "number-16", 16)
MINUTES = 15
LOGINS = "journalctl -q -u ssh -o cat | grep -c Accepted; true"
PLACES_OF_SECRETS = (
    "/etc/enginehouse-first-boot /run/enginehouse-first-boot* /var/lib/cloud /var/lib/enginehouse-first-boot"
)
SECRETS = (
    f"grep -rlsaE 'nvapi-rehearsal-|hf_rehearsal' {PLACES_OF_SECRETS} /var/log /run/log;"
    " journalctl -q -o cat | grep -cE 'nvapi-rehearsal-|hf_rehearsal'; true"
)


@dataclass
class Story:
    """The machines, and the user-data of each."""

    cloud: Cloud
    plain: Machine
    padded: Machine
    broken: Machine
    user_data: dict[str, str]

    def doctor(self, machine: Machine) -> dict[str, str]:
        """Returns the evidence of each `enginehouse doctor` finding on a machine, by id."""
        self.cloud.learn_host_key(machine)
        words = ["doctor", "inventories/self_made.py", "--json", "--no-drift", "--limit", machine.name]
        report = json.loads(self.cloud.typed(*words, check=False).stdout)
        return {finding["id"]: finding["evidence"] for finding in report["hosts"][machine.name]}


def padding(size: int) -> str:
    """Returns an incompressible comment of that many bytes."""
    return f"# {base64.b64encode(random.Random(16_384).randbytes(size)).decode()}"[: size - 1] + "\n"


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """Yields the three machines, started concurrently."""
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", str(PLACES.number))
        with cloud(PLACES) as provider:
            made = [provider.make_machine(*row) for row in (("plain", "12"), ("padded", "13"), ("broken", "12"))]
            plain, padded, broken = made
            machines.write_ssh_config(PLACES)
            digest = provider.publish(made)
            user_data = {machine.name: provider.user_data(machine, digest) for machine in (plain, padded)}
            user_data["padded"] += padding(LIMIT - 1 - len(user_data["padded"].encode()))
            user_data["broken"] = provider.user_data(broken, digest, archive="moved-away.tar.gz")
            for machine in made:
                provider.boot(machine, user_data[machine.name])
            yield Story(provider, plain, padded, broken, user_data)


@pytest.mark.parametrize("name", ["plain", "padded"])
def test_a_machine_serves_without_a_login(story: Story, name: str) -> None:
    """The deploy continues after its driver's reboot; the largest user-data is one byte below the limit."""
    machine: Machine = getattr(story, name)
    ended = wait_until_ended(machine, MINUTES * 60)
    assert (ended["state"], ended["exit"]) == ("serving", 0), machine.run("journalctl -u enginehouse-first-boot").stdout
    assert until(lambda: answers(machine), 60)
    assert machine.run(LOGINS).stdout.strip() == "0"
    assert len(story.user_data["padded"].encode()) == LIMIT - 1


@pytest.mark.parametrize("name", ["plain", "padded"])
def test_cloud_init_itself_reports_no_error(story: Story, name: str) -> None:
    machine: Machine = getattr(story, name)
    wait_until_ended(machine, MINUTES * 60)
    status = machine.run("cloud-init status --wait --long", check=False)
    assert (status.returncode, "status: done" in status.stdout) == (0, True), status.stdout


@pytest.mark.parametrize("name", ["plain", "padded"])
def test_no_secret_stays_in_what_cloud_init_and_the_first_boot_write(story: Story, name: str) -> None:
    """The command lists files with a secret, and then counts such lines of the journal; neither prints the secret."""
    machine: Machine = getattr(story, name)
    assert machine.run(SECRETS).stdout.split() == ["0"]


def test_upgrades_by_timer_are_let_go_once_it_serves(story: Story) -> None:
    wait_until_ended(story.plain, MINUTES * 60)
    assert story.plain.run("systemctl is-active apt-daily.timer apt-daily-upgrade.timer").stdout.split() == [
        "active",
        "active",
    ]


def test_the_doctor_takes_a_machine_that_deployed_itself_for_a_deployed_one(story: Story) -> None:
    unwanted = {"first-boot-failed", "first-boot-running", "nothing-deployed", "release-differs", "unit-failed"}
    assert set(story.doctor(story.plain)) & unwanted == set()


def test_another_boot_does_not_deploy_again(story: Story) -> None:
    story.plain.reboot()
    assert until(lambda: answers(story.plain), 300)
    began = story.plain.run("systemctl show -P ConditionResult -P ActiveState enginehouse-first-boot").stdout.split()
    assert began == ["no", "inactive"] or began == ["inactive", "no"]


def test_a_missing_archive_ends_in_a_step_that_the_doctor_names(story: Story) -> None:
    """Only tools are installed by then."""
    ended = wait_until_ended(story.broken, MINUTES * 60)
    assert (ended["state"], ended["step"], ended["exit"]) == ("failed", "fetch the archive", 22)
    findings = story.doctor(story.broken)
    assert "in the step 'fetch the archive' with exit code 22" in findings["first-boot-failed"]
    assert {"first-boot-failed", "nothing-deployed"} <= set(findings)
