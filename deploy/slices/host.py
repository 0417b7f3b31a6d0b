"""A host's part of the plan. Roles act on a Slice and decide nothing themselves.

Frozen and JSON-able: the digest is computed over `to_json`, and `enginehouse plan --json` prints it.
"""

import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from deploy.slices.gateway import GatewaySlice, MutualSlice
from deploy.slices.image import ImageSlice, registry_of
from deploy.slices.monitor import ExportersSlice
from deploy.slices.on_host import OnHostSlice
from deploy.slices.own_model import OwnModelSlice
from deploy.slices.proxy import ProxySlice
from deploy.slices.runtime import RuntimeSlice
from deploy.slices.sharing import SharingSlice
from deploy.slices.traffic import TrafficSlice
from deploy.slices.trimming import trimmed
from deploy.spec import DataDisk, Docker, EngineStore, EngineTrust, Firewall, Https, Hub, Machine, Mirrors, Registry


@dataclass(frozen=True, kw_only=True)
class DriverSlice:
    """The driver to find or install; `floor` is the oldest version on which the image runs."""

    manage: bool
    source: str
    branch: str
    version: str
    floor: str
    fabric_manager: bool


@dataclass(frozen=True, kw_only=True)
class WeightsSlice:
    """A model's files and their directory: `/var/lib/enginehouse/weights/<model>/<revision>`."""

    model: str
    repository: str
    revision: str
    directory: str
    fetch_on: str
    files: tuple[str, ...]
    """Exact names or fnmatch patterns, matched against the repository's listing; a pickle never matches."""
    size_mib: int


@dataclass(frozen=True, kw_only=True)
class BuildStep:
    """A command of a build, run inside the release's container. `stage` is its name in progress reports: convert,
    quantize, build; for a draft model draft-convert and so on."""

    stage: str
    argv: tuple[str, ...]

    @property
    def line(self) -> str:
        return shlex.join(self.argv)


@dataclass(frozen=True, kw_only=True)
class ReplaySlice:
    """The prompts and expected answers that judge an engine before it is signed; paths are on the control machine."""

    prompts: str
    answers: str
    max_tokens: int
    equal_percent: float
    tasks: str
    minimum_percent: float


@dataclass(frozen=True, kw_only=True)
class EngineSlice:
    """A compiled engine. `fields` identify it; `fingerprint` is their digest, 16 hex digits.

    It is built under `staging` and published at `path` (rank0.engine …, config.json, engine.json, engine.json.sig).
    """

    model: str
    role: str
    """target, or draft."""
    fingerprint: str
    fields: dict[str, object]
    name: str
    """The directory's name in an engine store: model, precision, parallelism, release, SM, fingerprint."""
    path: str
    staging: str
    precision: str
    kv_dtype: str
    tensor: int
    pipeline: int
    expert: int
    sm: str
    gpus: tuple[int, ...]
    devices: tuple[str, ...]
    """CDI names of the devices that build it."""
    steps: tuple[BuildStep, ...]
    flags: tuple[tuple[str, str], ...]
    """(exact name, value) of every `trtllm-build` flag; an empty value is a switch."""
    flags_row: str
    """The catalog's row behind them, and how exact it is for this release."""
    weights: tuple[WeightsSlice, ...]
    """Every set of files the steps read: the checkpoint, and a draft's or a head's."""
    calibration: str
    """Directory of the control machine with calibration texts; empty if none are read."""
    size_mib: int
    """Approximate MiB of its files; `scratch_mib` are needed in addition while it is converted."""
    scratch_mib: int
    gpu_mib: int
    """Free MiB the build wants on each of its GPUs."""
    host_mib: int
    replay: ReplaySlice | None = None
    unjudged: str = ""
    """The inventory's reason for signing the engine without a comparison of its answers."""

    @property
    def lacks_replay(self) -> bool:
        """True if neither a replay nor a reason against one is declared; false for a draft, which its target
        confirms.
        """
        return self.role != "draft" and self.replay is None and not self.unjudged

    @property
    def world_size(self) -> int:
        return self.tensor * self.pipeline


@dataclass(frozen=True, kw_only=True)
class MemorySlice:
    """MiB of one model on each GPU of its server; the sum is the planner's total."""

    weights_mib: int
    context_mib: int
    workspace_mib: int
    kv_cache_mib: int

    @property
    def total_mib(self) -> int:
        return self.weights_mib + self.context_mib + self.workspace_mib + self.kv_cache_mib


@dataclass(frozen=True, kw_only=True)
class ModelSlice:
    """A served model. `settings` are the backend's final parameters, as text (config.pbtxt or model.yaml)."""

    name: str
    kind: str
    """llm, embedder or reranker."""
    path: str
    """pytorch, engine or python."""
    reason: str
    """The reason for this path, in one sentence."""
    architecture: str
    weights: WeightsSlice
    memory: MemorySlice
    kv_cache_tokens: int
    dimensions: int
    max_batch_size: int
    max_queue_size: int
    max_queue_delay_microseconds: int
    decoupled: bool
    settings: dict[str, object]
    precision: str = ""
    """Form of the weights while serving, in the words of `deploy.spec.Precision`."""
    kv_dtype: str = ""
    kv_reuse: bool = False
    full_context_sequences: int = 0
    """Sequences of `max_seq_len` tokens the key/value cache holds at once."""
    engines: tuple[EngineSlice, ...] = ()
    """Engines that the engine path loads: the target first, then a draft."""
    adapters: tuple[WeightsSlice, ...] = ()
    drafts_with: WeightsSlice | None = None
    """Files of the draft model or EAGLE head that this one reads while it is served; an engine holds its own."""
    replay: ReplaySlice | None = None
    """The prompts by which a swap compares this LLM with its predecessor; an engine's own replay is not here."""
    runtime: RuntimeSlice | None = None
    """The program beside Triton that serves this LLM; None for a model of Triton."""


