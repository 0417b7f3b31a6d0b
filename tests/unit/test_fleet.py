"""Reading an inventory: pyinfra's own loader, its precedence, and problems of many hosts reported once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deploy.inventory.fleet import Fleet
from deploy.io.inventory import load_inventory, override_data
from deploy.refusals.errors import Refusal, Refusals
from deploy.spec import Driver, Host, Rollout
from tests.unit.samples import AROUND, plan, refusals, sources

INVENTORY = str(Path(__file__).parents[2] / "inventories" / "h100.py")


def read(text: str, directory: Path, *data: str) -> Fleet:
    """The fleet of an inventory file with this text."""
    file = directory / "inventory.py"
    file.write_text(text)
    return Fleet.of(load_inventory(str(file), override_data(data)))


GOOD = """
from deploy.spec import LLM, Machine, Server, Weights
_llm = LLM(name="gpt", checkpoint="gpt-oss-20b", weights=Weights.hub("openai/gpt-oss-20b", "0" * 40))
all = (["a", "b"], {
    "machine": Machine(os="ubuntu-24.04", gpu="h100-80"),
    "servers": (Server(name="main", models=(_llm,)),),
    "release": "26.02",
})
group = (["a"], {"release": "26.07"})
"""


def test_a_group_wins_over_all(tmp_path: Path) -> None:
    """pyinfra's precedence, as pyinfra computes it."""
    assert [host.release for host in read(GOOD, tmp_path).hosts] == ["26.07", "26.02"]


@pytest.mark.parametrize(("typed", "release"), [("25.10", "25.10"), ("26.07", "26.07"), ("25.04", "25.04")])
def test_the_command_line_wins_and_its_release_stays_a_name(tmp_path: Path, typed: str, release: str) -> None:
    """pyinfra reads `--data release=25.10` as the number 25.1."""
    assert {host.release for host in read(GOOD, tmp_path, f"release={typed}").hosts} == {release}


def test_groups_are_kept(tmp_path: Path) -> None:
    """Roles may use the groups."""
    assert "group" in read(GOOD, tmp_path).hosts[0].groups


def test_hosts_are_sorted_by_name() -> None:
    """pyinfra's order is the inventory's; the plan's is not."""
    assert [host.name for host in Fleet.of(sources("b", "c", "a")).hosts] == ["a", "b", "c"]


def test_keys_of_pyinfra_and_of_own_roles_are_let_through() -> None:
    """Connection settings, global arguments, role settings, and names that start with `own_`."""
    assert refusals(ssh_user="ubuntu", _sudo=True, triton_settings={}, own_rack="r7") == []


def test_a_rollout_is_read() -> None:
    """A rollout belongs to the fleet, not to a host."""
    assert Fleet.of(sources("a", "b", rollout=Rollout(canary_hosts=2))).rollout == Rollout(canary_hosts=2)


def test_two_rollouts_are_refused() -> None:
    """A run has a single rollout."""
    inventory = [*sources("a", rollout=Rollout()), *sources("b", rollout=Rollout(wave_percent=50))]
    assert [problem.kind for problem in refusals(*inventory)] == ["two-rollouts"]


def test_forty_hosts_with_one_mistake_make_one_problem() -> None:
    """The message has the number of hosts."""
    inventory = sources(*(f"h100-{number:02}" for number in range(1, 41)), driver=Driver(branch="535"))
    places = [problem.facts["where"] for problem in refusals(*inventory) if problem.kind == "ended-driver-branch"]
    assert places == ["h100-01 and 39 more: driver.branch"]


def test_all_problems_come_in_one_report() -> None:
    """The report has all problems at once: wrong machine, wrong driver, unknown key."""
    with pytest.raises(Refusals) as refused:
        plan(machine={}, relase="26.07")
    assert {problem.kind for problem in refused.value.problems} == {"wrong-type", "unknown-key"}


def test_a_host_that_cannot_be_read_does_not_hide_the_others() -> None:
    """The unreadable and the readable host are both judged."""
    inventory = [*sources("a", machine={}), *sources("b", driver=Driver(branch="610"))]
    assert {problem.kind for problem in refusals(*inventory)} == {"wrong-type", "ended-driver-branch"}


def test_one_machine_under_two_names_is_refused() -> None:
    """Two plans would work on the same machine at the same time."""
    inventory = [*sources("a", ssh_hostname="203.0.113.7"), *sources("203.0.113.7")]
    assert [str(problem) for problem in refusals(*inventory)] == [
        "203.0.113.7 and a are one machine: both are reached at 203.0.113.7, port 22\n"
        "  where   ssh_hostname\n"
        "  seen    203.0.113.7, port 22, under two names\n"
        "  wanted  one name for one machine\n"
        "  try     take 203.0.113.7 or a out, or correct its ssh_hostname or ssh_port\n"
        "  state   planning; no host was changed"
    ]


@pytest.mark.parametrize("route", [{"ssh_port": 2222}, {"ssh_config_file": "behind-the-other-jump-host"}])
def test_one_address_may_lead_to_two_machines(route: dict[str, Any]) -> None:
    """The machines differ by port, or by jump host."""
    inventory = [*sources("a", ssh_hostname="10.0.0.7"), *sources("b", ssh_hostname="10.0.0.7", **route)]
    assert refusals(*inventory) == []


def test_an_empty_inventory_is_refused() -> None:
    """An empty inventory is not planned as an empty fleet."""
    from deploy.validation.all_checks import judge

    assert [problem.kind for problem in judge(Fleet.of([]), AROUND)] == ["no-hosts"]


def test_a_misspelt_setting_in_the_file_is_offered_the_nearest(tmp_path: Path) -> None:
    """Python's own TypeError would be a traceback."""
    with pytest.raises(Refusal) as refused:
        read(GOOD.replace('gpu="h100-80"', 'gpuu="h100-80"'), tmp_path)
    assert (refused.value.kind, refused.value.attempt[:19]) == ("unknown-setting", "did you mean `gpu`?")


def test_other_mistakes_in_the_file_keep_pythons_words(tmp_path: Path) -> None:
    """An example is a missing name."""
    with pytest.raises(Refusal) as refused:
        read("hosts = [nowhere]", tmp_path)
    assert (refused.value.kind, refused.value.facts["seen"]) == ("inventory-error", "name 'nowhere' is not defined")


def test_a_missing_file_is_refused() -> None:
    """pyinfra would take the file's name for a host."""
    with pytest.raises(Refusal) as refused:
        load_inventory("inventories/nowhere.py", {})
    assert refused.value.kind == "no-inventory"


def test_every_spec_field_of_a_host_is_a_data_key() -> None:
    """Inventories can set every field of the spec."""
    assert set(Host.__dataclass_fields__) - {"name", "groups"} == {
        "bundle",
        "connected",
        "machine",
        "servers",
        "release",
        "proxy",
        "image_digest",
        "driver",
        "docker",
        "engine_store",
        "engine_trust",
        "farm",
        "firewall",
        "pool",
        "peer_address",
        "sharing",
        "traffic",
        "gateway",
        "toolkit",
        "registry",
        "hub",
        "mirrors",
    }


def test_the_shipped_inventory_has_no_problem() -> None:
    """README tells people to copy this inventory."""
    from deploy.validation.all_checks import judge

    assert judge(Fleet.of(load_inventory(INVENTORY, {})), AROUND) == []
