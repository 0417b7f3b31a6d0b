"""What an operator may say: Fleet, Machine, Server, models, release, rollout. Declared here, judged in `deploy.plan`.

Built inside Python inventories, so that an editor completes the names and mypy reads them. Constructing one never
raises for a wrong *value*: all problems of an inventory are reported together by the plan. Units end the names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Path = Literal["auto", "pytorch", "engine", "python"]
DType = Literal["float16", "bfloat16", "float32"]


@dataclass(frozen=True)
class Secret:
    """Where a secret is found when it is needed; never the secret itself. A plain string in its place is refused."""

    kind: Literal["env", "vault", "command"]
    source: tuple[str, ...]

    @classmethod
    def env(cls, name: str) -> Secret:
        """Read from this environment variable of the shell that runs pyinfra."""
        return cls("env", (name,))

    @classmethod
    def vault(cls, path: str, key: str) -> Secret:
        """Read `key` from this ansible-vault encrypted YAML file.

        The password comes from ANSIBLE_VAULT_PASSWORD_FILE.
        """
        return cls("vault", (path, key))

    @classmethod
    def command(cls, *argv: str) -> Secret:
        """The first line this command prints on the control machine (a password manager, for example)."""
        return cls("command", argv)


@dataclass(frozen=True)
class Weights:
    """Where a model's files come from: a hub repository at a pinned commit, or a directory of the control machine."""

    repository: str = ""
    revision: str = ""
    directory: str = ""
    fetch_on: Literal["host", "control"] = "host"
    files: tuple[str, ...] = ()

    @classmethod
    def hub(
        cls,
        repository: str,
        revision: str,
        *,
        fetch_on: Literal["host", "control"] = "host",
        files: tuple[str, ...] = (),
    ) -> Weights:
        """`repository` at the 40-hex commit `revision`; `files` replaces the architecture's own list."""
        return cls(repository=repository, revision=revision, fetch_on=fetch_on, files=files)

    @classmethod
    def local(cls, directory: str, *, files: tuple[str, ...] = ()) -> Weights:
        """A directory of the machine that runs pyinfra, sent with rsync; its manifest is its revision."""
        return cls(directory=directory, fetch_on="control", files=files)


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The shape of a checkpoint, for one the catalog does not know. Sizes as the model's config.json states them."""

    architecture: str
    parameters: int
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    positions: int
    kv_heads: int = 0
    head_dim: int = 0
    intermediate: int = 0
    experts: int = 0
    active_experts: int = 0
    """Experts one token goes through, where there are `experts`."""
    quantisation: Literal["", "mxfp4", "fp8", "nvfp4"] = ""
    """How the weights are stored; empty where they are plain 16- or 32-bit numbers."""
    weights_mib: int = 0
    """MiB the weights take in GPU memory where `parameters x element size` does not say it (quantised as shipped)."""


@dataclass(frozen=True, kw_only=True)
class KVCache:
    """The key/value cache of one LLM, bounded in tokens, all sequences together; None means: what is left."""

    tokens: int | None = None
    dtype: Literal["auto", "bfloat16", "float16", "fp8"] = "auto"
    reuse: bool | None = None


@dataclass(frozen=True, kw_only=True)
class LLM:
    """A generative model. `checkpoint` is a name of the catalog or a `Checkpoint`."""

    name: str
    checkpoint: str | Checkpoint
    weights: Weights
    path: Path = "auto"
    kv_cache: KVCache = KVCache()
    max_batch_size: int = 32
    max_seq_len: int = 8192
    max_num_tokens: int = 8192
    decoupled: bool = True
    moe_backend: Literal["auto", "CUTLASS", "TRITON"] = "auto"
    chunked_prefill: bool = False
    max_queue_size: int = 256
    trust_remote_code: bool = False


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """What embedder and reranker share. `device="cpu"` serves without a GPU (small models, development)."""

    name: str
    checkpoint: str | Checkpoint
    weights: Weights
    path: Path = "auto"
    dtype: DType = "float16"
    device: Literal["gpu", "cpu"] = "gpu"
    max_tokens: int = 512
    max_batch_tokens: int = 16384
    max_items: int = 1024
    max_batch_size: int = 256
    max_queue_delay_microseconds: int = 500
    max_queue_size: int = 1024
    trust_remote_code: bool = False