@dataclass(frozen=True, kw_only=True)
class ServerSlice:
    """A Triton server; `models` are in load order: encoders first, LLM last."""

    name: str
    gpus: tuple[int, ...]
    http_port: int
    grpc_port: int
    metrics_port: int
    address: str
    log_verbose: int
    stop_seconds: int
    start_seconds: int
    shm_mib: int
    image: ImageSlice
    models: tuple[ModelSlice, ...]
    overhead_mib: int = 0
    """MiB the tritonserver process itself takes on each of its GPUs."""
    devices: tuple[str, ...] = ()
    """CDI names of its GPUs: `nvidia.com/gpu=0`, or `nvidia.com/gpu=0:1` for a MIG instance."""
    mpi_ranks: int = 1
    """Ranks under mpirun. More than one means leader mode: a tritonserver for each rank."""
    traces: bool = False
    """True if requests that a gateway selects for tracing leave spans in the server's journal."""
    accepted_holes: tuple[str, ...] = ()
    """CVE ids that stay open by the operator's decision."""
    own_models: tuple[OwnModelSlice, ...] = ()

    @property
    def in_triton(self) -> tuple[ModelSlice, ...]:
        return tuple(model for model in self.models if model.runtime is None)

    @property
    def standalone_llm(self) -> tuple[ModelSlice, RuntimeSlice] | None:
        return next(((model, model.runtime) for model in self.models if model.runtime), None)


def standalone_llm_images(servers: Iterable[ServerSlice]) -> tuple[ImageSlice, ...]:
    return tuple(dict.fromkeys(server.standalone_llm[1].image for server in servers if server.standalone_llm))


@dataclass(frozen=True, kw_only=True)
class RepairSlice:
    """The strongest repair that a host may make without an operator, "reset" or "reboot", and its pool's limit."""

    allowed: str
    max_unavailable: int


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The wanted state of one host."""

    host: str
    machine: Machine
    pci_id: str
    """Vendor and device of the declared GPU, `10de:2330`."""
    sm: str
    gpu_mib: int
    driver: DriverSlice
    docker: Docker
    toolkit_version: str
    registry: Registry
    hub: Hub
    mirrors: Mirrors
    image: ImageSlice
    weights: tuple[WeightsSlice, ...]
    servers: tuple[ServerSlice, ...]
    disk_needed_mib: int
    engines: tuple[EngineSlice, ...] = ()
    """Every engine that has to be on this host, once; a farm host also has those it builds for others."""
    engine_store: EngineStore | None = None
    engine_trust: EngineTrust | None = None
    farm: bool = False
    mig: tuple[str, ...] = ()
    """MIG profiles of every GPU; empty if MIG has to be off."""
    firewall: Firewall | None = None
    pool: str = ""
    """The pool that counts this host's capacity; empty: the pool of all hosts without a name."""
    traffic: TrafficSlice | None = None
    gateway: GatewaySlice | None = None
    https: Https | None = None
    """None: no program of the host offers TLS to the gateway's clients."""
    exporters: ExportersSlice | None = None
    """None: no monitor reads this host."""
    mutual: MutualSlice | None = None
    """Settings of mutual TLS between gateways and hosts; None if no requests pass between this host and another one."""
    bundle: str = ""
    """Directory of the control machine that has every part of a host without a network; empty for a connected host."""
    sharing: SharingSlice | None = None
    """None: this host shares no files with peers."""
    repair: RepairSlice | None = None
    """None: ill GPUs are left to a person."""
    proxy: ProxySlice | None = None
    """None: the host reaches the outside without a proxy of the inventory."""
    on_host: tuple[OnHostSlice, ...] = ()  # not among `weights`, which are brought to the host

    def to_json(self) -> dict[str, object]:
        """Plain dictionaries and lists; a secret appears only as its source."""
        return trimmed(asdict(self))

    @property
    def runtime_images(self) -> tuple[ImageSlice, ...]:
        return standalone_llm_images(self.servers)

    def registry_of(self, reference: str) -> Registry:
        """The login and CA for an image: the declared ones, if it is in the same registry as the host's own image."""
        return self.registry if registry_of(reference) == registry_of(self.image.reference) else Registry()

    @property
    def drain_seconds(self) -> int:
        """Seconds that a server's stop may wait for balancers; 0 if no balancer sends to this host."""
        return self.traffic.drain_seconds if self.traffic and self.traffic.balancers else 0

    def data_disk(self) -> DataDisk | None:
        return self.machine.data_disk
