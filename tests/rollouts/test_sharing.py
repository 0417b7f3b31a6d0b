"""Two machines share models and image: the bare second one gets them from the first. Six minutes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rehearsal import machines, services
from rehearsal.faults.registries import RegistryDown
from rehearsal.machine import Machine
from rehearsal.places import Places, RehearsalRefused
from rehearsal.pyinfra_run import Run, pyinfra
from tests.rehearsal import intruder

INVENTORY, NUMBER = "tests/rollouts/inventories/shared.py", "8"
SHARED, PRIVATE = ("minilm", "nomic-moe"), "gpt-oss-tiny"
WEIGHTS, SHARING = "/var/lib/enginehouse/weights", "/var/lib/enginehouse/sharing"
SUMS = (
    "cd /var/lib/enginehouse/weights && for each in */*/; do (cd $each && sha256sum -c --quiet manifest.sha256); done"
)
EVER = "systemctl show -P ExecMainStartTimestampMonotonic enginehouse-{}@{}.service"


@dataclass
class Pair:
    """Both machines, and the run that deployed the second one."""

    first: Machine
    second: Machine
    run: Run


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Deploys to only the first machine, then to both, without the registry that has the image."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", NUMBER)
        places = Places.here()
        machines.down(places)
        try:
            (first,) = machines.up(["h1"], places=places)
            services.services_up()
            with pytest.MonkeyPatch.context() as alone:
                alone.setenv("SHARING_ALONE", "1")
                _went_well(pyinfra(INVENTORY, "deploy.py", "-y", print_steps=False))
            (second,) = machines.up(["h2"], places=places)
            RegistryDown().apply(second)
            yield Pair(first, second, _went_well(pyinfra(INVENTORY, "deploy.py", "-y", print_steps=False)))
        except RehearsalRefused as refused:
            pytest.skip(str(refused))
        finally:
            if not os.environ.get("ENGINEHOUSE_ROLLOUTS_KEEP"):
                machines.down(places)
                services.services_down()


def _went_well(run: Run) -> Run:
    assert run.code == 0, run.output[-6000:]
    return run


def _journal(machine: Machine, unit: str) -> str:
    """Returns a unit's whole journal; empty if it was never started."""
    return machine.run(f"journalctl -q -o cat -u enginehouse-{unit}.service").stdout


def test_the_second_host_got_every_public_model_from_the_first(pair: Pair) -> None:
    for model in SHARED:
        journal = _journal(pair.second, f"share@{model}")
        assert "came from peers, and is shared with 1 hosts" in journal and " 0.0 MiB came" not in journal, journal
    assert _journal(pair.second, "weights@minilm") == ""


def test_the_private_model_came_from_the_hub_itself(pair: Pair) -> None:
    assert "Finished" in _journal(pair.second, f"weights@{PRIVATE}")
    assert _journal(pair.first, f"share@{PRIVATE}") == _journal(pair.second, f"share@{PRIVATE}") == ""


def test_the_image_came_from_the_first_host_and_runs_by_its_digest(pair: Pair) -> None:
    """The registry was stopped before. Docker has the pinned digest, and Triton runs it."""
    digest = services.read_services().image_digest
    journal = _journal(pair.second, f"share@image-{digest[7:19]}")
    assert "came from peers, and is shared with 1 hosts" in journal and " 0.0 MiB came" not in journal, journal
    for machine in (pair.first, pair.second):
        runs = machine.run("docker inspect -f '{{.Config.Image}}' triton-main").stdout.strip()
        assert (runs.startswith("127.0.0.1:7399/"), runs.endswith(f"@{digest}")) == (True, True), runs
        assert runs in machine.run(f"docker image inspect -f '{{{{.RepoDigests}}}}' {runs}").stdout
        assert machine.run("ss -Hltn 'sport = :7399'").stdout == ""


def test_the_image_s_blobs_are_the_registry_s_byte_for_byte(pair: Pair) -> None:
    """Each file's name is its sha256, and the file with the pinned digest names all other files."""
    digest = services.read_services().image_digest.removeprefix("sha256:")
    blobs = f"cd /var/lib/enginehouse/blobs/{digest} && sha256sum -c --quiet manifest.sha256 && cat manifest.sha256"
    sums = pair.second.run(blobs).stdout
    assert sums == pair.first.run(blobs).stdout and f"{digest}  {digest}\n" in sums
    assert all(line[:64] == line[66:] for line in sums.splitlines())


def test_received_files_match_the_manifests(pair: Pair) -> None:
    assert pair.second.run(SUMS).stdout == ""
    names = "cd /var/lib/enginehouse/weights && find . -type f -not -name '.*' | sort"
    assert pair.second.run(names).stdout == pair.first.run(names).stdout


def test_an_attacker_in_the_sharing_program_reaches_one_folder_and_no_secret(pair: Pair) -> None:
    """The program parses other hosts' requests. It may read only public files: published models, blobs, and its own
    settings."""
    unit, folder, other_folder = "enginehouse-share@minilm.service", f"{SHARING}/minilm", f"{SHARING}/other"
    owner = "-o enginehouse-share -g enginehouse-share"
    pair.second.run(
        f"install -d -m 0700 {owner} {folder} {other_folder} && install -m 0600 {owner} /dev/null {other_folder}/half"
    )
    try:
        done = intruder.in_unit(pair.second, unit, folder, other_folder, f"{WEIGHTS}/minilm", f"{WEIGHTS}/nomic-moe")
    finally:
        pair.second.run(f"rm -rf {folder} {other_folder}")
    assert [path for path in done.reads if not path.startswith(f"{WEIGHTS}/minilm/")] == []
    assert (done.writes, done.connects, done.becomes) == ([folder], [], [])


def test_received_files_belong_to_root_without_leftovers(pair: Pair) -> None:
    owners = pair.second.run(f"find {WEIGHTS} /var/lib/enginehouse/blobs -printf '%u %y %m\\n' | sort -u").stdout
    assert set(owners.split("\n")) <= {"root d 755", "root f 644", ""}
    assert pair.second.run(f"find {SHARING} -mindepth 1").stdout == ""


def test_both_serve_and_a_second_run_has_nothing_to_do(pair: Pair) -> None:
    assert "active" in pair.second.run("systemctl is-active triton@main").stdout
    run = pyinfra(INVENTORY, "deploy.py", "-y", print_steps=False)
    assert run.is_silent, run.output[-4000:]


def test_only_the_other_host_comes_to_the_ports(pair: Pair) -> None:
    """In nft's JSON, the only chain for peers has the other machine's address."""
    chain = json.loads(pair.first.run("nft -j list chain inet enginehouse peers").stdout)
    text = json.dumps(chain)
    assert pair.second.address in text and pair.first.address not in text


def test_sharing_ends_once_every_host_is_complete(pair: Pair) -> None:
    for machine in (pair.first, pair.second):
        assert machine.run("systemctl list-units --plain --no-legend 'enginehouse-share@*' --state=active").stdout == ""
