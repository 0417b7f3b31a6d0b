"""schemathesis sends requests inside and outside the schemas of `/openapi.json`; none breaks the gateway."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.clients.balancer import balancer
from tests.clients.conftest import Stack

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
REFUSALS = [400, 401, 404, 405, 413, 415]
"""Statuses for requests that break their schema; a request of too many items is too large as well."""


def test_the_document_is_openapi_3_1(stack: Stack) -> None:
    """Its schemas are JSON Schema 2020-12, as OpenAPI 3.1 demands."""
    import jsonschema_rs
    import schemathesis

    request = urllib.request.Request(f"{stack.url}/openapi.json", headers={"Authorization": f"Bearer {stack.key}"})
    with urllib.request.urlopen(request) as answer:
        document = json.load(answer)
    dialect = "https://json-schema.org/draft/2020-12/schema"
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": dialect, **schema})
    schemathesis.openapi.from_dict(document).validate()


def test_no_answer_is_a_server_error_or_outside_of_its_schema(stack: Stack, tmp_path: Path) -> None:
    """The gateway refuses a body outside the schema, and every body without a key."""
    fuzzed(stack.url, stack.key, tmp_path)


@pytest.mark.skipif(
    not shutil.which("haproxy"), reason="no haproxy here: python -m rehearsal requirements --install --tests"
)
def test_the_schema_also_holds_behind_the_balancer(stack: Stack, tmp_path: Path) -> None:
    """HAProxy's own answers also keep the schema of an error."""
    with balancer(tmp_path, stack.url) as url:
        # Not the coverage phase: of bodies beyond the limit, the gateway closes under a proxy that still sends.
        fuzzed(url, stack.key, tmp_path, "fuzzing")


def fuzzed(url: str, key: str, folder: Path, phases: str = "examples,coverage,fuzzing") -> None:
    """Asserts that every check passes for every answer at this address."""
    (folder / "schemathesis.toml").write_text(f"[checks]\nnegative_data_rejection.expected-statuses = {REFUSALS}\n")
    words = [str(Path(sys.executable).with_name("st")), "run", f"{url}/openapi.json", "--url", url]
    words += ["--header", f"Authorization: Bearer {key}", "--checks", ",".join(CHECKS)]
    # On a machine with other work, an answer may take longer than the program's 10 s.
    words += ["--request-timeout", "120"]
    words += ["--phases", phases, "--max-examples", EXAMPLES, "--seed", "15", "--no-color"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
