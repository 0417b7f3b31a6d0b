"""Joins everything into one Plan, or refuses with every reason at once.

Pure: same fleet and surroundings, same plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from deploy.budget import Share, reuses_blocks, server_budget
from deploy.catalog import GPUS, SYSTEMS
from deploy.checks.every import judge, notices
from deploy.devices import device_name
from deploy.digest import digest
from deploy.engine.changes import why_built
from deploy.engine.engines import engines_of
from deploy.engine.farm import farmed
from deploy.engine.runtime import runtime_settings
from deploy.errors import Refusal, refuse_all
from deploy.files import adapters_of, all_weights_of, disk_needed_mib, weights_of, weights_path
from deploy.fleet import Fleet
from deploy.memory import SERVER_MIB
from deploy.paths import choose_path
from deploy.refuse import refuse
from deploy.resolve import Served, gpu_of, image_of, kv_dtype_of, precision_of, release_row, serve
from deploy.settings import settings_of
from deploy.slice import DriverSlice, EngineSlice, ImageSlice, ModelSlice, ServerSlice, Slice, WeightsSlice
from deploy.spec import LLM, Host, Model, Server
from deploy.surroundings import Surroundings
from deploy.waves import waves


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What every host is to become, in which order, under one digest."""

    slices: tuple[Slice, ...]
    waves: tuple[tuple[str, ...], ...]
    digest: str
    warnings: tuple[str, ...] = ()
    changes: Mapping[str, str] = field(default_factory=dict)
    """Why each engine, by its fingerprint, is built: new, known, or what it differs in from the nearest one."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of all hosts, sorted."""
        return tuple(one.host for one in self.slices)

    def for_host(self, name: str) -> Slice:
        """The slice of one host."""
        return next(one for one in self.slices if one.host == name)

    def only(self, names: Iterable[str]) -> Plan:
        """The same plan and digest, seen from some of its hosts (`--limit`)."""
        wanted = set(names)
        kept = (tuple(name for name in wave if name in wanted) for wave in self.waves)
        slices = tuple(one for one in self.slices if one.host in wanted)
        return replace(self, slices=slices, waves=tuple(wave for wave in kept if wave))

    @property
    def engines(self) -> tuple[EngineSlice, ...]:
        """Every engine of the fleet, each once."""
        return distinct_engines(engine for one in self.slices for engine in one.engines)

    def engine_json(self, engine: EngineSlice) -> dict[str, object]:
        """One engine for programs: its name, why it is built, and the commands as a person would type them."""
        return {
            "model": engine.model,
            "fingerprint": engine.fingerprint,
            "name": engine.name,
            "change": self.changes.get(engine.fingerprint, ""),
            "flags_row": engine.flags_row,
            "commands": [step.line for step in engine.steps],
            "hosts": [one.host for one in self.slices if engine.path in {each.path for each in one.engines}],
        }

    def to_json(self) -> dict[str, object]:
        """Plain dictionaries and lists."""
        return {
            "digest": self.digest,
            "waves": [list(wave) for wave in self.waves],
            "warnings": list(self.warnings),
            "engines": [self.engine_json(one) for one in self.engines],
            "hosts": {one.host: one.to_json() for one in self.slices},
        }


def make_plan(fleet: Fleet, surroundings: Surroundings) -> Plan:
    """The plan of a fleet.

    Refuses: everything `deploy.checks` finds, all of it in one report; then a plan that is not the expected one.
    """
    refuse_all(judge(fleet, surroundings))
    slices = farmed(tuple(host_slice(host, surroundings) for host in fleet.hosts))
    engines = distinct_engines(engine for one in slices for engine in one.engines)
    plan = Plan(
        slices=slices,
        changes={engine.fingerprint: why_built(engine, surroundings.engines) for engine in engines},
        waves=waves((one.host for one in slices), fleet.rollout),
        digest=digest(slices),
        warnings=tuple(notices(fleet, surroundings)),
    )
    refuse_all(unexpected(plan, fleet.expect))
    return plan


