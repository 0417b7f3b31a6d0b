"""Measures the gateway before a real LLM engine: vLLM's own benchmark asks `vllm serve`, the gateway and LiteLLM alike.

    python -m benchmarks.gateway.engine --site DIR --peer DIR [--encoders] [--rounds 3] [--into FILE]

`--site`: the folder that has vLLM (`pip install --target`), `--peer`: LiteLLM's. The model has the exact shape of
Llama-3.1-8B and random weights, tokenizer and template of the sittings on a real GPU. The same client process asks the
three in turn, each for the same (alike.py); the figures are medians of the rounds. Then OpenAI's and Anthropic's own
libraries, which vLLM's folder has, call the gateway. With `--encoders` both encoders run in the real Triton beside it,
and engine and gateway are asked once more while they are under load. Prints one JSON line last, and keeps it in a file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gateway import alike, encoder_load
from benchmarks.gateway.alike import ENGINE, GATEWAY, PEER, Servers
from benchmarks.gateway.processes import ROOT, Process, begun, free_ports, heard, listens, litellm, start_gateway
from rehearsal.real_gpu.generating import Prompts
from rehearsal.real_gpu.weights import llama_files

CONTEXT = 8_192
ENVIRONMENT = {"VLLM_USE_FLASHINFER_SAMPLER": "0", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
START_SECONDS = 400
LIBRARY_SECONDS = 240
MODEL, EMBEDDER = "llama", "nomic"


class Kept(dict[str, Any]):
    """A result that is written to a file after each of its parts."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._file.write_text(json.dumps(self) + "\n")


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Returns the result, which the last line also prints."""
    options = parser().parse_args(words)
    os.environ.update(ENVIRONMENT)
    result = Kept(options.into)
    result["benchmark"], result["at"] = "gateway-engine", datetime.now(UTC).isoformat(timespec="seconds")
    result["cores"], result["sampling"] = len(os.sched_getaffinity(0)), alike.SAMPLING
    result["prompt_tokens"], result["answer_tokens"] = alike.PROMPT_TOKENS, alike.ANSWER_TOKENS
    with tempfile.TemporaryDirectory(prefix="engine-") as made, contextlib.ExitStack() as stack:
        measure(options, Path(made), stack, result)
    print(json.dumps(result), flush=True)
    return result


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.gateway.engine")
    made.add_argument("--site", required=True, help="folder that has vLLM")
    made.add_argument("--peer", default="", help="folder that has litellm[proxy]; absent: LiteLLM is not asked")
    made.add_argument("--encoders", action="store_true", help="both encoders beside it, with the real Triton")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--into", type=Path, default=Path("gateway-engine.json"), help="file of the result")
    made.add_argument("--serve", nargs=argparse.REMAINDER, default=[], help="more words of `vllm serve`; last")
    return made


def measure(options: argparse.Namespace, work: Path, stack: contextlib.ExitStack, result: Kept) -> None:
    """Starts all programs, then measures; each part is added to the result at once."""
    ports = dict(zip((ENGINE, GATEWAY, PEER), free_ports(3), strict=True))
    weights = work / MODEL
    llama_files(weights, "8b")
    engine = stack.enter_context(begun(serve(weights, ports[ENGINE], options.serve), path=options.site))
    encoders = stack.enter_context(encoder_load.encoders(work / "encoders")) if options.encoders else None
    client = stack.enter_context(bench(options.site))
    ready(engine, ports[ENGINE])
    say("the engine is ready")
    file = settings(work, weights, ports, encoders[0].grpc if encoders else "")
    stack.enter_context(start_gateway(file, 0, more=options.site))
    if options.peer:
        command = litellm(work, ports[ENGINE], ports[PEER])
        listens(ports[PEER], stack.enter_context(begun(command, path=options.peer)))
    else:
        del ports[PEER]
    prompts = Prompts(weights / "tokenizer.json", 11)
    servers = Servers(
        ports,
        MODEL,
        weights,
        work,
        lambda words: ask(client, words),
        lambda: page(ports[ENGINE]),
        lambda: prompts.text(alike.PROMPT_TOKENS)[0],
    )
    result["calls"] = libraries(options.site, ports[GATEWAY], EMBEDDER if encoders else "")
    alike.judged(result, servers.rows(result, "streams", alike.LOADS, options.rounds))
    if encoders:
        ports.pop(PEER, None)
        with encoders[1]() as documents:
            servers.rows(result, "beside_encoders", alike.BESIDE_ENCODERS, 1)
        result["encoders_meanwhile"] = encoder_load.rates_of(documents)


def say(text: str) -> None:
    """Prints the progress."""
    print(time.strftime("%T"), text, file=sys.stderr, flush=True)


def libraries(site: str, port: int, embedder: str) -> list[dict[str, Any]]:
    """Returns a line for each call of OpenAI's and Anthropic's libraries to the gateway (sdk_calls.py)."""
    variables = {
        "PYTHONPATH": f"{site}:{ROOT}",
        "ENGINEHOUSE_URL": f"http://127.0.0.1:{port}",
        "OPENAI_API_KEY": "sk-x",
    }
    command = [sys.executable, "-m", "rehearsal.real_gpu.sdk_calls", MODEL, *filter(None, [embedder])]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | variables, stdout=subprocess.PIPE, text=True, timeout=LIBRARY_SECONDS
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"client"')]


def ask(client: Process, words: list[str]) -> dict[str, Any]:
    """Returns the result of a run of vLLM's benchmark."""
    assert client.stdin
    print(json.dumps(words), file=client.stdin, flush=True)
    while not (line := heard(client)).startswith('{"'):
        pass
    result: dict[str, Any] = json.loads(line)
    say(f"{words[words.index('--base-url') + 1]} {line}")
    return result


