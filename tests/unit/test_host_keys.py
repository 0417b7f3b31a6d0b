"""Pinned host keys: the plan refuses a file that would lock out a host, before any login."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paramiko
import pytest

from deploy.io.host_keys import host_key_problems

KEY = paramiko.ECDSAKey.generate()
WORDS = f"{KEY.get_name()} {KEY.get_base64()}"


def kinds(directory: Path, text: str, **data: Any) -> list[str]:
    """Kinds of refusal for a known_hosts file of this text and a host of this data."""
    (directory / "known_hosts").write_text(text)
    settings = {"ssh_known_hosts_file": "known_hosts", "ssh_strict_host_key_checking": "yes"} | data
    host = SimpleNamespace(name="gpu-1", data=SimpleNamespace(dict=lambda: settings))
    return [problem.kind for _, problem in host_key_problems([host], directory)]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (f"gpu-1 {WORDS}\n", {}),
        (f"# ours\n\nother,gpu-1 {WORDS} a comment\n", {}),
        (f"203.0.113.7 {WORDS}\n", {"ssh_hostname": "203.0.113.7"}),
        (f"[203.0.113.7]:2222 {WORDS}\n", {"ssh_hostname": "203.0.113.7", "ssh_port": 2222}),
        ("not a key\n", {"ssh_strict_host_key_checking": "accept-new"}),
        (f"bastion {WORDS}\n", {"ssh_config_file": "ssh_config"}),
    ],
)
def test_a_host_with_its_key_is_planned(tmp_path: Path, text: str, data: dict[str, Any]) -> None:
    assert kinds(tmp_path, text, **data) == []


@pytest.mark.parametrize(
    ("text", "data", "kind"),
    [
        (f"gpu-2 {WORDS}\n", {}, "host-not-pinned"),
        (f"gpu-1 {WORDS}\n", {"ssh_port": 2222}, "host-not-pinned"),
        ("", {}, "host-not-pinned"),
        (f"@cert-authority gpu-1 {WORDS}\n", {}, "no-host-key-line"),
        (f"gpu-1 ssh-ed25519 {KEY.get_base64()}\n", {}, "no-host-key-line"),
        ("gpu-1 ssh-ed25519 AAAA\n", {}, "no-host-key-line"),
        (f"gpu-1\t{WORDS}\n", {}, "no-host-key-line"),
        (f'no-pty,command="x" gpu-1 {WORDS}\n', {}, "no-host-key-line"),
        (f"gpu-1 {WORDS}\n", {"ssh_known_hosts_file": "gone"}, "no-known-hosts"),
    ],
)
def test_a_client_file_that_admits_no_client_is_refused(
    tmp_path: Path, text: str, data: dict[str, Any], kind: str
) -> None:
    assert kinds(tmp_path, text, **data) == [kind]
