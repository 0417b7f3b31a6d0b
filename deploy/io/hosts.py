"""Functions for a Python inventory that takes its hosts from an Ansible inventory or from Terraform.

    from deploy.io.hosts import ansible_hosts, terraform_hosts

    chat = (ansible_hosts("inventories/ansible/hosts.yml", "chat"), {"machine": …, "servers": …})

Paths are relative to the directory in which `pyinfra` or `enginehouse` is typed, like every path of an inventory.
"""

import functools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from deploy.inventory.hosts import Hosts, hosts_of_ansible, hosts_of_terraform, not_terraform
from deploy.refusals import Refusal, refuse

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 120


def ansible_hosts(file: str, group: str, *, ssh_config_file: str = "") -> Hosts:
    """The hosts of a group of an Ansible inventory, in its order, with address, port, user, key and `peer_address`.

    `file` is an inventory in YAML or INI, or a directory of such. `host_vars/` and `group_vars/` beside it are read,
    templates filled in. `ssh_config_file` takes the place of Ansible's ssh arguments: jump host, known_hosts, agent.
    Raises: a Refusal for a file that Ansible cannot read, an unknown or empty group, or a host that is named twice.
    """
    return hosts_of_ansible(_ansible(str(Path(file).absolute()), file), group, file, ssh_config_file)


def terraform_hosts(file: str, output: str) -> Hosts:
    """The hosts of an output in a file that `terraform output -json > FILE` wrote.

    An output is a name, a list of names, a map from names to addresses, or a map from names to objects with
    `ssh_hostname`, `ssh_port`, `ssh_user`, `ssh_key`, `ssh_config_file` and `peer_address`.
    Raises: a Refusal for a file of another kind, an unknown or empty output, or a host that is named twice.
    """
    return hosts_of_terraform(_recorded(file), output, file)


@functools.cache
def _ansible(place: str, file: str) -> dict[str, Any]:
    """The groups and hosts that ansible-core reads in a file; cached, because each reading takes a second of CPU."""
    if not os.path.exists(place):
        raise _missing(file, "an Ansible inventory in YAML or INI", "correct its path, or copy the file there")
    words = [sys.executable, "-m", "deploy.io.ansible_inventory", place]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        raise _unreadable(file, f"no end after {TIMEOUT_SECONDS} seconds") from None
    if done.returncode:
        raise _unreadable(file, _reason(done.stderr))
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def _reason(stderr: str) -> str:
    """ansible-core's reason: its first plugin's reason, else the last line of its output."""
    reason = re.search(r"^\[WARNING\]: Failed to parse inventory with '\w+' plugin: (.+)$", stderr, re.MULTILINE)
    return reason[1] if reason else (stderr.strip().splitlines() or ["nothing"])[-1]


def _recorded(file: str) -> object:
    try:
        return json.loads(Path(file).read_text("utf-8"), object_pairs_hook=functools.partial(_each_once, file))
    except FileNotFoundError:
        raise _missing(file, "what `terraform output -json` printed", f"terraform output -json > {file}") from None
    except OSError as error:
        raise not_terraform(file, error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:  # invalid JSON, or bytes that are not UTF-8
        raise not_terraform(file, str(error)) from None


def _each_once(file: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises: a Refusal for a repeated key, because Python would keep only the last one."""
    values = dict(pairs)
    if len(values) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise refuse(
            "host-twice",
            f"{file} names {twice} twice",
            where=file,
            seen=f"two keys {twice} in one object",
            wanted="each machine once",
            attempt=f"in Terraform's directory: terraform output -json > {Path(file).name}",
        )
    return values


def _missing(file: str, wanted: str, attempt: str) -> Refusal:
    return refuse(
        "no-hosts-file",
        f"there is no file {file}",
        where=file,
        seen=f"no such file in {Path.cwd()}",
        wanted=wanted,
        attempt=attempt,
    )


def _unreadable(file: str, reason: str) -> Refusal:
    return refuse(
        "not-ansible",
        f"{file} is not an Ansible inventory that can be read here",
        where=file,
        seen=reason,
        wanted="an inventory in YAML or INI; programs and plugins are not run",
        attempt=f"ansible-inventory -i {file} --list --yaml --output hosts.yml, and name that file",
    )
