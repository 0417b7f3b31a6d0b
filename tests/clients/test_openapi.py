"""schemathesis makes requests that keep the door's schema and ones that do not: none breaks it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.clients.conftest import FILES, House

EXAMPLES = os.environ.get("ENGINEHOUSE_EXAMPLES", "30")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "ignored_auth",
)


def test_no_answer_is_a_server_error_or_outside_of_its_schema(house: House, tmp_path: Path) -> None:
    """And what does not keep the schema is refused; without a key, everything is."""
    sys.path.append(str(FILES))
    from tests.clients.openapi import specification

    (tmp_path / "openapi.json").write_text(json.dumps(specification()))
    words = [str(Path(sys.executable).with_name("st")), "run", str(tmp_path / "openapi.json"), "--url", house.url]
    words += ["--header", f"Authorization: Bearer {house.key}", "--checks", ",".join(CHECKS)]
    words += ["--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES, "--seed", "15", "--no-color"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
