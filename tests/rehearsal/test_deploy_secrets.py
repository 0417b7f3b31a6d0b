"""After all runs, including the most verbose, no key or token is on a machine or was ever shown.

The tests search for every form of `tests.secrets.forms`. `grep` gets the patterns on standard input, so that the search
writes them nowhere. `tests/secrets` searches further and during a run; these tests run in every `make test`.
"""

from __future__ import annotations

import base64

import pytest

from rehearsal.machine import Machine
from rehearsal.services import Services
from tests.rehearsal.conftest import Pair
from tests.rehearsal.operator import Operator, Run
from tests.secrets.forms import forms

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("number-4")]

PLACES_TO_LOOK = "/etc /var /run /root /home /tmp /opt /usr/local"
# Files, then what is stored compressed or only in memory: the journal, every container and image as Docker tells it.
FILES = f"grep -rlaF -f - -D skip {PLACES_TO_LOOK} 2>/dev/null; true"
JOURNAL = (
    "cat > /dev/shm/patterns; journalctl --all --output=export | grep -caF -f /dev/shm/patterns; rm /dev/shm/patterns"
)
INSPECTED = (
    "cat > /dev/shm/patterns; docker inspect $(docker ps -aq) $(docker images -q) | grep -cF -f /dev/shm/patterns;"
    " cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -caF -f /dev/shm/patterns; rm /dev/shm/patterns"
)


def patterns(services: Services) -> list[str]:
    """Returns every form of both secrets."""
    return [*forms({"registry key": services.ngc_key, "hub token": services.hub_token})]


def matches(machine: Machine, texts: list[str], command: str) -> list[str]:
    """Returns output lines of a search that gets `texts` on standard input."""
    return machine.run(command, input="\n".join(texts) + "\n", check=False).stdout.splitlines()


def test_no_file_holds_the_registry_key_or_the_hub_token(deployed: Pair) -> None:
    assert [matches(machine, patterns(deployed.services), FILES) for machine in deployed.both] == [[], []]


def test_a_key_in_a_file_would_have_been_found(deployed: Pair) -> None:
    deployed.d12.put("/var/tmp/planted", f"password={deployed.services.ngc_key}\n", 0o600)
    deployed.d12.put("/etc/planted", base64.b64encode(f"?{deployed.services.hub_token}".encode()), 0o600)
    seen = matches(deployed.d12, patterns(deployed.services), FILES)
    deployed.d12.run("rm /var/tmp/planted /etc/planted")
    assert sorted(seen) == ["/etc/planted", "/var/tmp/planted"]


def test_the_journal_knows_neither(deployed: Pair) -> None:
    assert [matches(machine, patterns(deployed.services), JOURNAL) for machine in deployed.both] == [["0"], ["0"]]


def test_a_key_in_the_journal_would_have_been_found(deployed: Pair) -> None:
    deployed.d12.run("systemd-cat; journalctl --sync", input=f"login {deployed.services.ngc_key}\n")
    assert matches(deployed.d12, patterns(deployed.services), JOURNAL) == ["1"]


def test_neither_docker_nor_any_process_shows_a_secret(deployed: Pair) -> None:
    assert [matches(machine, patterns(deployed.services), INSPECTED) for machine in deployed.both] == [
        ["0", "0"],
        ["0", "0"],
    ]


def test_the_secret_search_reads_docker_and_every_process(deployed: Pair) -> None:
    assert "0" not in matches(deployed.d12, ["triton-main"], INSPECTED)


def test_pyinfra_never_prints_a_secret(operator: Operator, deployed: Pair, first: Run) -> None:
    heard = "".join(operator.heard)
    assert "enginehouse-pull@" in first.output and first.output in heard
    assert [pattern for pattern in patterns(deployed.services) if pattern in heard] == []
