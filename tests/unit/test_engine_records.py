"""The ledger and the calibration texts, as the plan gets them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.io.engine_records import ledger_of, read_ledger, texts_digest
from deploy.refusals.errors import Refusal
from deploy.spec.surroundings import EngineRecord

RECORD = {
    "fingerprint": "3f9c" * 4,
    "fields": {"sm": "90"},
    "model": "llama",
    "name": "llama-fp8",
    "built": {"host": "h100-01", "ended": "2026-11-20T10:00:00Z"},
    "files": {},
}


def enter(ledger: Path, **changes: object) -> None:
    """Writes a record with its signature into the ledger."""
    place = ledger / "llama"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{RECORD['fingerprint']}.json").write_text(json.dumps(RECORD | changes))
    (place / f"{RECORD['fingerprint']}.json.sig").write_text("signature")


def test_a_record_says_what_was_built_where_and_when(tmp_path: Path) -> None:
    enter(tmp_path)
    assert list(read_ledger(tmp_path)) == [
        EngineRecord(
            model="llama",
            role="target",
            name="llama-fp8",
            fingerprint="3f9c3f9c3f9c3f9c",
            fields={"sm": "90"},
            built_on="h100-01",
            built_at="2026-11-20T10:00:00Z",
        )
    ]


def test_a_draft_s_record_names_the_model_it_drafts_for(tmp_path: Path) -> None:
    enter(tmp_path, model="llama-draft")
    assert [(entry.model, entry.role) for entry in read_ledger(tmp_path)] == [("llama", "draft")]


def test_a_clone_without_a_ledger_has_no_records(tmp_path: Path) -> None:
    assert list(read_ledger(tmp_path / "nowhere")) == []


def test_an_invalid_record_is_refused_by_name(tmp_path: Path) -> None:
    enter(tmp_path, built={})
    with pytest.raises(Refusal, match=r"3f9c3f9c3f9c3f9c\.json is not a record of an engine"):
        list(read_ledger(tmp_path))


def test_the_role_s_settings_move_the_ledger() -> None:
    plain, moved = SimpleNamespace(data={}), SimpleNamespace(data={"engines_settings": {"ledger": "elsewhere"}})
    assert (ledger_of([plain]), ledger_of([plain, moved])) == ("inventories/engines", "elsewhere")


def test_calibration_texts_are_identified_by_names_and_bytes_not_by_path(tmp_path: Path) -> None:
    for name, text in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.arrow").write_text(text)
    first, same, changed = (texts_digest(tmp_path / name) for name in "abc")
    assert first == same != changed
    (tmp_path / "b" / "data.arrow").rename(tmp_path / "b" / "more.arrow")
    assert texts_digest(tmp_path / "b") != first
