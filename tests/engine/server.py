"""The real tritonserver with rendered releases, the stand-in as its C++ backend, and a GPU that reports SM 90."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from deploy.slices.host import ServerSlice
from roles.triton.defaults import Defaults
from roles.triton.engine import engine_names
from roles.triton.flags import rank_flags
from roles.triton.render import render
from tests.encoders import real_triton
from tests.ports import free_ports

ROOT = Path(__file__).parents[2]
STAND_INS = ROOT / "rehearsal" / "inflight"
MPIRUN = ROOT / "rehearsal" / "llmapi" / "bin" / "mpirun"
FEW = Defaults(bls_instances=1)


@contextmanager
def running(work: Path, trtllm: str, ranks: ServerSlice | None = None) -> Iterator[Running]:
    """Yields a server without models that loads named models, like the product's.

    With `ranks`, mpirun also starts the server's other ranks on the release that it will load.
    """
    home = real_triton.installation()
    triton, repository, log = home / "pytriton" / "tritonserver", work / "models", work / "triton.log"
    repository.mkdir()
    http, grpc, metrics = free_ports(3)
    command = [str(triton / "bin" / "tritonserver"), f"--model-repository={repository}"]
    command += ["--model-control-mode=explicit", "--disable-auto-complete-config", "--log-verbose=0"]
    # Triton 2.51 counts a cancelled stream through an ensemble as unfinished, and would wait for it at exit.
    command += ["--exit-timeout-secs=2"]
    command += [f"--backend-directory={_backends(work, triton)}", real_triton.STUB_PATIENCE]
    for kind, port in (("http", http), ("grpc", grpc), ("metrics", metrics)):
        command += [f"--{kind}-address=127.0.0.1", f"--{kind}-port={port}"]
    environment = os.environ | {
        "PATH": f"{_gpu(work)}:{os.environ['PATH']}",
        "ENGINEHOUSE_INFLIGHT": str(STAND_INS / "all_models"),
        "REHEARSAL_TRTLLM": trtllm,
        "ENGINEHOUSE_HTTP": f"127.0.0.1:{http}",
    }
    if ranks:
        _write(repository, render(ranks, FEW))
        others = [
            command[0],
            command[1],
            command[6],
            *rank_flags(ranks, [name for model in ranks.models for name in engine_names(model)]),
        ]
        command = [str(MPIRUN), "-n", "1", *command, ":", "-n", str(ranks.mpi_ranks - 1), *others]
    packages = real_triton.link_packages(work / "packages", home)
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=packages, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            real_triton._await(process, http, log)
            started = Running(f"127.0.0.1:{http}", f"127.0.0.1:{grpc}", log, repository, process)
            started.metrics = f"127.0.0.1:{metrics}"
            # Stub processes start and end with the models, and a test kills one of several ranks.
            with nullcontext() if ranks else real_triton.watched(real_triton.Life(process, log)):
                yield started
        finally:
            process.terminate()
            process.wait(300)


class Running:
    """A server's addresses, log and repository."""

    def __init__(self, http: str, grpc: str, log: Path, repository: Path, process: subprocess.Popen[bytes]) -> None:
        self.http, self.grpc, self.log, self.repository, self.process = http, grpc, log, repository, process
        self.metrics = ""

    def serve(self, server: ServerSlice) -> str:
        """Loads every model of the release in the order of server.json; returns the first error or ""."""
        release = render(server, FEW)
        _write(self.repository, release)
        for model in json.loads(release["server.json"])["models"]:
            for name in model["loads"]:
                status, message = self.ask(f"/v2/repository/models/{name}/load", {})
                if status != 200:
                    return f"{name}: {message}"
        return ""

    def ask(self, path: str, body: dict[str, Any]) -> tuple[int, str]:
        """Returns status and body of one request."""
        request = urllib.request.Request(
            f"http://{self.http}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def stream(self, model: str, **question: Any) -> list[dict[str, Any]]:
        """Returns the events of /generate_stream."""
        _, text = self.ask(f"/v2/models/{model}/generate_stream", {"stream": True, **question})
        return [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:")] or [json.loads(text)]


def _write(repository: Path, release: dict[str, bytes]) -> None:
    """Writes the models of a release into the repository."""
    for path, content in release.items():
        if path.startswith("models/"):
            target = repository / path.removeprefix("models/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            # The container's repository is read-only: nothing compiled lands beside the code, where Triton would take
            # it for a change and load the model again with the ensemble.
            (target.parent / "__pycache__").touch()


def _backends(work: Path, triton: Path) -> Path:
    folder = work / "backends"
    folder.mkdir()
    for backend in (triton / "backends").iterdir():
        (folder / backend.name).symlink_to(backend)
    (folder / "tensorrtllm").symlink_to(STAND_INS / "backend")
    return folder


def _gpu(work: Path) -> Path:
    """Returns a directory with an nvidia-smi that reports SM 90."""
    folder = work / "bin"
    folder.mkdir()
    (folder / "nvidia-smi").write_text("#!/bin/sh\necho 9.0\n")
    (folder / "nvidia-smi").chmod(0o755)
    return folder
