"""The ledger: a copy of every signed engine.json in the operator's clone, for `enginehouse plan` and for reviewers."""

from pathlib import Path

from deploy.io.local_paths import local_path
from deploy.slices.host import EngineSlice


def record_of(engine: EngineSlice, ledger: str) -> Path:
    return local_path(ledger) / engine.model / f"{engine.fingerprint}.json"


def is_recorded(engine: EngineSlice, ledger: str) -> bool:
    """True if the ledger has the engine's record and its signature."""
    record = record_of(engine, ledger)
    return record.is_file() and signature_of(record).is_file()


def signature_of(record: Path) -> Path:
    return record.with_name(f"{record.name}.sig")


def enter(engine: EngineSlice, ledger: str, text: bytes, sealed: bytes) -> Path:
    """Writes the engine's record to the ledger, replacing one of an earlier build of the same fingerprint."""
    record = record_of(engine, ledger)
    record.parent.mkdir(parents=True, exist_ok=True)
    for path, content in ((signature_of(record), sealed), (record, text)):
        new = path.with_name(f".{path.name}.new")
        new.write_bytes(content)
        new.replace(path)
    return record
