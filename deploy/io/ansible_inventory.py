"""Reads an Ansible inventory with ansible-core, in a separate process, and prints it as JSON.

`python -m deploy.io.ansible_inventory FILE` is called by `deploy/io/hosts.py`: pyinfra patches its process for gevent,
and ansible-core sets up locks, warnings and locale when it is imported. Only files are read. An inventory that is a
program or a plugin could give another plan each time, although the file is the same. Templates are filled in
without lookups beyond LOOKUPS: `pipe` runs a program, and `file` or `url` could put a secret into a host's name.
"""

import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from deploy.inventory.hosts import ANSIBLE_VARIABLES

SETTINGS = {
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1",
    "ANSIBLE_DUPLICATE_YAML_DICT_KEY": "error",
    "ANSIBLE_NOCOLOR": "1",
}
"""Settings that take precedence over the operator's own ansible.cfg, which is read for all others, such as the vault's
password."""

LOOKUPS = frozenset({"env", "vars", "varnames", "dict", "items", "list"})
"""Lookups that run no program and read no file."""


def read(file: str) -> dict[str, object]:
    """The hosts' variables of `ANSIBLE_VARIABLES` with templates filled in, and the hosts of each group, in order.

    Raises: ansible-core's own errors.
    """
    from ansible import constants
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.parsing.vault import get_file_vault_secret
    from ansible.plugins.loader import lookup_loader
    from ansible.template import Templar
    from ansible.vars.manager import VariableManager

    lookup_loader.get = harmless(lookup_loader.get)
    loader = DataLoader()
    if constants.DEFAULT_VAULT_PASSWORD_FILE:
        secret = get_file_vault_secret(filename=constants.DEFAULT_VAULT_PASSWORD_FILE, loader=loader)
        secret.load()
        loader.set_vault_secrets([(constants.DEFAULT_VAULT_IDENTITY, secret)])
    inventory = InventoryManager(loader=loader, sources=[os.path.abspath(file)])
    variables = VariableManager(loader=loader, inventory=inventory)
    hosts = {}
    for host in inventory.get_hosts():
        known = variables.get_vars(host=host, include_hostvars=False)
        templar = Templar(loader=loader, variables=known)
        hosts[str(host.name)] = {name: templar.template(known[name]) for name in ANSIBLE_VARIABLES if name in known}
    groups = {str(name): [str(host.name) for host in inventory.get_hosts(name)] for name in inventory.groups}
    return {"hosts": hosts, "groups": groups}


def harmless(get: Callable[..., Any]) -> Callable[..., Any]:
    """A loader of lookups that loads only those of LOOKUPS."""

    @functools.wraps(get)
    def known(name: str, *words: Any, **options: Any) -> Any:
        """The plugin of this name. Raises: ValueError for a name that is not among LOOKUPS."""
        if name.rpartition(".")[2] not in LOOKUPS:
            raise ValueError(f"the lookup `{name}` is not run; write its value, or use the lookup `env`")
        return get(name, *words, **options)

    return known


if __name__ == "__main__":
    plugins = "yaml" if sys.argv[1].endswith((".yml", ".yaml", ".json")) else "yaml,ini"  # errors of one plugin
    os.environ.update(SETTINGS | {"ANSIBLE_INVENTORY_ENABLED": plugins})  # before ansible-core is imported
    try:
        print(json.dumps(read(sys.argv[1]), default=str))
    except Exception as error:  # each plugin raises its own errors; the caller makes a refusal of any
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
