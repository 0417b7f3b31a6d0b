"""The stand-ins of vLLM and trtllm-serve as programs: they serve, refuse and stop as the real ones do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from host import places, prove_llm, watch_llm
from rehearsal.triton_image import RUNTIME_STAND_INS
from tests.ports import free_port

RUNTIMES = pytest.mark.parametrize("runtime", ["vllm", "trtllm-serve"])
METRICS = {
    "vllm": ("/metrics", "vllm:request_success_total", "vllm:generation_tokens_total"),
    "trtllm-serve": ("/prometheus/metrics", "trtllm_request_success_total", "trtllm_generation_tokens_total"),
}


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A checkpoint with a declared context length."""
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 128}')
    (tmp_path / "model.safetensors").touch()
    return tmp_path


def started(runtime: str, *words: str) -> subprocess.Popen[str]:
    """The program, started like the image's own program."""
    command = [sys.executable, str(RUNTIME_STAND_INS / "bin" / runtime), "serve", *words]
    environment = {**os.environ, "PYTHONPATH": str(RUNTIME_STAND_INS / "packages"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@contextmanager
def serving(runtime: str, weights: Path, *words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """(url, process) of the program once it listens."""
    port = free_port()
    process = started(runtime, str(weights), "--host", "127.0.0.1", "--port", str(port), *words)
    assert process.stdout
    try:
        assert "rehearsal stand-in" in process.stdout.readline() and "running" in process.stdout.readline()
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.communicate(timeout=60)


def post(url: str, **body: Any) -> tuple[int, bytes]:
    """Status and body of a completion."""
    request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


@RUNTIMES
def test_proof_and_watchdog_accept_the_llm(
    runtime: str, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "ROOT", tmp_path)
    page, answers, tokens = METRICS[runtime]
    name = ["--served-model-name", "llama"] if runtime == "vllm" else []
    with serving(runtime, weights, *name) as (url, _):
        settings = {"address": "127.0.0.1", "http_port": 1, "llm_port": int(url.rsplit(":", 1)[1])}
        settings |= {"restricted_header": "key", "start_seconds": 60}
        names = {"metrics_path": page, "answers_metric": answers, "tokens_metric": tokens}
        settings["llm"] = {"name": "llama", "runtime": runtime, **names}
        prove_llm.prove(prove_llm.Engine(settings, "main"))
        asker = watch_llm.Asker(settings, "main", 30)
        before = asker.progress()
        assert before and watch_llm.is_answered(asker)
        assert (asker.progress() or 0) > before


@RUNTIMES
def test_a_stream_counts_its_tokens_and_ends(runtime: str, weights: Path) -> None:
    with serving(runtime, weights) as (url, _):
        options = {"stream": True, "stream_options": {"include_usage": True}}
        status, body = post(url, model=str(weights), prompt=[1, 2, 3], max_tokens=3, **options)
    events = [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]
    assert (status, len(events), body.endswith(b"data: [DONE]\n\n")) == (200, 4, True)
    assert events[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}
    assert [event["choices"][0]["finish_reason"] for event in events[:-1]] == [None, None, "length"]


@RUNTIMES
@pytest.mark.parametrize(
    "wrong", [{"top_p": 0}, {"max_tokens": 4096}, {"prompt": []}, {"stream_options": {}}, {"no_such_field": 1}], ids=str
)
def test_a_body_that_the_program_refuses_is_refused(runtime: str, weights: Path, wrong: dict[str, Any]) -> None:
    with serving(runtime, weights) as (url, _):
        status, body = post(url, **({"model": str(weights), "prompt": [1], "max_tokens": 1} | wrong))
    assert (status, "error" in json.loads(body)) == (400, runtime == "vllm") or json.loads(body)["object"] == "error"


@RUNTIMES
def test_sigterm_ends_it_well(runtime: str, weights: Path) -> None:
    with serving(runtime, weights) as (_, process):
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--no-such-option"], 2, "unrecognized arguments: --no-such-option"),
        (["--max-model-len", "4096"], 1, "max_model_len (4096) is greater than the derived 128"),
    ],
)
def test_a_start_line_that_vllm_would_not_take_ends_with_its_words(
    weights: Path, words: list[str], status: int, message: str
) -> None:
    process = started("vllm", str(weights), *words)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, message in errors) == (status, True)


def test_weights_that_are_not_there_end_it(tmp_path: Path) -> None:
    process = started("trtllm-serve", str(tmp_path / "gone"))
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, "initialization failed" in errors) == (1, True)
