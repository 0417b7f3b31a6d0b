"""Runs a Triton with a release's encoders without a container, in the Python of the machine with the GPU.

    python -m rehearsal.real_gpu.bare < release.json

Reads one line: `files` of a model repository by path, and `flags`. Prints one line once every model is ready:
addresses, process id, seconds, the encoders' kernels. Serves until its standard input is closed, so that it never
outlives its parent.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import triton
from rehearsal.real_gpu.served import kernels

LOG_SECONDS = 30.0
"""Seconds for the last line of a log: a model may be ready before its Python process has handed its lines to Triton."""


def main() -> None:
    """Serves the release in the first line of standard input until that is closed."""
    request = json.loads(sys.stdin.readline())
    with tempfile.TemporaryDirectory(prefix="bare-") as folder:
        repository, run, compiled = (Path(folder, name) for name in ("repository", "run", "compiled"))
        for path, text in request["files"].items():
            (repository / path).parent.mkdir(parents=True, exist_ok=True)
            (repository / path).write_text(text, "utf-8")
        with triton.serving(repository, run, compiled, request["flags"]) as server:
            answer = {"grpc": server.grpc, "http": server.http, "pid": server.process.pid}
            models = {path.partition("/")[0] for path in request["files"]}
            answer |= {"kernels": logged(server.log, models), "seconds": round(server.seconds_to_ready, 1)}
            print(json.dumps(answer), flush=True)
            sys.stdin.read()


def logged(log: Path, models: set[str], seconds: float = LOG_SECONDS) -> dict[str, list[str]]:
    """Returns the kernels of each model in the log, read until it names all of them or the time is over."""
    end = time.monotonic() + seconds
    while not models <= (by_model := kernels(log.read_text("utf-8", "replace"))).keys():
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    return by_model


if __name__ == "__main__":
    main()
