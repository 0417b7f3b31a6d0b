"""Compares the hosts of an inventory with its plan, without changing anything."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.refusals import Refusal
from deploy.rollout.drift import Drift

ROOT = Path(__file__).parents[2]
VERB = ROOT / "deploy.py"


def drift_of(file: str, data: Sequence[str] = (), limit: Sequence[str] = (), verb: Path = VERB) -> Drift:
    """The changes that `verb`, a deploy, would make on the hosts of the inventory `file`; the hosts are asked.

    Raises: a Refusal if the process that asks them ends without an answer.
    """
    record = looked(verb, file, data, limit)
    parts = ("steps", "said", "refused")
    steps, messages, refused = ({key: tuple(lines) for key, lines in record[part].items()} for part in parts)
    return Drift(tuple(record["hosts"]), steps, tuple(record["unasked"]), messages, record["stopped"], refused)


def looked(verb: Path, file: str, data: Sequence[str] = (), limit: Sequence[str] = ()) -> dict[str, Any]:
    """The output of `deploy.io.dry_run` for a verb, run in a separate process.

    Raises: a Refusal if that process ends without an answer.
    """
    words = json.dumps({"data": list(data), "limit": list(limit)})
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "deploy.io.dry_run", str(verb), file, words]
    process = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    if process.returncode:
        raise Refusal(
            "the hosts could not be asked",
            facts={"said": process.stderr.strip().splitlines()[-1] if process.stderr.strip() else "nothing"},
            attempt=f"pyinfra {shlex.quote(file)} {verb.name} --dry says more",
            state="nothing was changed",
            kind="not-asked",
        )
    return dict(json.loads(process.stdout.splitlines()[-1]))
