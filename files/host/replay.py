#!/usr/bin/python3
"""Answers prompts greedily, from an engine or from its checkpoint; runs inside the release's container.

    replay.py (--engine DIR | --checkpoint DIR) --tokenizer DIR --prompts FILE --max-tokens N --output FILE …

It writes one JSON object a line, prompts first, then tasks: {"kind", "prompt", "tokens", "text"}. Only the model is
compared, so it takes one prompt at a time (a batch changes the order of sums), greedily, with one seed, without reuse
of the cache, and with the same end tokens for both sides: an engine's directory has no generation_config.json for them.

The checkpoint answers through the PyTorch backend. Read in TensorRT-LLM's sources from 0.18 to 1.2: up to 0.21 one LLM
class serves both, from 1.0 the engine's class is in `tensorrt_llm._tensorrt_engine`. With more than one rank, the class
starts the others itself, over MPI.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

SEED = 0
# Of what is free once the weights are loaded: a few sequences of one prompt each.
CACHE_FRACTION = 0.5
ENDS = ("generation_config.json", "config.json")


def main() -> int:
    options = arguments()
    prompts = [("prompt", prompt) for prompt in questions(options.prompts)]
    prompts += [("task", task) for task in questions(options.tasks)] if options.tasks else []
    model = engine(options) if options.engine else checkpoint(options)
    sampling = greedy(options)
    partial = options.output.with_name(f"{options.output.name}.partial")
    with partial.open("w", encoding="utf-8") as output:
        for number, (kind, prompt) in enumerate(prompts, start=1):
            print(f"{kind} {number} of {len(prompts)}", flush=True)
            answer = model.generate(prompt, sampling, use_tqdm=False).outputs[0]
            row = {"kind": kind, "prompt": prompt, "tokens": list(answer.token_ids), "text": answer.text}
            output.write(json.dumps(row, ensure_ascii=False) + "\n")
        output.flush()
        os.fsync(output.fileno())
    partial.rename(options.output)
    model.shutdown()
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--engine", type=Path)
    source.add_argument("--checkpoint", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True, help="directory of the published weights")
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--max-tokens", type=int, required=True)
    parser.add_argument("--tensor", type=int, default=1)
    parser.add_argument("--pipeline", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args()


def questions(file: Path) -> list[str]:
    """The prompts of a file: a line is a JSON object with `prompt`, or a JSON text."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [row if isinstance(row, str) else row["prompt"] for row in rows]


def engine(options: argparse.Namespace) -> Any:
    """The compiled engine, loaded; its own config.json has the number of ranks."""
    try:
        from tensorrt_llm._tensorrt_engine import LLM
    except ImportError:
        from tensorrt_llm import LLM
    return LLM(model=str(options.engine), tokenizer=str(options.tokenizer), **shared(options))


def checkpoint(options: argparse.Namespace) -> Any:
    """The published weights behind the PyTorch backend, which rounds as the authors' own code does."""
    from tensorrt_llm import LLM

    return LLM(model=str(options.checkpoint), backend="pytorch", max_batch_size=1, **shared(options))


def shared(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments that both ways of loading take."""
    from tensorrt_llm.llmapi import KvCacheConfig

    cache = KvCacheConfig(free_gpu_memory_fraction=CACHE_FRACTION, enable_block_reuse=False)
    parallelism = {"tensor_parallel_size": options.tensor, "pipeline_parallel_size": options.pipeline}
    return {"kv_cache_config": cache, **parallelism}


def greedy(options: argparse.Namespace) -> Any:
    """Settings for always the likeliest token, until one of the checkpoint's end tokens."""
    from tensorrt_llm import SamplingParams

    ids = end_tokens(options.tokenizer)
    ends = {"end_id": ids[0], "pad_id": ids[0], "stop_token_ids": ids[1:] or None} if ids else {}
    return SamplingParams(max_tokens=options.max_tokens, top_k=1, seed=SEED, **ends)


def end_tokens(directory: Path) -> list[int]:
    """The tokens that end an answer, by the published files; empty if they leave it to the tokenizer."""
    for name in ENDS:
        if (directory / name).is_file():
            ids = json.loads((directory / name).read_text(encoding="utf-8")).get("eos_token_id")
            if ids is not None:
                return [ids] if isinstance(ids, int) else list(ids)
    return []


if __name__ == "__main__":
    sys.exit(main())
