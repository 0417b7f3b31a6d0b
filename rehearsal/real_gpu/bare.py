"""A Triton with a release's encoders and no container, for the Python of the machine that has the GPU.

    python -m rehearsal.real_gpu.bare < release.json

Reads one line: `files` of a model repository by path, and `flags`. Says one line once every model is ready: addresses,
process id, seconds, the encoders' kernels. Serves until its standard input is closed, so that it never outlives who
started it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from benchmarks import triton
from rehearsal.real_gpu.served import kernels


def main() -> None:
    """Serves what the first line of standard input says, until that is closed."""
    request = json.loads(sys.stdin.readline())
    with tempfile.TemporaryDirectory(prefix="bare-") as folder:
        repository, run, compiled = (Path(folder, name) for name in ("repository", "run", "compiled"))
        for path, text in request["files"].items():
            (repository / path).parent.mkdir(parents=True, exist_ok=True)
            (repository / path).write_text(text, "utf-8")
        with triton.serving(repository, run, compiled, request["flags"]) as server:
            answer = {"grpc": server.grpc, "http": server.http, "pid": server.process.pid}
            answer |= {"kernels": kernels(server.log.read_text()), "seconds": round(server.seconds_to_ready, 1)}
            print(json.dumps(answer), flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main()
