"""Careless acts, each found by the responsible part of the search.

All acts run at once, under one sampler and before one search. Last, the engine is crashed, since it holds a key while
it pulls and its unit is not ours; the machine is deleted after that.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from tests.faults.scene import until
from tests.secrets.conftest import Story
from tests.secrets.forms import names_in
from tests.secrets.scene import PLACES, Scene
from tests.secrets.watch import Watch, watched

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-5")]

REGISTRY = "registry.rehearsal.internal:8443"
KEY, TOKEN = "registry key (plain)", "hub token (plain)"
# Typed into a shell of the host, which reads it from standard input, so only the processes that it starts show the key.
TYPED = """set -eu
docker login -u '$oauthtoken' -p '{key}' {registry}
systemctl start naive
docker create --name naive --env NGC_API_KEY='{key}' "$(docker images -q | head -n 1)" sh -c ': {key}'
printf %s '{token}' > /run/naive-token
docker cp /run/naive-token naive:/var/tmp/token
rm /run/naive-token
docker commit naive naive:1
"""
UNIT = """[Service]
Environment=HF_TOKEN={token}
ExecStart=/bin/sh -c 'echo with $HF_TOKEN; exec sleep 1'
RemainAfterExit=yes
"""
ENGINE_ENDED = "journalctl --unit=docker.service --output=cat --no-pager --grep='Failed with result'"
CORE = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x04\x00"


@dataclass(frozen=True)
class Careless:
    """Sampled processes during the careless acts, and the search's results afterwards."""

    watch: Watch
    host: dict[str, Any]
    control: dict[str, Any]
    output: str
    report: str

    def names_at(self, where: str) -> list[str]:
        """Returns names of the secrets found at a path or command that begins this way."""
        return sorted({name for place, name in self.host["seen"] if place.startswith(where)})


@pytest.fixture(scope="module")
def careless(scene: Scene, story: Story) -> Careless:
    """Commits every careless act."""
    key, token = scene.secrets["registry key"], scene.secrets["hub token"]
    scene.machine.put("/etc/systemd/system/naive.service", UNIT.format(token=token))
    scene.machine.put("/var/tmp/naive.gz", gzip.compress(key.encode()))
    scene.machine.put("/etc/naive-address", f"https://hub/?token={quote(token, safe='')}")
    scene.machine.put("/var/tmp/core.1", CORE + scene.secrets["signing key"].encode())
    report = PLACES.root / "smoke.xml"
    with watched(scene.looked_for, scene.machine) as watch:
        scene.machine.run("bash -s", input=TYPED.format(key=key, token=token, registry=REGISTRY))
        run = scene.operator.deploy(verb="tests/secrets/verbs/naive_login.py")
        arguments = ["tests/secrets/naive_report.py", "--showlocals", "-p", "no:cacheprovider", f"--junitxml={report}"]
        scene.operator.python("-m", "pytest", *arguments)
    return Careless(watch, scene.on_host(), scene.on_control(), run.stdout + run.stderr, report.read_text())


def test_a_key_in_an_argument_is_seen_by_the_sampler(careless: Careless) -> None:
    """The host runs `docker login -p KEY`."""
    assert ("host", "docker", "argv", KEY) in careless.watch.sights("side", "command", "where", "name")


def test_a_token_in_a_units_environment_is_seen_by_the_sampler(careless: Careless) -> None:
    assert ("host", "environment", "HF_TOKEN", TOKEN) in careless.watch.sights("side", "where", "variable", "name")


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("/root/.docker/config.json", "registry key (base64)"),
        ("/etc/systemd/system/naive.service", TOKEN),
        ("/etc/naive-address", "hub token (percent-encoded)"),
        ("/var/tmp/naive.gz", KEY),
        ("/var/lib/docker/overlay2/", TOKEN),
        ("/var/lib/docker/image/", KEY),
        ("journal", TOKEN),
        ("units", TOKEN),
        ("inspect", KEY),
        ("history", KEY),
    ],
)
def test_a_secret_left_on_the_host_is_found(careless: Careless, where: str, name: str) -> None:
    """Docker's own login file, a unit, an address in a file, a packed file, a layer, an image's settings, and more."""
    assert name in careless.names_at(where)


def test_a_core_with_a_key_is_found_and_named_as_a_core(careless: Careless) -> None:
    assert (careless.host["cores"], careless.names_at("/var/tmp/core.1")) == (
        ["/var/tmp/core.1"],
        ["signing key (plain)"],
    )


def test_a_key_in_a_command_is_found_in_pyinfras_output(scene: Scene, careless: Careless) -> None:
    assert KEY in names_in(careless.output, scene.looked_for)


def test_a_secret_that_sudo_logs_is_found_in_the_journal(careless: Careless) -> None:
    """sudo logs a command that pyinfra runs completely."""
    assert KEY in careless.names_at("journal")


def test_a_secret_kept_on_the_control_machine_is_found(careless: Careless) -> None:
    assert [str(PLACES.root / "operator.log"), KEY] in careless.control["seen"]


def test_a_key_in_a_failing_tests_variables_is_found_in_the_report(scene: Scene, careless: Careless) -> None:
    assert KEY in names_in(careless.report, scene.looked_for)


def test_a_docker_engine_that_crashes_leaves_no_core(scene: Scene, careless: Careless) -> None:
    """The engine's package allows cores of any size, but a program in Go ends with an exit status instead of a core."""
    scene.machine.run("kill -SEGV $(pidof dockerd)")
    assert until(lambda: "'exit-code'" in scene.machine.run(ENGINE_ENDED, check=False).stdout, 30)
    assert scene.on_host("/", commands={})["cores"] == ["/var/tmp/core.1"]
