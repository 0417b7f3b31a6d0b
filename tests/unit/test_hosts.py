"""Hosts of an Ansible inventory and of Terraform's outputs: the same plan as in Python, and bad data refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from deploy.inventory.hosts import hosts_of_ansible, hosts_of_terraform
from deploy.io.hosts import ansible_hosts, terraform_hosts
from deploy.io.inventory import host_data, load_plan
from deploy.refusals.errors import Refusal

STATE = "  state   planning; no host was changed"
PLAIN = {
    "chat": [
        (
            f"chat-0{number}.example.internal",
            {"peer_address": f"10.0.0.1{number}", "ssh_hostname": f"198.51.100.1{number}", "ssh_user": "ubuntu"},
        )
        for number in (1, 2, 3)
    ],
    "balancers": [("edge-1.example.internal", {"ssh_hostname": "198.51.100.5", "ssh_user": "debian"})],
}
"""The content of both examples, in Python."""


def refused(call: Any, *words: Any) -> str:
    """The refusal of a call, as printed."""
    with pytest.raises(Refusal) as caught:
        call(*words)
    return str(caught.value)


def output(value: Any) -> dict[str, Any]:
    """The output of `terraform output -json` for a single output `h100`."""
    return {"h100": {"sensitive": False, "type": "dynamic", "value": value}}


def group(**hosts: dict[str, Any]) -> dict[str, Any]:
    """The inventory as ansible-core reads it, with these hosts in the group `h100`."""
    return {"hosts": hosts, "groups": {"all": list(hosts), "h100": list(hosts), "empty": []}}


def test_python_ansible_and_terraform_make_the_same_plan(tmp_path: Path) -> None:
    """The digest and the login of each host are equal."""
    text = Path("inventories/from_terraform.py").read_text("utf-8")
    plain = re.sub(r'terraform_hosts\(_file, "(\w+)"\)', lambda match: repr(PLAIN[match[1]]), text)
    (tmp_path / "plain.py").write_text(plain)
    files = [str(tmp_path / "plain.py"), "inventories/from_ansible.py", "inventories/from_terraform.py"]
    plans = [load_plan(file) for file in files]
    logins = [
        {name: {k: v for k, v in data.items() if "ssh" in k} for name, data in host_data(f).items()} for f in files
    ]
    assert "terraform_hosts(" not in plain and len(plans[0].hosts) == 4
    assert plans[0].digest == plans[1].digest == plans[2].digest
    assert plans[0].to_json() == plans[1].to_json() == plans[2].to_json()
    assert logins[0] == logins[1] == logins[2]


def test_groups_ranges_host_vars_and_templates_of_ansible_are_read(tmp_path: Path) -> None:
    """A group of groups has the hosts of all its groups; a host's own variables precede its group's."""
    (tmp_path / "hosts").write_text(
        "[a]\na-[01:02]\n[b]\nb-1 ansible_port=2222\n[h100:children]\na\nb\n"
        "[h100:vars]\nansible_host={{ inventory_hostname }}.lan\nansible_user=ubuntu\nours=1\n"
    )
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars" / "a-02.yml").write_text("ansible_user: root\npeer_address: 10.0.0.2\n")
    assert ansible_hosts(str(tmp_path / "hosts"), "h100") == [
        ("a-01", {"ssh_hostname": "a-01.lan", "ssh_user": "ubuntu"}),
        ("a-02", {"ssh_hostname": "a-02.lan", "ssh_user": "root", "peer_address": "10.0.0.2"}),
        ("b-1", {"ssh_hostname": "b-1.lan", "ssh_port": 2222, "ssh_user": "ubuntu"}),
    ]


def test_a_host_that_stands_twice_in_a_map_of_ansible_is_refused(tmp_path: Path) -> None:
    """YAML would keep the last. Any message of ansible-core is shown this way."""
    (tmp_path / "a.yml").write_text("all:\n  hosts:\n    a: {}\n    a: {}\n")
    assert refused(ansible_hosts, str(tmp_path / "a.yml"), "all").replace(f"{tmp_path}/", "") == (
        "a.yml is not an Ansible inventory that can be read here\n"
        "  where   a.yml\n"
        "  seen    YAML parsing failed: Found duplicate mapping key 'a'.\n"
        "  wanted  an inventory in YAML or INI; programs and plugins are not run\n"
        "  try     ansible-inventory -i a.yml --list --yaml --output hosts.yml, and name that file\n" + STATE
    )


def test_an_inventory_that_is_a_program_is_not_run(tmp_path: Path) -> None:
    """Write access to an executable inventory would mean running code on the control machine."""
    (tmp_path / "hosts").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho '{{}}'\n")
    (tmp_path / "hosts").chmod(0o755)
    assert "is not an Ansible inventory that can be read here" in refused(ansible_hosts, str(tmp_path / "hosts"), "all")
    assert not (tmp_path / "ran").exists()


def test_an_unknown_group_is_offered_the_nearest() -> None:
    assert refused(hosts_of_ansible, group(a={}), "h10", "hosts.yml") == (
        "hosts.yml has no group `h10`\n"
        "  where   hosts.yml\n"
        "  seen    groups all, empty, h100\n"
        "  wanted  a group of that inventory\n"
        "  try     did you mean `h100`?  known: all, h100\n" + STATE
    )


def test_a_group_that_names_no_host_is_refused() -> None:
    assert refused(hosts_of_ansible, group(a={}), "empty", "hosts.yml") == (
        "hosts.yml: empty names no host\n"
        "  where   hosts.yml: empty\n"
        "  seen    no host\n"
        "  wanted  a host at least\n"
        "  try     look what it holds: ansible-inventory -i hosts.yml --graph\n" + STATE
    )


def test_a_machine_under_two_names_is_refused() -> None:
    """Two plans would work on the same machine."""
    twice = group(a={"ansible_host": "10.0.0.1"}, b={"ansible_host": "10.0.0.1", "ansible_port": 22})
    assert refused(hosts_of_ansible, twice, "h100", "hosts.yml") == (
        "hosts.yml: h100 names one machine twice: a, b\n"
        "  where   hosts.yml: h100\n"
        "  seen    as a and as b, both at 10.0.0.1, port 22\n"
        "  wanted  each machine once\n"
        "  try     take b out, or correct its address\n" + STATE
    )


def test_a_jump_host_among_ansible_s_ssh_arguments_is_refused_until_a_file_stands_for_it() -> None:
    """pyinfra would ignore it and log in directly."""
    jump = group(a={"ansible_ssh_common_args": "-o ProxyJump=bastion"})
    assert refused(hosts_of_ansible, jump, "h100", "hosts.yml") == (
        "ansible_ssh_common_args of a is for OpenSSH, and pyinfra logs in without it\n"
        "  where   hosts.yml: a.ansible_ssh_common_args\n"
        "  seen    -o ProxyJump=bastion\n"
        "  wanted  a jump host, known_hosts or an agent in one ssh_config, read by pyinfra, rsync and pytest\n"
        "  try     write them there, then: ansible_hosts(…, ssh_config_file=FILE)\n" + STATE
    )
    assert hosts_of_ansible(jump, "h100", "hosts.yml", "mine") == [("a", {"ssh_config_file": "mine"})]
    assert hosts_of_ansible(group(a={"ansible_ssh_common_args": "-F its"}), "h100", "hosts.yml") == [
        ("a", {"ssh_config_file": "its"})
    ]


def test_a_host_that_ansible_reaches_without_ssh_is_refused() -> None:
    local = group(a={"ansible_connection": "local"})
    assert refused(hosts_of_ansible, local, "h100", "hosts.yml") == (
        "a is not reached over SSH\n"
        "  where   hosts.yml: a.ansible_connection\n"
        "  seen    local\n"
        "  wanted  ssh\n"
        "  try     take a out of the group, or name another group\n" + STATE
    )


@pytest.mark.parametrize(
    ("value", "hosts"),
    [
        ("10.0.0.1", [("10.0.0.1", {})]),
        (["a", "2001:db8::7"], [("a", {}), ("2001:db8::7", {})]),
        ({"a": "10.0.0.1"}, [("a", {"ssh_hostname": "10.0.0.1"})]),
        ({"a": {"ssh_port": "2222", "ssh_user": None}}, [("a", {"ssh_port": 2222})]),
    ],
)
def test_an_output_is_a_name_names_a_map_of_addresses_or_of_objects(value: Any, hosts: Any) -> None:
    """A map turns numbers into texts, and an unset optional attribute is null."""
    assert hosts_of_terraform(output(value), "h100", "outputs.json") == hosts


@pytest.mark.parametrize(
    ("value", "problem", "seen"),
    [
        ([], "outputs.json: h100 names no host", "no host"),
        ({}, "outputs.json: h100 names no host", "no host"),
        (None, "outputs.json: h100 has an entry that names no host", "the output is null"),
        ([None], "outputs.json: h100 has an entry that names no host", "entry 0 is null"),
        (["https://a"], "outputs.json: h100 has an entry that names no host", "'https://a' as a name"),
        ({"a": None}, "outputs.json: h100 has an entry that names no host", "a is null"),
        ({"a": ""}, "`ssh_hostname` of a does not say where it is", "''"),
        ({"a": {"ssh_hostname": None}}, "`ssh_hostname` of a does not say where it is", "None"),
        ({"a": {"ssh_port": 0}}, "`ssh_port` of a does not say where it is", "0"),
        ({"a": {"public_ip": "10.0.0.1"}}, "outputs.json: h100: no field is called `public_ip`", "`public_ip` of a"),
        (["a", "a"], "outputs.json: h100 names a twice", "at a, port 22"),
        (
            {"a": "10.0.0.1", "b": "10.0.0.1"},
            "outputs.json: h100 names one machine twice: a, b",
            "as a and as b, both ",
        ),
    ],
)
def test_an_output_that_names_no_host_or_a_host_twice_is_refused(value: Any, problem: str, seen: str) -> None:
    """A missing public address is an empty text in Terraform."""
    text = refused(hosts_of_terraform, output(value), "h100", "outputs.json")
    assert text.splitlines()[0] == problem
    assert f"  seen    {seen}" in text and "  try     " in text and text.endswith(STATE)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ('["a"]', "the value of a single output, or another program's JSON"),
        ('{"a": "10.0.0.1"}', "the value of a single output, or another program's JSON"),
        ('{"version": 4, "terraform_version": "1.9.0", "outputs": {}}', "Terraform's state"),
        ("{}", "no output at all"),
        ("╷\n│ Warning: No outputs found\n", "Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_a_file_that_terraform_output_did_not_print_is_refused(tmp_path: Path, text: str, seen: str) -> None:
    """Examples are the value of one output, the state, or a warning."""
    (tmp_path / "outputs.json").write_text(text)
    assert refused(terraform_hosts, str(tmp_path / "outputs.json"), "h100").replace(f"{tmp_path}/", "") == (
        "outputs.json is not output of `terraform output -json`\n"
        "  where   outputs.json\n"
        f"  seen    {seen}\n"
        '  wanted  all outputs, as {"h100": {"sensitive": false, "type": …, "value": …}}\n'
        "  try     where Terraform's files are: terraform output -json > outputs.json, and copy it here\n" + STATE
    )


def test_a_name_that_stands_twice_in_a_recorded_map_is_refused(tmp_path: Path) -> None:
    """Python's JSON reader would silently keep the last of the two values."""
    text = json.dumps(output({"a": "10.0.0.1"})).replace('{"a"', '{"a": "10.0.0.2", "a"')
    (tmp_path / "outputs.json").write_text(text)
    assert "names a twice" in refused(terraform_hosts, str(tmp_path / "outputs.json"), "h100")


@pytest.mark.parametrize("call", [ansible_hosts, terraform_hosts])
def test_a_file_that_is_missing_is_named(call: Any) -> None:
    assert refused(call, "nowhere.yml", "h100").startswith("there is no file nowhere.yml\n")


def test_an_unknown_output_is_offered_the_nearest() -> None:
    assert "did you mean `h100`?" in refused(hosts_of_terraform, output(["a"]), "h10", "outputs.json")


def test_a_refusal_reaches_the_operator_whole_from_inside_an_inventory(tmp_path: Path) -> None:
    """The operator sees the refusal, not an exception of the file."""
    (tmp_path / "outputs.json").write_text(json.dumps(output([])))
    file = tmp_path / "fleet.py"
    file.write_text(
        f"from deploy.io.hosts import terraform_hosts\nhosts = terraform_hosts('{tmp_path}/outputs.json', 'h100')\n"
    )
    assert refused(load_plan, str(file)).startswith(f"{tmp_path}/outputs.json: h100 names no host\n")
