"""What has been decided for one host. Roles take a Slice and act; nothing is decided again after it.

Frozen and JSON-able: `to_json` is what the digest is computed over and what `enginehouse plan --json` prints.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from deploy.spec import DataDisk, Docker, Hub, Machine, Mirrors, Registry


@dataclass(frozen=True, kw_only=True)
class DriverSlice:
    """The driver to find or install; `floor` is the oldest version the image runs on."""

    manage: bool
    source: str
    branch: str
    version: str
    floor: str
    fabric_manager: bool


@dataclass(frozen=True, kw_only=True)
class ImageSlice:
    """The container image. `reference` is name:tag; with a `digest` the pull is by digest and enforced from then on."""

    reference: str
    digest: str
    triton_core: str
    trtllm: str
    cuda: str
    repairs: tuple[str, ...]
    """Known defects of this image that the host still has to repair (catalog `Defect.name`)."""
    size_mib: int

    @property
    def pull_reference(self) -> str:
        """`name@sha256:…` once pinned, `name:tag` before."""
        return f"{self.reference.rsplit(':', 1)[0]}@{self.digest}" if self.digest else self.reference


@dataclass(frozen=True, kw_only=True)
class WeightsSlice:
    """One model's files and where they go: `/var/lib/enginehouse/weights/<model>/<revision>`."""

    model: str
    repository: str
    revision: str
    directory: str
    fetch_on: str
    files: tuple[str, ...]
    """Exact names or fnmatch patterns, matched against the repository's listing; a pickle never matches."""
    size_mib: int


@dataclass(frozen=True, kw_only=True)
class MemorySlice:
    """MiB of one model on each GPU of its server; the sum is what the planner counted."""

    weights_mib: int
    context_mib: int
    workspace_mib: int
    kv_cache_mib: int

    @property
    def total_mib(self) -> int:
        """MiB of all four together."""
        return self.weights_mib + self.context_mib + self.workspace_mib + self.kv_cache_mib


@dataclass(frozen=True, kw_only=True)
class ModelSlice:
    """One served model. `settings` are the backend's own parameters, final, as text (config.pbtxt or model.yaml)."""

    name: str
    kind: str
    """llm, embedder or reranker."""
    path: str
    """pytorch, engine or python."""
    reason: str
    """Why this path, in one sentence."""
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


@dataclass(frozen=True, kw_only=True)
class ServerSlice:
    """One Triton; `models` in load order: encoders first, LLM last."""

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


@dataclass(frozen=True, kw_only=True)
class Slice:
    """All that one host is to become."""

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

    def to_json(self) -> dict[str, object]:
        """Plain dictionaries and lists, secrets as their sources only."""
        return asdict(self)

    def data_disk(self) -> DataDisk | None:
        """The declared blank disk, if any."""
        return self.machine.data_disk