def host_slice(host: Host, surroundings: Surroundings) -> Slice:
    """One host decided. Its inventory has been judged: what is unknown here is a mistake of ours."""
    row = release_row(host.release)
    assert row is not None, "an unknown release passed the checks"
    image, gpu = image_of(host, row), GPUS[host.machine.gpu]
    servers = tuple(server_slice(server, host, image, surroundings) for server in host.servers)
    weights = distinct(
        weights for server in host.servers for one in _served(server, surroundings) for weights in all_weights_of(one)
    )
    engines = distinct_engines(engine for server in servers for model in server.models for engine in model.engines)
    return Slice(
        host=host.name,
        machine=host.machine,
        pci_id=gpu.pci_id,
        sm=gpu.sm,
        gpu_mib=gpu.total_mib,
        driver=driver_slice(host, row.floor),
        docker=host.docker,
        toolkit_version=host.toolkit.version,
        registry=host.registry,
        hub=host.hub,
        mirrors=host.mirrors,
        image=image,
        weights=weights,
        servers=servers,
        disk_needed_mib=disk_needed_mib(image, weights, ((one.size_mib, one.scratch_mib) for one in engines)),
        engines=engines,
        engine_store=host.engine_store,
        engine_trust=host.engine_trust,
        farm=host.farm,
        mig=host.machine.mig,
    )


def driver_slice(host: Host, floor: str) -> DriverSlice:
    """The driver, its source settled by the OS unless the inventory says otherwise."""
    auto = host.driver.source == "auto"
    return DriverSlice(
        manage=host.driver.manage,
        source=SYSTEMS[host.machine.os].driver_source if auto else host.driver.source,
        branch=host.driver.branch,
        version=host.driver.version,
        floor=floor,
        fabric_manager=host.machine.nvswitch,
    )


def server_slice(server: Server, host: Host, image: ImageSlice, surroundings: Surroundings) -> ServerSlice:
    """One server with its models in load order.

    Encoders first, then LLMs, last the one whose cache takes what is left.
    """
    served = sorted(_served(server, surroundings), key=_load_order)
    gpu = gpu_of(host, server)
    assert gpu, "an unknown MIG profile passed the checks"
    budget = server_budget(server, served, gpu, image.trtllm)
    models = tuple(
        model_slice(one, share, server, host, image, surroundings)
        for one, share in zip(served, budget.shares, strict=True)
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
        # one tritonserver a rank: engines cut over several GPUs run in MPI's world, and only they do
        mpi_ranks=max((engine.world_size for model in models for engine in model.engines), default=1),
    )


def model_slice(
    served: Served, share: Share, server: Server, host: Host, image: ImageSlice, surroundings: Surroundings
) -> ModelSlice:
    """One model decided. An LLM has no queue delay in Triton: its engine batches what runs."""
    model, weights = served.model, weights_of(served)
    choice = choose_path(model.path, served.architecture, image.trtllm)
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
    )


def full_context_sequences(model: Model, kv_cache_tokens: int) -> int:
    """Sequences of an LLM's full length that run at once: as many as the cache holds, never more than the batch."""
    if not isinstance(model, LLM):
        return 0
    return min(kv_cache_tokens // max(model.max_seq_len, 1), model.max_batch_size)


def _settings(served: Served, share: Share, engines: tuple[EngineSlice, ...], image: ImageSlice) -> dict[str, object]:
    path = weights_path(weights_of(served))
    if not engines:
        return settings_of(served, share, path)
    draft = engines[1] if len(engines) > 1 else None
    return runtime_settings(served, share, engines[0], draft, path, image.trtllm)


def _load_order(served: Served) -> tuple[bool, bool]:
    model = served.model
    return isinstance(model, LLM), isinstance(model, LLM) and model.kv_cache.tokens is None


def _served(server: Server, surroundings: Surroundings) -> list[Served]:
    found = [serve(model, surroundings) for model in server.models]
    assert all(found), "an unknown checkpoint passed the checks"
    return [one for one in found if one]


def distinct(weights: Iterable[WeightsSlice]) -> tuple[WeightsSlice, ...]:
    """Each set of files once, in order: two servers may serve the same model."""
    return tuple({(one.model, one.revision): one for one in weights}.values())


def distinct_engines(engines: Iterable[EngineSlice]) -> tuple[EngineSlice, ...]:
    """Each engine once, in order: two servers may serve the same model."""
    return tuple({one.path: one for one in engines}.values())


def unexpected(plan: Plan, expected: str) -> list[Refusal]:
    """The refusal of a plan that is not the one somebody read and approved; nothing when none was named."""
    if expected in ("", plan.digest):
        return []
    return [
        refuse(
            "unexpected-plan",
            "this is not the plan that was expected",
            where="expect",
            seen=plan.digest,
            wanted=expected,
            attempt=f"read the plan again (enginehouse plan), then --data expect={plan.digest}",
        )
    ]
