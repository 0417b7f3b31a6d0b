"""Measures vLLM with gpt-oss-20b's exact shape, weights in MXFP4 as published, their values random.

    python -m benchmarks.gateway.gpt_oss --site DIR [--requests 512]

vLLM's own throughput benchmark computes the answers in its process: its server would fetch OpenAI's encoding from a
network. Prints one JSON line last: the figures, and the lines of its log about weights, kernels and memory.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gateway.shapes import CONTEXT, ENVIRONMENT, GPT_OSS, model

NOTED = re.compile(r"mxfp4|model loading took|kv cache (size|memory)|attention backend|graph captur", re.IGNORECASE)
SECONDS = 420


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Returns the result, which the last line also prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway.gpt_oss")
    parser.add_argument("--site", required=True, help="folder that has vLLM")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--answer-tokens", type=int, default=256)
    parser.add_argument("--requests", type=int, default=512)
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=[], help="more words of vLLM; last")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="gpt-oss-") as made:
        weights, figures = model(Path(made) / "gpt-oss-20b", GPT_OSS), Path(made) / "figures.json"
        listed = ["bench", "throughput", "--model", str(weights), "--load-format", "dummy", "--dataset-name", "random"]
        listed += ["--random-input-len", str(options.prompt_tokens), "--random-output-len", str(options.answer_tokens)]
        listed += ["--num-prompts", str(options.requests), "--max-model-len", str(CONTEXT), *options.serve]
        run = "import sys; from vllm.entrypoints.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", run, *listed, "--output-json", str(figures)]
        environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": options.site}
        done = subprocess.run(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS
        )
        result = {
            "benchmark": "gpt-oss-20b",
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "prompt_tokens": options.prompt_tokens,
            "answer_tokens": options.answer_tokens,
            "figures": json.loads(figures.read_text()) if figures.exists() else None,
            "log": [line[-240:] for line in done.stdout.splitlines() if NOTED.search(line)][:40],
            **({"end": done.stdout[-3000:]} if done.returncode else {}),
        }
    print(json.dumps(result), flush=True)
    return result


if __name__ == "__main__":
    main()
