"""A server's release as files. Pure: the same slice gives the same bytes everywhere.

    models/<model>/config.pbtxt     for Triton; parsed back with its own schema in the tests
    models/<model>/1/…              the encoders' code, or the LLM's model.yaml and its loader
    models/<model>_<role>/…         the other models of an engine (engine.py)
    python/…                        packages that repair the image; not here but added when it is sent (repairs.py)
    run, launch                     outside and inside the container
    hidden.py, passwd               keeps the key out of the list of processes; the name of the container's user
    spans.py                        receives spans of traced requests, if a gateway chooses some
    llm/…                           for an LLM beside Triton: its start line and settings (llm_files.py)
    server.json                     facts for `prove`, `swap` and a person

Each planned model is decided first (encoder.py, llmapi.py, engine.py); the server's own files follow from those.
"""

import json
from collections.abc import Sequence

from deploy.inventory.ssh_config import in_brackets
from deploy.models.files import ROOT, weights_path
from deploy.models.runtimes import OF_THE_RELEASE
from deploy.slices.container import CONTAINER_UID, ContainerSlice
from deploy.slices.host import EngineSlice, ModelSlice, ServerSlice
from roles._shipping import places
from roles._shipping.texts import HERE
from roles.triton import llm_files
from roles.triton.defaults import Defaults
from roles.triton.encoder import encoder
from roles.triton.engine import engine
from roles.triton.flags import HEADER, RESTRICTED, flags, is_orchestrator, rank_flags, repository_flags
from roles.triton.llmapi import llmapi
from roles.triton.loaded import Loaded
from roles.triton.templates import rendered
from roles.triton.times import docker_stop_seconds

UID = CONTAINER_UID
PASSWD = f"""root:x:0:0:root:/root:/bin/bash
triton-server:x:{UID}:{UID}::/var/cache/enginehouse:/bin/bash
"""
"""Content of the container's /etc/passwd: MPI and torch need a name for their user."""
NETWORK = "enginehouse"
INSIDE = (8000, 8001, 8002)
"""Ports of HTTP, gRPC and metrics inside every container of Triton."""
NO_MODELS = b"This server has no model of Triton's: its LLM is served beside it.\n"
HIDDEN = HERE / "files" / "launch" / "hidden.py"
SPANS = HERE / "files" / "spans" / "receiver.py"


def render(server: ServerSlice, settings: Defaults) -> dict[str, bytes]:
    """Every file of the release by its path."""
    loaded = [_loaded(model, server.image.trtllm, settings) for model in server.in_triton]
    files = {f"models/{path}": content for model in loaded for path, content in model.files.items()}
    if not loaded:  # Triton ends at once if the directory is not there
        files["models/README"] = NO_MODELS
    files["run"] = _run(server, settings)
    files["launch"] = _launch(server, loaded)
    files["hidden.py"] = HIDDEN.read_bytes()
    files["passwd"] = PASSWD.encode()
    if server.traces:
        files["spans.py"] = SPANS.read_bytes()
    if server.standalone_llm:
        files |= llm_files.render(server, *server.standalone_llm, settings, UID, NETWORK)
    files["server.json"] = (json.dumps(_server(server, loaded), indent=2, sort_keys=True) + "\n").encode()
    return files


def _loaded(model: ModelSlice, trtllm: str, settings: Defaults) -> Loaded:
    """A planned model in Triton's form."""
    if model.path == "engine":
        return engine(model, trtllm, settings)
    return llmapi(model) if model.kind == "llm" else encoder(model)


def container(server: ServerSlice, settings: Defaults) -> ContainerSlice:
    return ContainerSlice(
        name=f"triton-{server.name}",
        image=server.image.pull_reference,
        arguments=(f"{OF_THE_RELEASE}/launch",),
        uid=UID,
        address=server.address,
        ports=tuple(zip((server.http_port, server.grpc_port, server.metrics_port), INSIDE, strict=True)),
        devices=server.devices,
        directories=tuple(mounted(server)),
        environment=(("ENGINEHOUSE_RELEASE", OF_THE_RELEASE), ("HOME", llm_files.CACHE)),
        tmp_mib=settings.tmp_mib,
        pids_limit=settings.pids_limit,
        shm_mib=shm_mib(server),
        stop_seconds=docker_stop_seconds(server),
    )


def _run(server: ServerSlice, settings: Defaults) -> bytes:
    described = container(server, settings)
    more = {
        "server": server,
        "root": ROOT,
        "unit": f"triton@{server.name}.service",
        "unit_name": described.name,
        "network": NETWORK,
        "address": in_brackets(described.address),
        "runtime": f"{places.RUNTIME}/triton-{server.name}",
        "docker_stop_seconds": described.stop_seconds,
    }
    return rendered("run.j2", **vars(described) | more)


def _launch(server: ServerSlice, loaded: Sequence[Loaded]) -> bytes:
    engine_names = [name for model in loaded for name in model.engines]
    orchestrates = is_orchestrator(server, engine_names)
    return rendered(
        "launch.j2",
        server=server,
        flags=[*repository_flags(server), *flags(server, orchestrates)],
        rank_flags=rank_flags(server, engine_names),
        is_orchestrator=orchestrates,
        conversions=[conversion for model in loaded for conversion in model.conversions],
        restricted=RESTRICTED,
        header=HEADER,
    )


def engines(server: ServerSlice) -> tuple[EngineSlice, ...]:
    return tuple({engine.path: engine for model in server.models for engine in model.engines}.values())


def mounted(server: ServerSlice) -> list[str]:
    """Host directories that the container reads, at the same paths: weights, tokenizers, drafts, adapters, engines."""
    weights = [
        files for model in server.in_triton for files in (model.weights, model.drafts_with, *model.adapters) if files
    ]
    own = {model.directory for model in server.own_models}
    return sorted({weights_path(files) for files in weights} | {engine.path for engine in engines(server)} | own)


def shm_mib(server: ServerSlice) -> int:
    """Shared memory of the plan; with several ranks at least 1 GiB for each, because NCCL and MPI use it."""
    return max(server.shm_mib, 1024 * server.mpi_ranks if server.mpi_ranks > 1 else 0)


def _server(server: ServerSlice, loaded: Sequence[Loaded]) -> dict[str, object]:
    return {
        "server": server.name,
        "address": server.address,
        "http_port": server.http_port,
        "grpc_port": server.grpc_port,
        "metrics_port": server.metrics_port,
        "restricted_header": HEADER,
        "uid": UID,
        "start_seconds": server.start_seconds,
        "image": {
            "reference": server.image.reference,
            "digest": server.image.digest,
            "pull_reference": server.image.pull_reference,
            "triton_core": server.image.triton_core,
            "trtllm": server.image.trtllm,
        },
        "models": [
            {
                "name": model.name,
                "kind": model.kind,
                "path": model.path,
                "loads": as_loaded.names,
                "decoupled": model.decoupled,
                "dimensions": model.dimensions,
            }
            for model, as_loaded in zip(server.in_triton, loaded, strict=True)
        ],
        **({"own_models": [model.name for model in server.own_models]} if server.own_models else {}),
        "engines": [{"path": engine.path, "fingerprint": engine.fingerprint} for engine in engines(server)],
        **(llm_files.known_to_host(*server.standalone_llm, server.stop_seconds) if server.standalone_llm else {}),
    }
