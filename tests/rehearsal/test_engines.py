"""Engines on machines: built once, despite a killed run and a power cut; judged, signed, copied; refused if changed.

The tests run in this order: a run killed during the first build, the next one for three machines, and later failures
while the last good release continues to serve.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from rehearsal import requirements
from tests.rehearsal.engine_fleet import (
    ENGINES,
    PLACES,
    Fleet,
    answers,
    build_unit,
    builds,
    current,
    engines,
    fleet,
    is_building,
    kill,
    restarted,
    serves,
    until,
)
from tests.rehearsal.operator import Run

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("number-5")]

SLOW, GREEDY, ODD = "llama-slow", "llama-greedy", "llama-odd"
SUMS = f"cd {ENGINES}/*/ && sha256sum engine.json engine.json.sig rank0.engine"


@dataclass
class Cut:
    """The state of the build when its run was killed, and directly after."""

    before: dict[str, str]
    after: dict[str, str]
    when: str
    """A time in the form of engine.json."""


@pytest.fixture(scope="module")
def machines() -> Iterator[Fleet]:
    """Yields three machines that serve an embedder."""
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    with fleet() as made:
        made.checkpoint(SLOW, rehearsal_build_seconds=15)
        made.checkpoint(GREEDY, rehearsal_build_mib=200_000)
        made.checkpoint(ODD, rehearsal_build_seconds=1, rehearsal_engine_drift=3)
        yield made


@pytest.fixture(scope="module")
def cut(machines: Fleet) -> Cut:
    """Kills the control process while e1 builds."""
    begun = machines.begin("--limit", "e1", ENGINE_WEIGHTS=SLOW)
    until(lambda: is_building(machines.e1) or begun.poll() is not None)
    before = build_unit(machines.e1)
    kill(begun)
    return Cut(before, build_unit(machines.e1), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


@pytest.fixture(scope="module")
def first(machines: Fleet, cut: Cut) -> Run:
    """The deploy after the killed one, on all three machines."""
    run = machines.deploy(ENGINE_WEIGHTS=SLOW)
    assert run.code == 0, run.output[-4000:]
    return run


def test_a_killed_run_leaves_the_build_going(cut: Cut) -> None:
    assert (cut.before["ActiveState"], cut.after["ActiveState"]) == ("activating", "activating")
    assert cut.before["InvocationID"] == cut.after["InvocationID"]


def test_the_next_run_attaches_to_the_same_build(machines: Fleet, cut: Cut, first: Run) -> None:
    record = json.loads(machines.e1.run(f"cat {ENGINES}/*/engine.json").stdout)
    assert record["built"]["began"] < cut.when < record["built"]["ended"]
    assert builds(machines.e1) == 1


def test_machines_of_one_class_share_a_build_and_another_class_builds(machines: Fleet, first: Run) -> None:
    assert [builds(machine) for machine in machines.all] == [1, 0, 1]
    assert first.told_of("Engines | Fetch") == ["e2"]


def test_both_of_one_class_have_the_same_signed_copy(machines: Fleet, first: Run) -> None:
    signed, copied, of_other_class = (machine.run(SUMS).stdout for machine in machines.all)
    assert signed == copied
    assert set(signed.split()).isdisjoint(
        set(of_other_class.split()) - {"engine.json", "engine.json.sig", "rank0.engine"}
    )


def test_every_machine_answers_through_its_engine(machines: Fleet, first: Run) -> None:
    assert all(answers(machine) for machine in machines.all)


def test_no_machine_has_the_private_key(machines: Fleet, first: Run) -> None:
    secret = (PLACES.root / "secrets/engine_key").read_text().splitlines()[2]
    search = f"grep -rlF -- '{secret}' /etc /home /root /run /tmp /usr/local /var/lib/enginehouse /var/log; true"
    assert [machine.run(search).stdout for machine in machines.all] == ["", "", ""]


def test_a_second_run_changes_nothing_and_a_dry_one_announces_nothing(machines: Fleet, first: Run) -> None:
    again = machines.deploy(ENGINE_WEIGHTS=SLOW)
    dry = machines.deploy("--dry", ENGINE_WEIGHTS=SLOW)
    assert (again.code, again.changed, dry.announced) == (0, {}, {})


def test_the_plan_lists_built_engines_and_reasons_for_rebuilds(machines: Fleet, first: Run) -> None:
    assert "known: built " in machines.plan(ENGINE_WEIGHTS=SLOW)
    assert "rebuild: max_batch_size 8 → 16" in machines.plan(ENGINE_WEIGHTS=SLOW, ENGINE_BATCH="16")


@pytest.fixture(scope="module")
def dark(machines: Fleet, first: Run) -> list[str]:
    """Returns engines on e1 after a power cut during the build of another engine."""
    begun = machines.begin("--limit", "e1", ENGINE_BATCH="16")
    until(lambda: is_building(machines.e1) or begun.poll() is not None)
    machines.e1.power_cycle()
    kill(begun)
    return engines(machines.e1)


def test_a_power_cut_leaves_no_half_engine(machines: Fleet, dark: list[str]) -> None:
    assert [len(dark), sum(name.endswith(".staging") for name in dark)] == [2, 1]


def test_the_run_after_it_builds_from_the_start_and_serves(machines: Fleet, dark: list[str]) -> None:
    run = machines.deploy("--limit", "e1", ENGINE_BATCH="16")
    assert run.code == 0, run.output[-4000:]
    assert (serves(machines.e1), any("staging" in name for name in engines(machines.e1))) == (True, False)


@pytest.fixture(scope="module")
def out_of_memory(machines: Fleet, dark: list[str]) -> tuple[list[str], Run]:
    """Returns the releases of e1 and e2, and a run whose build needs more memory than any GPU has."""
    before = [current(machine) for machine in (machines.e1, machines.e2)]
    return before, machines.deploy("--limit", "e1", "--limit", "e2", ENGINE_WEIGHTS=GREEDY)


def test_a_build_that_runs_out_of_memory_names_cause_and_remedy(out_of_memory: tuple[list[str], Run]) -> None:
    run = out_of_memory[1]
    assert run.code == 1
    assert "was not built: quantize ended with 1" in run.output  # the first step that holds the whole model
    assert "memory" in run.output.split("cause")[1].splitlines()[0]
    assert "  try    " in run.output


def test_a_host_waiting_for_a_failed_build_names_the_builder(out_of_memory: tuple[list[str], Run]) -> None:
    assert "was to come from e1, which did not finish it" in out_of_memory[1].output


def test_the_last_release_keeps_serving_meanwhile(machines: Fleet, out_of_memory: tuple[list[str], Run]) -> None:
    pair = (machines.e1, machines.e2)
    assert [current(machine) for machine in pair] == out_of_memory[0]
    assert all(answers(machine) for machine in pair)


def test_an_engine_with_different_answers_is_not_swapped_in_but_shown(machines: Fleet) -> None:
    before = current(machines.e1)
    run = machines.deploy("--limit", "e1", ENGINE_WEIGHTS=ODD)
    assert run.code == 1
    assert "does not answer as it should" in run.output
    assert "differs first" in run.output and "  wanted 1" in run.output and "  given 1" in run.output
    assert (current(machines.e1), serves(machines.e1)) == (before, True)


def test_a_flipped_byte_is_refused_at_load_and_replaced_by_deploying(machines: Fleet) -> None:
    good = machines.e2.run(SUMS).stdout
    flip = f"f=$(echo {ENGINES}/*/rank0.engine); printf X | dd of=$f bs=1 seek=$(($(stat -c %s $f) - 9)) conv=notrunc"
    machines.e2.run(flip)
    assert "rank0.engine has the right size, but its content differs from the signed content" in restarted(machines.e2)
    assert (serves(machines.e2), [name[-8:] for name in engines(machines.e2)]) == (False, [".refused"])
    assert machines.deploy("--limit", "e2", ENGINE_WEIGHTS=SLOW).code == 0
    assert (machines.e2.run(SUMS).stdout, serves(machines.e2), builds(machines.e2)) == (good, True, 0)


def test_an_engine_signed_by_another_hand_is_refused_and_built_anew(machines: Fleet) -> None:
    foreign = PLACES.root / "foreign"
    for left in (foreign, PLACES.root / "engine.json.sig"):
        left.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(foreign)], check=True)
    record = machines.e3.run(f"cat {ENGINES}/*/engine.json").stdout
    (PLACES.root / "engine.json").write_text(record)
    words = ["ssh-keygen", "-q", "-Y", "sign", "-n", "enginehouse-engine", "-f", str(foreign)]
    subprocess.run([*words, str(PLACES.root / "engine.json")], check=True)
    place = f"{ENGINES}/{json.loads(record)['fingerprint']}"
    machines.e3.put(f"{place}/engine.json.sig", (PLACES.root / "engine.json.sig").read_bytes())
    assert "it is signed with a key that is not in /etc/enginehouse/engine_signers" in restarted(machines.e3)
    assert machines.deploy("--limit", "e3", ENGINE_WEIGHTS=SLOW).code == 0
    assert (serves(machines.e3), builds(machines.e3)) == (True, 2)


def test_an_engine_without_a_signature_is_refused_until_it_is_judged_and_signed(machines: Fleet) -> None:
    machines.e3.run(f"rm {ENGINES}/*/engine.json.sig")
    assert "engine.json.sig is missing: nobody has signed this engine" in restarted(machines.e3)
    assert not serves(machines.e3)
    assert machines.deploy("--limit", "e3", ENGINE_WEIGHTS=SLOW).code == 0
    assert (serves(machines.e3), builds(machines.e3)) == (True, 2)
