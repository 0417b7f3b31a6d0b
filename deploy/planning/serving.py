"""A server and its models in the plan: memory of each, paths, engines, settings."""

from collections.abc import Iterable
from dataclasses import replace

from deploy.engine.engines import engines_of, replay_slice
from deploy.engine.runtime import runtime_settings
from deploy.models.budget import Share, is_beside, reuses_blocks, server_budget
from deploy.models.devices import device_name
from deploy.models.files import adapters_of, shared_directories, speculative_weights_of, weights_of, weights_path
from deploy.models.memory import SERVER_MIB
from deploy.models.resolve import Served, gpu_of, kv_dtype_of, layout_of, precision_of, serve
from deploy.models.runtimes import path_of, runtime_slice
from deploy.models.settings import settings_of
from deploy.slices.host import EngineSlice, ModelSlice, ServerSlice
from deploy.slices.image import ImageSlice
from deploy.slices.own_model import OwnModelSlice
from deploy.spec import LLM, Host, Model, Server
from deploy.spec.surroundings import Surroundings


def server_slice(server: Server, host: Host, image: ImageSlice, surroundings: Surroundings) -> ServerSlice:
    """The server with its models in load order.

    Encoders come first, then LLMs, and last the LLM whose cache takes the remaining memory.
    """
    served = sorted(served_by(server, host, surroundings), key=_load_order)
    gpu = gpu_of(host, server)
    assert gpu, "an unknown MIG profile passed the checks"
    budget = server_budget(server, served, gpu, image.trtllm)
    models = tuple(
        model_slice(model, share, server, host, image, surroundings)
        for model, share in zip(served, budget.shares, strict=True)
    )
    return ServerSlice(
        name=server.name,
        gpus=server.gpus,
        http_port=server.http_port,
        grpc_port=server.grpc_port,
        metrics_port=server.metrics_port,
        address=server.address,
        log_verbose=server.log_verbose,
        stop_seconds=server.stop_seconds,
        start_seconds=server.start_seconds,
        shm_mib=server.shm_mib,
        image=image,
        models=models,
        overhead_mib=SERVER_MIB,
        devices=tuple(device_name(index, host) for index in server.gpus),
        # one tritonserver for each rank; only engines split over several GPUs run under MPI
        mpi_ranks=max((engine.world_size for model in models for engine in model.engines), default=1),
        traces=bool(host.gateway and host.gateway.trace_one_in),
        accepted_holes=server.accepts.ids if server.accepts else (),
        own_models=tuple(
            OwnModelSlice(name=model.name, repository=model.path, mib=model.mib) for model in server.own_models
        ),
    )


def model_slice(
    served: Served, share: Share, server: Server, host: Host, image: ImageSlice, surroundings: Surroundings
) -> ModelSlice:
    """The decisions for one model. An LLM has no queue delay in Triton, because its engine batches running requests."""
    model, weights = served.model, weights_of(served)
    choice, gpu = path_of(model, served.architecture, image.trtllm), gpu_of(host, server)
    generates, compiled = isinstance(model, LLM), choice.path == "engine"
    engines = engines_of(served, share, server, host, image, surroundings) if compiled else ()
    return ModelSlice(
        name=model.name,
        kind=served.architecture.kind,
        path=choice.path,
        reason=choice.reason,
        architecture=served.architecture.name,
        weights=weights,
        memory=share.memory,
        kv_cache_tokens=share.kv_cache_tokens,
        dimensions=served.dimensions,
        max_batch_size=0 if generates and not compiled else model.max_batch_size,
        max_queue_size=model.max_queue_size,
        max_queue_delay_microseconds=0 if isinstance(model, LLM) else model.max_queue_delay_microseconds,
        decoupled=isinstance(model, LLM) and model.decoupled,
        settings=_settings(served, share, engines, image),
        precision=precision_of(served),
        kv_dtype=kv_dtype_of(served),
        kv_reuse=reuses_blocks(served, image.trtllm),
        full_context_sequences=full_context_sequences(model, share.kv_cache_tokens),
        engines=engines,
        adapters=adapters_of(served),
        drafts_with=None if compiled else speculative_weights_of(served),
        replay=None if compiled else replay_slice(served),
        runtime=runtime_slice(
            served, share, layout_of(server, model), gpu.total_mib if gpu else 0, server.stop_seconds
        ),
    )


def full_context_sequences(model: Model, kv_cache_tokens: int) -> int:
    """Sequences of an LLM's full length that run at once: as many as the cache holds, at most the batch size."""
    if not isinstance(model, LLM):
        return 0
    return min(kv_cache_tokens // max(model.max_seq_len, 1), model.max_batch_size)


def _settings(served: Served, share: Share, engines: tuple[EngineSlice, ...], image: ImageSlice) -> dict[str, object]:
    path = weights_path(weights_of(served))
    if is_beside(served):
        return {}  # the program's start line has these settings
    if not engines:
        return settings_of(served, share, path)
    draft = engines[1] if len(engines) > 1 else None
    return runtime_settings(served, share, engines[0], draft, path, image.trtllm)


def _load_order(served: Served) -> tuple[bool, bool]:
    model = served.model
    return isinstance(model, LLM), isinstance(model, LLM) and model.kv_cache.tokens is None


def served_by(server: Server, host: Host, surroundings: Surroundings) -> list[Served]:
    """The models of a server with all known facts, in the inventory's order.

    Files that several models of the host share have one directory, and are fetched once.
    """
    directories = shared_directories(_known(host.servers, surroundings))
    return [replace(model, directories=directories) for model in _known((server,), surroundings)]


def _known(servers: Iterable[Server], surroundings: Surroundings) -> list[Served]:
    models = [serve(model, surroundings) for server in servers for model in server.models]
    assert all(models), "an unknown checkpoint passed the checks"
    return [model for model in models if model]
