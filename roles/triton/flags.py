"""The flags of this Triton, as a pure table over the core's version.

tritonserver exits with 1 on an unknown option, so a flag is passed only to cores that have it. Source:
triton-inference-server/server src/command_line_parser.cc at the release branches, read 2026-11.
"""

from collections.abc import Sequence

from deploy.slices.host import ServerSlice

RESTRICTED = ("model-repository", "model-config", "shared-memory", "trace", "logging")
"""Restricted endpoints: loading a model runs code, a configuration shows paths, shared memory reads the server's
memory, trace and logging write files. Clients need only health, metadata and inference; statistics are counts and
times, as in /metrics."""

HEADER = "enginehouse-key"
"""HTTP header of the restricted endpoints; over gRPC the metadata is `triton-grpc-protocol-enginehouse-key`."""

SINCE: tuple[tuple[tuple[int, int], str], ...] = (
    ((2, 52), "--metrics-config=histogram_latencies=true"),  # 24.11
    ((2, 60), "--http-max-input-size=67108864"),  # mid-2025; Triton's default, written out
    ((2, 68), "--allow-client-shm=false"),  # 26.04; before it clients could always register shared memory
)


TRACES = (
    "--trace-config=mode=opentelemetry",
    "--trace-config=opentelemetry,url=http://127.0.0.1:4318/v1/traces",
    "--trace-config=level=TIMESTAMPS",
    "--trace-config=rate=0",
)
"""Flags that trace only requests with a `traceparent` (rate=0, since 2.42). Spans have times, never tensors, and are
sent to files/spans/receiver.py in the server's own container."""


def is_orchestrator(server: ServerSlice, engines: Sequence[str]) -> bool:
    """True if each engine needs a separate process beside Triton: the C++ runtime holds one (TensorRT-LLM issue 984).

    `engines`: names of the models behind the C++ backend. With several ranks, every rank is already a separate process.
    """
    return server.mpi_ranks == 1 and len(engines) > 1


def flags(server: ServerSlice, orchestrates: bool = False) -> list[str]:
    """Flags of tritonserver, except the restricted ones, whose key is known only at start."""
    always = [
        "--model-control-mode=explicit",
        "--exit-on-error=true",
        "--strict-readiness=true",
        "--disable-auto-complete-config",
        f"--exit-timeout-secs={server.stop_seconds}",
        f"--log-verbose={server.log_verbose}",
        f"--backend-config=python,stub-timeout-seconds={server.start_seconds}",
        "--backend-config=python,shm-default-byte-size=16777216",
        "--backend-config=python,shm-growth-byte-size=16777216",
    ]
    if orchestrates:
        # pools of the parent process would only reduce the memory of its engines' processes
        always += ["--pinned-memory-pool-byte-size=0", "--enable-peer-access=false"]
        always += [f"--cuda-memory-pool-byte-size={gpu}:0" for gpu in range(len(server.gpus))]
    if server.traces:
        always += TRACES
    return always + [flag for since, flag in SINCE if core(server.image.triton_core) >= since]


def repository_flags(server: ServerSlice) -> list[str]:
    """A flag for each model repository of the operator; Triton reads them beside its own, but loads no model from them
    at its start."""
    return [f"--model-repository={path}" for path in dict.fromkeys(model.repository for model in server.own_models)]


def rank_flags(server: ServerSlice, engines: Sequence[str]) -> list[str]:
    return [
        "--model-control-mode=explicit",
        *(f"--load-model={name}" for name in engines),
        "--exit-on-error=true",
        "--disable-auto-complete-config",
        f"--exit-timeout-secs={server.stop_seconds}",
        f"--log-verbose={server.log_verbose}",
        *(f"--allow-{kind}=false" for kind in ("http", "grpc", "metrics")),
    ]


def core(version: str) -> tuple[int, int]:
    """Major and minor of a core version, "2.71.0" → (2, 71)."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)
