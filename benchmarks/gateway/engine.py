"""Measures the gateway before a real LLM engine: vLLM's own benchmark asks `vllm serve`, the gateway and LiteLLM.

    python -m benchmarks.gateway.engine --site DIR --peer DIR [--streams 1 16 64 256] [--rounds 2]

`--site`: the folder that has vLLM (`pip install --target`), `--peer`: LiteLLM's. The model has the exact shape of
Llama-3.1-8B, random weights, and a tokenizer with a word for each of its ids, so that every token is text of a stream.
The prompts are vLLM's random ones, the answers have the requested length. The same client process asks the three in
turn, `--rounds` times; the figures are medians of the rounds. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from benchmarks.gateway.processes import ROOT, Process, begun, free_ports, heard, listens, litellm, start_gateway

VOCABULARY, CONTEXT = 128_256, 4_096
SHAPE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 131_072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500_000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": VOCABULARY - 2,
    "eos_token_id": VOCABULARY - 1,
    "torch_dtype": "bfloat16",
}
"""config.json of Llama-3.1-8B as published; read on 2026-11-25."""
TEMPLATE = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"
START_SECONDS = 400
ENVIRONMENT = {"VLLM_USE_FLASHINFER_SAMPLER": "0", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
FIGURES = {
    "requests_per_second": "request_throughput",
    "tokens_per_second": "output_throughput",
    "first_token_ms_p50": "median_ttft_ms",
    "first_token_ms_p99": "p99_ttft_ms",
    "token_ms_p50": "median_tpot_ms",
    "failed": "failed",
}


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Returns the result, which the last line also prints."""
    options = parser().parse_args(words)
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="engine-") as made, contextlib.ExitStack() as stack:
        work = Path(made)
        ports = dict(zip(("engine", "gateway", "litellm"), free_ports(3), strict=True))
        weights = model(work / "llama")
        stack.enter_context(engine(weights, ports["engine"], options))
        stack.enter_context(start_gateway(settings(work, weights, ports), 0))
        if options.peer:
            command = litellm(work, ports["engine"], ports["litellm"])
            listens(ports["litellm"], stack.enter_context(begun(command, path=options.peer)))
        else:
            del ports["litellm"]
        client = stack.enter_context(bench(options.site))
        result = {
            "benchmark": "gateway-engine",
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "cores": len(os.sched_getaffinity(0)),
            "prompt_tokens": options.prompt_tokens,
            "answer_tokens": options.answer_tokens,
            "loads": [load(client, ports, weights, streams, options) for streams in options.streams],
        }
    print(json.dumps(result), flush=True)
    return result


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.gateway.engine")
    made.add_argument("--site", required=True, help="folder that has vLLM")
    made.add_argument("--peer", default="", help="folder that has litellm[proxy]; absent: LiteLLM is not asked")
    made.add_argument("--streams", type=int, nargs="+", default=[1, 16, 64, 256])
    made.add_argument("--prompt-tokens", type=int, default=512)
    made.add_argument("--answer-tokens", type=int, default=128)
    made.add_argument("--requests", type=int, default=4, help="of each stream in a round; of one stream 16")
    made.add_argument("--rounds", type=int, default=2)
    made.add_argument("--serve", nargs=argparse.REMAINDER, default=[], help="more words of `vllm serve`; last")
    return made


def load(
    client: Process, ports: dict[str, int], weights: Path, streams: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Returns figures of each server by its name, at a number of streams."""
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in ports}
    for number in range(options.rounds):
        for name, port in ports.items():
            # No prompt comes twice, so that no server finds another's in the engine's cache of prefixes.
            seed = port + 100_000 * (100 * streams + number)
            result = ask(client, words(port, weights, streams, seed, options))
            rounds[name].append({figure: float(result[key]) for figure, key in FIGURES.items()})
            print(streams, name, rounds[name][-1], file=sys.stderr, flush=True)
    medians = {
        name: {figure: round(statistics.median(row[figure] for row in rows), 3) for figure in FIGURES}
        for name, rows in rounds.items()
    }
    return {"streams": streams, **medians}


def words(port: int, weights: Path, streams: int, seed: int, options: argparse.Namespace) -> list[str]:
    """Returns the command line of `vllm bench serve`."""
    requests = 16 if streams == 1 else streams * options.requests
    numbers = {
        "--random-input-len": options.prompt_tokens,
        "--random-output-len": options.answer_tokens,
        "--num-prompts": requests,
        "--max-concurrency": streams,
        "--seed": seed,
    }
    listed = [
        "--backend",
        "openai-chat",
        "--endpoint",
        "/v1/chat/completions",
        "--base-url",
        f"http://127.0.0.1:{port}",
    ]
    listed += ["--model", "llama", "--tokenizer", str(weights), "--dataset-name", "random", "--ignore-eos"]
    listed += ["--disable-tqdm", "--num-warmups", "8"]
    return [*listed, *(word for name, number in numbers.items() for word in (name, str(number)))]


def ask(client: Process, listed: list[str]) -> dict[str, Any]:
    """Returns the result of a run of vLLM's benchmark."""
    assert client.stdin
    print(json.dumps(listed), file=client.stdin, flush=True)
    while not (line := heard(client)).startswith('{"'):
        pass
    result: dict[str, Any] = json.loads(line)
    return result


@contextlib.contextmanager
def bench(site: str) -> Iterator[Process]:
    """Yields a process with vLLM's benchmark imported, which runs each received list of arguments."""
    with begun([sys.executable, "-m", "benchmarks.gateway.engine_client"], path=f"{site}:{ROOT}", says=True) as process:
        yield process


@contextlib.contextmanager
def engine(weights: Path, port: int, options: argparse.Namespace) -> Iterator[Process]:
    """Runs `vllm serve` with these weights; yields its process once it is ready."""
    served = ["--served-model-name", "llama", "--load-format", "dummy", "--max-model-len", str(CONTEXT)]
    served += ["--host", "127.0.0.1", "--port", str(port), "--gpu-memory-utilization", "0.85", *options.serve]
    run = "import sys; from vllm.entrypoints.cli.main import main; sys.exit(main())"
    with begun([sys.executable, "-c", run, "serve", str(weights), *served], path=options.site) as process:
        until = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                yield process
                return
            time.sleep(1)
        raise TimeoutError("vllm serve did not become ready")


def settings(work: Path, weights: Path, ports: dict[str, int]) -> Path:
    """Writes the gateway's settings: the engine behind it over HTTP, without keys."""
    llama = {"kind": "llm", "servers": ["here/engine"], "created": 0, "context_tokens": CONTEXT, "files": str(weights)}
    values = {
        "listen": {"ports": [ports["gateway"]], "drain_seconds": 5, "notice_seconds": 1},
        "servers": {"here/engine": {"http": f"127.0.0.1:{ports['engine']}", "runtime": "vllm"}},
        "models": {"llama": llama},
    }
    path = work / "settings.json"
    path.write_text(json.dumps(values))
    return path


def model(folder: Path) -> Path:
    """Writes the files of a published model, except its weights."""
    folder.mkdir()
    vocabulary = {f"w{number}": number for number in range(VOCABULARY - 2)}
    special = {"<bos>": VOCABULARY - 2, "<eos>": VOCABULARY - 1}
    tokenizer = Tokenizer(models.WordLevel(vocabulary | special, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<bos>", "eos_token": "<eos>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": TEMPLATE}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "config.json").write_text(json.dumps(SHAPE))
    return folder


if __name__ == "__main__":
    main()
