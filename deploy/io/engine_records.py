"""Reads the control machine's files for a plan with engines: the ledger of signed engines, calibration texts.

The ledger is a hint for people: `enginehouse plan` names new, known and rebuilt engines, with reasons. Builds are
decided by the hosts' own files; the ledger is not trusted.
"""

import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.inventory.fleet import Fleet
from deploy.io.local_paths import is_directory, local_path
from deploy.refusals import refuse
from deploy.spec import LLM
from deploy.spec.surroundings import EngineRecord, Surroundings

LEDGER = "inventories/engines"
DRAFT = "-draft"


def with_engines(surroundings: Surroundings, inventory: Iterable[Any], fleet: Fleet, root: Path) -> Surroundings:
    """The surroundings with the ledger of this inventory and the digests of its calibration texts."""
    records = tuple(read_ledger(local_path(ledger_of(inventory), root)))
    return replace(surroundings, engines=records, calibrations=dict(_calibrations(fleet, root)))


def ledger_of(inventory: Iterable[Any]) -> str:
    """The directory of the ledger: the role's setting on any host, or the default."""
    for host in inventory:
        data = host.data.dict() if hasattr(host.data, "dict") else host.data
        settings = data.get("engines_settings")
        if isinstance(settings, dict) and isinstance(ledger := settings.get("ledger"), str) and ledger:
            return ledger
    return LEDGER


def read_ledger(directory: Path) -> Iterator[EngineRecord]:
    """Every record, by model and fingerprint. Raises: a Refusal for a file that was edited or merged badly."""
    for file in sorted(directory.glob("*/*.json")):
        try:
            yield _record(json.loads(file.read_text("utf-8")))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            raise refuse(
                "ledger-record",
                f"{file} is not a record of an engine",
                where=str(file),
                seen=f"{type(problem).__name__}: {problem}",
                wanted="an engine.json as a build wrote it",
                attempt=f"git checkout -- {shlex.quote(str(file))}, or remove it: the next deploy writes it again",
            ) from None


def _record(record: dict[str, Any]) -> EngineRecord:
    model = str(record["model"])
    return EngineRecord(
        model=model.removesuffix(DRAFT),
        role="draft" if model.endswith(DRAFT) else "target",
        name=str(record["name"]),
        fingerprint=str(record["fingerprint"]),
        fields=dict(record["fields"]),
        built_on=str(record["built"]["host"]),
        built_at=str(record["built"]["ended"]),
    )


def _calibrations(fleet: Fleet, root: Path) -> Iterator[tuple[str, str]]:
    models = [model for host in fleet.hosts for _, model in host.served_models]
    named = {model.calibration.directory for model in models if isinstance(model, LLM) and model.calibration}
    for name in sorted(named):
        directory = local_path(name, root)
        if is_directory(directory) and directory.resolve() not in (root, *root.parents):
            yield name, texts_digest(directory)


def texts_digest(directory: Path) -> str:
    """Sixteen hex digits over names and bytes of all files; the directory's own path does not count."""
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            with path.open("rb") as content:
                inside = hashlib.file_digest(content, "sha256").hexdigest()
            digest.update(f"{path.relative_to(directory)}\0{inside}\n".encode())
    return digest.hexdigest()[:16]