@dataclass(frozen=True, kw_only=True)
class Embedder(Encoder):
    """Texts to vectors. `default_task` is the prefix of families that need one, when a request names none."""

    default_task: str = ""


@dataclass(frozen=True, kw_only=True)
class Reranker(Encoder):
    """A query and passages to scores."""


Model = LLM | Embedder | Reranker


@dataclass(frozen=True, kw_only=True)
class Server:
    """One Triton: GPUs, ports, address, models. `protection` names what guards an address that is not loopback."""

    name: str
    models: tuple[Model, ...]
    gpus: tuple[int, ...] = (0,)
    http_port: int = 8000
    grpc_port: int = 8001
    metrics_port: int = 8002
    address: str = "127.0.0.1"
    protection: Literal["", "balancer", "firewall"] = ""
    log_verbose: int = 0
    stop_seconds: int = 90
    start_seconds: int = 1800
    shm_mib: int = 2048


@dataclass(frozen=True, kw_only=True)
class DataDisk:
    """A blank disk to format and mount where weights, images and releases live."""

    device: str
    mount: str = "/var/lib/enginehouse"
    file_system: Literal["ext4", "xfs"] = "ext4"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The VM as declared; preflight confirms it. `gpu` is a row of catalog.GPUS, `os` one of catalog.SYSTEMS."""

    os: str
    gpu: str
    gpus: int = 1
    memory_mib: int = 0
    disk_mib: int = 0
    kernel_flavour: str = "generic"
    secure_boot: bool = False
    nvswitch: bool = False
    confidential: bool = False
    data_disk: DataDisk | None = None


@dataclass(frozen=True, kw_only=True)
class Driver:
    """NVIDIA's kernel driver. `manage=False` verifies and never touches; `source="auto"` follows the OS."""

    branch: str = "580"
    version: str = ""
    source: Literal["auto", "canonical", "nvidia"] = "auto"
    manage: bool = True


@dataclass(frozen=True, kw_only=True)
class Docker:
    """The engine. `source="docker"` is Docker's own repository, `"distribution"` the OS package where it knows CDI."""

    source: Literal["docker", "distribution"] = "docker"
    data_root: str = ""
    daemon: dict[str, Any] = field(default_factory=dict, hash=False)
    """Further daemon.json keys, merged key by key into what the host already has."""


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """NVIDIA Container Toolkit: four packages, one version."""

    version: str = "1.20.0-1"


@dataclass(frozen=True, kw_only=True)
class AptMirror:
    """Replaces an upstream apt repository: its base URL and the file of its signing key on the control machine."""

    url: str
    key_file: str


@dataclass(frozen=True, kw_only=True)
class Mirrors:
    """Other places for the three upstream apt repositories (air gap, company mirror)."""

    nvidia: AptMirror | None = None
    docker: AptMirror | None = None
    toolkit: AptMirror | None = None


@dataclass(frozen=True, kw_only=True)
class Registry:
    """How to log in to the registry of the release's image; no key pulls anonymously. `ca_file` trusts a private CA."""

    key: Secret | None = None
    username: str = "$oauthtoken"
    ca_file: str = ""


@dataclass(frozen=True, kw_only=True)
class Hub:
    """The model hub weights are fetched from. `ca_file` trusts a private CA."""

    endpoint: str = "https://huggingface.co"
    token: Secret | None = None
    ca_file: str = ""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release of one's own, derived from a catalog row (mirror, repair, air gap). Empty fields are the row's."""

    name: str
    derived_from: str
    image: str = ""
    digest: str = ""
    triton_core: str = ""
    trtllm: str = ""
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """How a fleet is brought over: a canary first, then shares of the rest."""

    canary_hosts: int = 1
    wave_percent: int = 25


@dataclass(frozen=True, kw_only=True)
class Host:
    """Everything the inventory says about one host, as typed objects."""

    name: str
    machine: Machine
    servers: tuple[Server, ...]
    release: str | Release = "26.07"
    image_digest: str = ""
    driver: Driver = Driver()
    docker: Docker = Docker()
    toolkit: Toolkit = Toolkit()
    registry: Registry = Registry()
    hub: Hub = Hub()
    mirrors: Mirrors = Mirrors()
    groups: tuple[str, ...] = ()
