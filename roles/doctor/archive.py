"""The file of `--data report=FILE`: new, readable only by its owner, and complete or absent."""

import os
from pathlib import Path

from deploy.refusals import Refusal


def confirm_new(path: str | None) -> None:
    """Raises: a Refusal if the file exists already or cannot be created."""
    if not path:
        return
    file = Path(path)
    problem = "it is there already" if file.exists() else ""
    if not problem and not os.access(file.parent, os.W_OK | os.X_OK):
        problem = "its directory does not exist, or you cannot write to it"
    if problem:
        raise _refusal(path, problem)


def write(path: str, packed: bytes) -> None:
    """Writes the bytes to the file. Raises: a Refusal if that fails."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(packed)
    except OSError as problem:
        raise _refusal(path, str(problem.strerror)) from None


def _refusal(path: str, problem: str) -> Refusal:
    return Refusal(
        "the report cannot be written",
        facts={"where": f"--data report={path}", "said": problem},
        attempt="name a new file in an existing directory that you can write",
        state="no host was changed",
        kind="no-report",
    )
