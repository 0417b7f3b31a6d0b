"""The groups of an inventory: in a shape that pyinfra reads, and without contradictions about a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.inventory.fleet import Fleet
from deploy.io.inventory import load_inventory, load_plan
from deploy.refusals.errors import Refusal
from tests.unit.test_loading import GROUP, STATE, refused


def test_a_tuple_of_names_is_no_group(tmp_path: Path) -> None:
    """pyinfra takes the letters of the first word as hosts, and the second word as their data."""
    assert refused(tmp_path, 'hosts = ("a1", "b1")\n') == (
        "`hosts` is a tuple and no group: pyinfra reads every public tuple as (hosts, data)\n"
        "  where   fleet.py: hosts\n"
        "  seen    a tuple of str, str\n"
        f"  wanted  hosts = {GROUP}\n"
        "  try     hosts = ['a1', 'b1']\n" + STATE
    )


@pytest.mark.parametrize("value", ["()", '(["a"], 3)', '("a", {}, 1)', "(1, 2)"])
def test_other_tuples_are_offered_an_underscore(tmp_path: Path, value: str) -> None:
    """Tuples of models, for example, need a variable whose name begins with an underscore."""
    assert "call it _models if it is not a group of hosts" in refused(tmp_path, f"models = {value}\n")


def test_a_host_with_data_of_another_kind_is_refused(tmp_path: Path) -> None:
    """A host has to be a name and a dictionary."""
    assert refused(tmp_path, 'hosts = [("a", 3)]\n') == (
        "a host of `hosts` is a tuple, and not (name, data)\n"
        "  where   fleet.py: hosts\n"
        "  seen    a tuple of str, int\n"
        '  wanted  hosts = [("h100-01.example.internal", {"ssh_port": 2222})]\n'
        '  try     "a-3"   a name is one text\n' + STATE
    )
    assert '("a", {"ssh_port": 2222})' in refused(tmp_path, 'hosts = [("a", 2222)]\n')


TWO_GROUPS = """
from deploy.spec import LLM, Machine, Server, Weights
_llm = LLM(name="gpt", checkpoint="gpt-oss-20b", weights=Weights.hub("openai/gpt-oss-20b", "0" * 40))
_machine = Machine(os="ubuntu-24.04", gpu="h100-80")
chat = (["a", "b"], {"machine": _machine, "servers": (Server(name="chat", models=(_llm,)),)})
batch = (["a"], {"machine": _machine, "servers": (Server(name="batch", models=(_llm,)),)})
"""


def test_two_groups_with_different_servers_for_one_host_are_refused(tmp_path: Path) -> None:
    """pyinfra silently keeps the last group's servers and drops the others."""
    (tmp_path / "fleet.py").write_text(TWO_GROUPS)
    with pytest.raises(Refusal) as refusal:
        load_plan(str(tmp_path / "fleet.py"))
    assert str(refusal.value) == (
        "a is in `chat` and in `batch`, and they set different `servers`\n"
        "  where   a: servers\n"
        "  seen    one value in `chat`, another in `batch`\n"
        "  wanted  one value of `servers` for a\n"
        '  try     take a out of one group, or say "servers" beside its name: ("a", {"servers": …})\n' + STATE
    )


def test_a_host_in_two_pools_is_refused(tmp_path: Path) -> None:
    """The host's capacity would count in one pool, although balancers send it requests of both."""
    chat = TWO_GROUPS.partition("batch = ")[0].replace('{"machine"', '{"pool": "chat", "machine"')
    (tmp_path / "fleet.py").write_text(f'{chat}search = (["a"], {{"pool": "search"}})\n')
    with pytest.raises(Refusal) as refusal:
        load_plan(str(tmp_path / "fleet.py"))
    assert str(refusal.value) == (
        "a is in `chat` and in `search`, and they set different `pool`\n"
        "  where   a: pool\n"
        "  seen    one value in `chat`, another in `search`\n"
        "  wanted  one value of `pool` for a\n"
        '  try     take a out of one group, or say "pool" beside its name: ("a", {"pool": …})\n' + STATE
    )


def test_a_hosts_data_overrides_its_groups_data(tmp_path: Path) -> None:
    """A host's own data have precedence over its groups' data."""
    text = TWO_GROUPS.replace('(["a"],', '([("a", {"servers": (Server(name="own", models=(_llm,)),)})],')
    (tmp_path / "fleet.py").write_text(text)
    hosts = load_plan(str(tmp_path / "fleet.py")).slices
    assert [[server.name for server in host.servers] for host in hosts] == [["own"], ["chat"]]


def test_a_host_with_two_sets_of_own_data_is_refused(tmp_path: Path) -> None:
    """pyinfra keeps only the last set."""
    text = 'one = [("a", {"release": "26.07"})]\ntwo = [("a", {"release": "26.02"})]\n'
    assert refused(tmp_path, text).startswith("a is in `one` and in `two`, and they set different `release`\n")


def test_the_fleet_of_a_good_inventory_is_unchanged() -> None:
    """Reading the groups does not change it."""
    assert Fleet.of(load_inventory("inventories/h100.py", {})).unread == ()
