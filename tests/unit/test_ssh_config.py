"""pyinfra, rsync, testinfra and `enginehouse ask` log in to a host the same way, through the same jump host."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import testinfra
from pyinfra.connectors.sshuserclient.client import get_ssh_config

from deploy.inventory.ssh_config import address_of, in_brackets, ssh_config, ssh_words
from roles._shipping.rsync import rsync_target

ASKED = ("hostname", "port", "user", "proxyjump", "userknownhostsfile", "identityagent")


def resolved(words: list[str]) -> dict[str, str]:
    """Options of an ssh command as OpenSSH resolves them (`ssh -G`)."""
    done = subprocess.run([words[0], "-G", *words[1:]], capture_output=True, text=True, check=True)
    pairs = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    return {name: pairs.get(name, "") for name in ASKED}


@pytest.mark.parametrize("name", ["chat-01.example.internal", "2001:db8::7"])
def test_a_jump_host_known_hosts_and_agent_are_the_same_for_every_program(tmp_path: Path, name: str) -> None:
    """The jump host is only in the operator's file, where the `Host` line matches the address, which is not part of
    the host's name."""
    address = "198.51.100.11" if "." in name else name
    own = tmp_path / "ssh_config"
    own.write_text(
        "Host bastion\n  User jump\nHost 198.51.100.* 2001:db8:*\n  ProxyJump bastion\n"
        f"Host *\n  UserKnownHostsFile {tmp_path}/known\n  IdentityAgent {tmp_path}/agent\n"
    )
    data: dict[str, Any] = {"ssh_user": "ubuntu", "ssh_port": 2222, "ssh_config_file": str(own)}
    data |= {} if address == name else {"ssh_hostname": address}
    wanted = {
        "hostname": address,
        "port": "2222",
        "user": "ubuntu",
        "proxyjump": "bastion",
        "userknownhostsfile": f"{tmp_path}/known",
        "identityagent": f"{tmp_path}/agent",
    }
    written = tmp_path / "written"
    written.write_text(ssh_config(name, data, str(own)))
    asked_of = dict.fromkeys(("ssh_hostname", "ssh_known_hosts_file", "ssh_password", "ssh_key_password", "ssh_key"))
    host = SimpleNamespace(name=name, connector_cls=SimpleNamespace(__name__="SSHConnector"))
    host.connector = SimpleNamespace(data=asked_of | data | {"ssh_strict_host_key_checking": "accept-new"})
    rsync, destination = rsync_target(host, True, "/x")
    assert resolved(ssh_words(name, data)) == wanted
    assert resolved(["ssh", "-F", str(written), address]) == wanted
    assert resolved([*shlex.split(rsync[1]), "-l", "ubuntu", address]) == wanted
    assert destination == f"ubuntu@{in_brackets(address)}:/x/"
    own_words = get_ssh_config(str(own)).lookup(address_of(name, data))
    assert {key: own_words[key] for key in ASKED[3:]} == {key: wanted[key] for key in ASKED[3:]}
    tested = testinfra.get_host(f"ssh://{in_brackets(address)}", ssh_config=str(written))
    assert tested.backend.host.name == address
    assert resolved(["ssh", "-F", str(written), "bastion"])["user"] == "jump"
