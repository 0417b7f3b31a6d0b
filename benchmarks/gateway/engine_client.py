"""Runs vLLM's own benchmark, imported once, for the engine's benchmark. Each input line is a list of its arguments.

PYTHONPATH=DIR python -m benchmarks.gateway.engine_client
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import sys

KEPT = ("request_throughput", "output_throughput", "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "completed")


def main() -> None:
    """Prints a JSON object for each line, with the figures of the run."""
    os.environ.setdefault("OPENAI_API_KEY", "sk-benchmark")
    serve = importlib.import_module("vllm.benchmarks.serve")
    arguments = importlib.import_module("vllm.utils.argparse_utils")
    for line in sys.stdin:
        parser = arguments.FlexibleArgumentParser()
        serve.add_cli_args(parser)
        options = parser.parse_args(json.loads(line))
        with contextlib.redirect_stdout(sys.stderr):
            result = asyncio.run(serve.main_async(options))
        failed = options.num_prompts - int(result["completed"])
        print(json.dumps({"failed": failed, **{name: result[name] for name in KEPT}}), flush=True)


if __name__ == "__main__":
    main()
