"""ENGINEHOUSE_HERE: a host of the inventory deploys itself, under its own name and with its own data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
INVENTORY = 'gpus = (["gpu-1", "gpu-2"], {"ssh_hostname": "192.0.2.1", "word": "of the inventory"})\n'
VERB = """
from pyinfra import host
from pyinfra.operations import server
server.shell(f"echo {host.name} has the word {host.data.word}", name="Work")
"""


def test_the_host_that_this_machine_is_needs_no_ssh_and_keeps_its_name_and_data(tmp_path: Path) -> None:
    """The test runs pyinfra itself; the host's SSH address, 192.0.2.1, never answers."""
    (tmp_path / "mine.py").write_text(INVENTORY)
    (tmp_path / "verb.py").write_text(VERB)
    (tmp_path / "config.py").write_text((ROOT / "config.py").read_text())
    environment = os.environ | {"PYTHONPATH": str(ROOT), "ENGINEHOUSE_HERE": "gpu-1"}
    words = [sys.executable, "-m", "pyinfra", "mine.py", "verb.py", "-y", "-vvv", "--limit", "gpu-1"]
    ran = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "gpu-1 has the word of the inventory" in ran.stdout + ran.stderr


def test_other_hosts_stay_behind_ssh(tmp_path: Path) -> None:
    """The inventory has two hosts, of which only one is this machine."""
    text = (
        "from pyinfra.api import Inventory\n"
        "from roles._pyinfra import here\n"
        'here.install({"ENGINEHOUSE_HERE": "a"})\n'
        'here.install({"ENGINEHOUSE_HERE": "a"})\n'
        'print(*(host.connector_cls.__name__ for host in Inventory((["a", "b"], {}))))\n'
    )
    ran = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "LocalConnector SSHConnector\n"
