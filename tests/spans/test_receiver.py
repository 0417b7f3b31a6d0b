"""Fields kept of Triton's spans. Triton 2.51 sent `exported.json` for an embedding over HTTP on 2026-11-23."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spans.receiver import lines
from tests.ports import free_ports

EXPORTED = (Path(__file__).parent / "exported.json").read_bytes()
RECEIVER = Path(__file__).parents[2] / "files" / "spans" / "receiver.py"
CANARY = "the patient said: my name is Rosa"


def test_a_span_has_its_owner_and_each_steps_start() -> None:
    compute, model, request = (json.loads(line) for line in lines(EXPORTED))
    assert model == {
        "span": "nomic",
        "request": "ab" * 16,
        "id": "0de2993e08dcf9ea",
        "parent": "67010872b95352c3",
        "start_ns": 1795472141340967302,
        "end_ns": 1795472141341730754,
        "model": "nomic",
        "version": 1,
        "at": {"QUEUE_START": 39681, "REQUEST_END": 763452, "REQUEST_START": 0},
    }
    assert (request["span"], request["parent"]) == ("InferRequest", "cd" * 8)
    assert (compute["parent"], compute["at"]["COMPUTE_END"]) == (model["id"], 591147)


def with_canary(value: Any, path: tuple[str, ...] = ()) -> Iterator[Any]:
    """Yields the export once for each text in it, with the phrase in that text's place."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from ({**value, name: changed} for changed in with_canary(inner))
            yield {**value, name: inner, CANARY: CANARY}
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from ([*value[:number], changed, *value[number + 1 :]] for changed in with_canary(inner))
    elif isinstance(value, str):
        yield CANARY


def test_no_text_of_a_request_comes_through_wherever_it_stands() -> None:
    changed = list(with_canary(json.loads(EXPORTED)))
    assert len(changed) > 100
    for export in changed:
        try:
            kept = "".join(lines(json.dumps(export).encode()))
        except (ValueError, KeyError):
            continue
        assert not any(word in kept for word in ("patient", "Rosa"))


@pytest.fixture
def port() -> int:
    """Returns a free port."""
    return free_ports(1)[0]


def sent(port: int, body: bytes) -> int:
    """Returns the status of an export."""
    try:
        return int(urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/traces", body, timeout=300).status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_malformed_export_is_refused_and_the_next_is_recorded(port: int) -> None:
    command = [sys.executable, "-I", "-B", str(RECEIVER), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as receiver:
        try:
            status = 0
            while not status:
                try:
                    status = sent(port, b"{")
                except urllib.error.URLError:
                    assert receiver.poll() is None
            assert [status, *(sent(port, body) for body in (b"[]", b'{"resourceSpans":3}', EXPORTED))] == [400] * 3 + [
                200
            ]
        finally:
            receiver.terminate()
        output, complained = receiver.communicate()
    assert [json.loads(line)["span"] for line in output.splitlines()] == ["compute", "nomic", "InferRequest"]
    assert complained == b""
