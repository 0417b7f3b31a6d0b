"""Reads the secrets that an inventory names, on the control machine, at the moment of use; they are not stored.

Shared by its two users: the verb that pins images, and the roles that send a key to a host.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from deploy.refusals import Refusal
from deploy.spec import Secret


def described(secret: Secret) -> str:
    """The source of the secret, for messages."""
    if secret.kind == "env":
        return f"{secret.source[0]} in the shell that runs pyinfra"
    if secret.kind == "vault":
        return f"key {secret.source[1]} of {secret.source[0]}"
    return f"the first line of `{' '.join(secret.source)}`"


def read(secret: Secret, environment: Mapping[str, str] | None = None, is_whole: bool = False) -> str:
    """The secret itself. Raises: a Refusal that names the source if it is empty.

    A command's secret is its first line of output; with `is_whole` its whole output (a key in PEM).
    """
    if secret.kind == "env":
        text = (os.environ if environment is None else environment).get(secret.source[0], "")
    elif secret.kind == "vault":
        text = _from_vault(*secret.source)
    else:
        text = _output(secret, list(secret.source))
        text = text if is_whole else text.partition("\n")[0]
    if not text.strip():
        raise _empty(secret)
    return text.strip()


def _from_vault(path: str, key: str) -> str:
    """The value of one key of an encrypted YAML file, through the ansible-vault beside this Python."""
    secret = Secret.vault(path, key)
    program = Path(sys.executable).with_name("ansible-vault")
    text = _output(secret, [str(program) if program.exists() else "ansible-vault", "view", path])
    return str((yaml.safe_load(text) or {}).get(key, ""))


def _output(secret: Secret, argv: list[str]) -> str:
    try:
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120).stdout
    except (OSError, subprocess.SubprocessError) as error:
        lines = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        raise _unreadable(secret, lines[-1] if lines else "") from None


def _empty(secret: Secret) -> Refusal:
    return Refusal(
        f"a secret is empty: {described(secret)}",
        attempt="export it" if secret.kind == "env" else "check its content",
        state="nothing was sent to any host",
        kind="empty-secret",
    )


def _unreadable(secret: Secret, reason: str) -> Refusal:
    return Refusal(
        f"a secret could not be read: {described(secret)}",
        facts={"said": reason or "nothing"},
        attempt="set ANSIBLE_VAULT_PASSWORD_FILE" if secret.kind == "vault" else "run the command by hand",
        state="nothing was sent to any host",
        kind="unreadable-secret",
    )
