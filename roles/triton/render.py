"""A server's release as files, and the id that names them: pure, so the same slice gives the same bytes everywhere.

    models/<model>/config.pbtxt     for Triton; parsed back with its own schema in the tests
    models/<model>/1/…              the encoders' code, or the LLM's model.yaml and its loader
    models/<model>_<role>/…         the further models of an engine (engine.py)
    python/…                        packages that repair the image; not here but added when it is sent (repairs.py)
    run, launch                     outside and inside the container
    server.json                     what `prove`, `swap` and a person need to know

The id covers every byte, the pinned wheels and the unit: whatever changes the running server is another release.
"""

from __future__ import annotations

import hashlib
import json

import yaml

from deploy.files import weights_path
from deploy.slice import EngineSlice, ModelSlice, ServerSlice
from roles import places
from roles.repairs import wheels
from roles.texts import HERE
from roles.triton import llmapi
from roles.triton.defaults import Defaults
from roles.triton.engine import conversions, engine_files, is_orchestrator, load_order
from roles.triton.flags import HEADER, RESTRICTED, docker_stop_seconds, flags, rank_flags
from roles.triton.templates import rendered

FILES = HERE / "files"
UID = 1000  # `triton-server` in NVIDIA's images
NETWORK = "enginehouse"
EXECUTABLE = ("run", "launch")


def render(server: ServerSlice, settings: Defaults) -> dict[str, bytes]:
    """Every file of the release by its path inside it."""
    found: dict[str, bytes] = {}
    for model in server.models:
        found |= {f"models/{path}": content for path, content in _model(model, server.image.trtllm, settings).items()}
    found["run"] = _run(server, settings)
    found["launch"] = _launch(server)
    found["server.json"] = (json.dumps(_server(server), indent=2, sort_keys=True) + "\n").encode()
    return found


def release_id(server: ServerSlice, files: dict[str, bytes]) -> str:
    """Sixteen hex digits over the files, the wheels that will be added, and the unit that runs them."""
    digest = hashlib.sha256()
    parts = sorted(files.items())
    parts += [(wheel.file, wheel.digest.encode()) for wheel in wheels(server.image.repairs)]
    parts += [("unit", (FILES / "units" / "triton@.service").read_bytes())]
    for path, content in parts:
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _model(model: ModelSlice, trtllm: str, settings: Defaults) -> dict[str, bytes]:
    """The files of one planned model, which may be several to Triton."""
    if model.path == "engine":
        return engine_files(model, trtllm, settings)
    files = _llmapi(model) if model.kind == "llm" else _encoder(model)
    return {f"{model.name}/{path}": content for path, content in files.items()}


def _llmapi(model: ModelSlice) -> dict[str, bytes]:
    return {
        "config.pbtxt": rendered(
            "llm.pbtxt.j2",
            name=model.name,
            decoupled=model.decoupled,
            max_running=model.settings["max_batch_size"],
            max_queue_size=model.max_queue_size,
            **llmapi.TENSORS,
        ),
        "1/model.yaml": _model_yaml(model),
        "1/model.py": (FILES / "llm" / "llmapi.py").read_bytes(),
    }


def _encoder(model: ModelSlice) -> dict[str, bytes]:
    code = {f"1/encoders/{path.name}": path.read_bytes() for path in sorted((FILES / "encoders").glob("*.py"))}
    return {
        "config.pbtxt": _encoder_config(model),
        "1/model.py": (FILES / "encoders" / "models" / f"{model.kind}.py").read_bytes(),
        **code,
    }


def _encoder_config(model: ModelSlice) -> bytes:
    parameters = {key: str(value) for key, value in model.settings.items() if key != "dimensions"}
    return rendered(
        f"{model.kind}.pbtxt.j2",
        name=model.name,
        max_batch_size=model.max_batch_size,
        max_queue_delay_microseconds=model.max_queue_delay_microseconds,
        max_queue_size=model.max_queue_size,
        default_timeout_microseconds=0,
        dimensions=model.dimensions,
        parameters=parameters,
    )


def _model_yaml(model: ModelSlice) -> bytes:
    """All keys but `triton_config` become arguments of TensorRT-LLM's LLM class."""
    return yaml.safe_dump(model.settings, sort_keys=False).encode()


def _launch(server: ServerSlice) -> bytes:
    return rendered(
        "launch.j2",
        server=server,
        flags=flags(server),
        rank_flags=rank_flags(server),
        is_orchestrator=is_orchestrator(server),
        conversions=[one for model in server.models for one in conversions(model)],
        restricted=RESTRICTED,
        header=HEADER,
    )


def _run(server: ServerSlice, settings: Defaults) -> bytes:
    inside = (8000, 8001, 8002)
    return rendered(
        "run.j2",
        server=server,
        root=places.ROOT,
        uid=UID,
        unit=f"triton@{server.name}.service",
        unit_name=f"triton-{server.name}",
        network=NETWORK,
        address=f"[{server.address}]" if ":" in server.address else server.address,
        ports=list(zip((server.http_port, server.grpc_port, server.metrics_port), inside, strict=True)),
        shm_mib=shm_mib(server),
        directories=mounted(server),
        runtime=f"{places.RUNTIME}/triton-{server.name}",
        tmp_mib=settings.tmp_mib,
        pids_limit=settings.pids_limit,
        docker_stop_seconds=docker_stop_seconds(server),
        image=server.image.pull_reference,
    )


def engines(server: ServerSlice) -> tuple[EngineSlice, ...]:
    """The engines a server loads, each once."""
    return tuple({engine.path: engine for model in server.models for engine in model.engines}.values())


def mounted(server: ServerSlice) -> list[str]:
    """Directories of the host the container reads, at the same paths: weights or tokenizers, adapters, engines."""
    weights = {weights_path(each) for model in server.models for each in (model.weights, *model.adapters)}
    return sorted(weights | {engine.path for engine in engines(server)})


def shm_mib(server: ServerSlice) -> int:
    """What the plan says; with several ranks at least 1 GiB for each, which NCCL and MPI exchange data through."""
    return max(server.shm_mib, 1024 * server.mpi_ranks if server.mpi_ranks > 1 else 0)


def _server(server: ServerSlice) -> dict[str, object]:
    return {
        "server": server.name,
        "address": server.address,
        "http_port": server.http_port,
        "grpc_port": server.grpc_port,
        "metrics_port": server.metrics_port,
        "restricted_header": HEADER,
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
                "name": each.name,
                "kind": each.kind,
                "path": each.path,
                "loads": load_order(each),
                "decoupled": each.decoupled,
                "dimensions": each.dimensions,
            }
            for each in server.models
        ],
        "engines": [{"path": each.path, "fingerprint": each.fingerprint} for each in engines(server)],
    }