def page(port: int) -> str:
    """Returns the engine's metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


@contextlib.contextmanager
def bench(site: str) -> Iterator[Process]:
    """Yields a process with vLLM's benchmark imported, which runs each received list of arguments."""
    with begun([sys.executable, "-m", "benchmarks.gateway.engine_client"], path=f"{site}:{ROOT}", says=True) as process:
        yield process


def serve(weights: Path, port: int, more: list[str]) -> list[str]:
    """Returns the command of `vllm serve` with random weights of that shape."""
    words = ["--served-model-name", MODEL, "--load-format", "dummy", "--max-model-len", str(CONTEXT)]
    words += ["--host", "127.0.0.1", "--port", str(port), "--enable-prefix-caching", "--disable-uvicorn-access-log"]
    run = "import sys; from vllm.entrypoints.cli.main import main; sys.exit(main())"
    return [sys.executable, "-c", run, "serve", str(weights), *words, "--enable-prompt-tokens-details", *more]


def ready(process: Process, port: int) -> None:
    """Waits until the engine is ready.

    Raises: TimeoutError if it is not in time, or has ended.
    """
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
            return
        time.sleep(0.5)
    raise TimeoutError("vllm serve did not become ready")


def settings(work: Path, weights: Path, ports: dict[str, int], triton: str) -> Path:
    """Writes the gateway's settings: the engine behind it over HTTP with salts, an embedder in Triton, no keys."""
    salt = work / "salt"
    salt.write_text("0123456789abcdef" * 4)
    llama = {"kind": "llm", "servers": ["here/engine"], "context_tokens": CONTEXT, "files": str(weights)}
    llama |= {"tool_parser": "llama3_json", "guided_decoding": True, "salts": True}
    nomic = {"kind": "embedder", "servers": ["here/triton"], "triton_model": "embedder", "dimensions": 768}
    nomic |= {"max_items": 64, "max_tokens": 512, "tasks": ["search_query", "search_document"]}
    values = {
        "salt_file": str(salt),
        "listen": {"ports": [ports[GATEWAY]], "drain_seconds": 5, "notice_seconds": 1},
        "servers": {"here/engine": {"http": f"127.0.0.1:{ports[ENGINE]}", "runtime": "vllm"}}
        | ({"here/triton": {"grpc": triton}} if triton else {}),
        "models": {MODEL: llama} | ({EMBEDDER: nomic} if triton else {}),
    }
    path = work / "settings.json"
    path.write_text(json.dumps(values))
    return path


if __name__ == "__main__":
    main()
