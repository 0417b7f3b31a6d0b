"""Reads a secret on this machine at the moment it is needed; it is never printed and never kept."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from deploy.errors import Refusal
from deploy.refuse import refuse
from deploy.spec import Secret


def read_secret(secret: Secret, where: str) -> str:
    """The secret's value. Refuses where its place is empty, naming the place and not the value."""
    if secret.kind == "env":
        value = os.environ.get(secret.source[0], "")
    elif secret.kind == "command":
        value = _output(secret.source).splitlines()[0] if _output(secret.source) else ""
    else:
        path, key = secret.source
        lines = _output(("ansible-vault", "view", path)).splitlines()
        value = next((line.split(":", 1)[1].strip(" '\"") for line in lines if line.startswith(f"{key}:")), "")
    if not value:
        raise _empty(secret, where)
    return value


def _output(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, check=False, stdout=subprocess.PIPE, text=True, timeout=120)
    return done.stdout if done.returncode == 0 else ""


def _empty(secret: Secret, where: str) -> Refusal:
    return refuse(
        "empty-secret",
        f"`{where}`: nothing where the secret should be",
        where=where,
        seen=f"an empty Secret.{secret.kind}({', '.join(secret.source)})",
        wanted="the secret, in the shell or file of this machine",
        attempt=f"export {secret.source[0]}=…" if secret.kind == "env" else "try the command or the vault file by hand",
    )
