"""Secrets are read at their source, at the moment of sending, and shown nowhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.io.secrets import described, read
from deploy.refusals.errors import Refusal
from deploy.spec import Secret
from roles._shipping.secrets import SecretText, missing


def test_an_environment_variable_is_read() -> None:
    assert read(Secret.env("KEY"), {"KEY": " nvapi-1\n"}) == "nvapi-1"


def test_of_a_command_the_first_line_is_read() -> None:
    assert read(Secret.command("printf", "one\\ntwo\\n")) == "one"


def test_a_vault_is_decrypted_by_ansible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("open sesame\n")
    (tmp_path / "secrets.yml").write_text("ngc_key: nvapi-1\n")
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(tmp_path / "password"))
    vault = Path(sys.executable).with_name("ansible-vault")
    subprocess.run([str(vault), "encrypt", str(tmp_path / "secrets.yml")], check=True, capture_output=True)
    assert read(Secret.vault(str(tmp_path / "secrets.yml"), "ngc_key")) == "nvapi-1"


def test_a_vault_without_its_password_is_refused_with_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANSIBLE_VAULT_PASSWORD_FILE", raising=False)
    with pytest.raises(Refusal, match="set ANSIBLE_VAULT_PASSWORD_FILE"):
        read(Secret.vault(str(tmp_path / "none.yml"), "ngc_key"))


def test_a_command_that_fails_is_refused_with_its_last_words() -> None:
    with pytest.raises(Refusal, match="locked"):
        read(Secret.command("sh", "-c", "echo locked >&2; exit 1"))


def test_an_empty_secret_names_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NGC_API_KEY", raising=False)
    assert str(missing(Secret.env("NGC_API_KEY"))) == (
        "a secret is empty: NGC_API_KEY in the shell that runs pyinfra\n"
        "  try    export it\n"
        "  state  nothing was sent to any host"
    )


def test_an_undeclared_secret_is_not_a_missing_secret() -> None:
    assert missing(None) is None


def test_a_sent_secret_shows_its_source_and_never_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "nvapi-1")
    text = SecretText(Secret.env("KEY"))
    assert (repr(text), str(text), text.readlines()) == (
        "SecretText(KEY in the shell that runs pyinfra)",
        "SecretText(KEY in the shell that runs pyinfra)",
        ["nvapi-1"],
    )


def test_a_vault_is_described_by_file_and_key() -> None:
    assert described(Secret.vault("secrets.yml", "ngc_key")) == "key ngc_key of secrets.yml"
