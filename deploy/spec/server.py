"""A Triton server, and a host with all its settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from deploy.catalog.releases import DEFAULT_RELEASE
from deploy.spec.balancer import Traffic
from deploy.spec.encoders import Embedder, Reranker
from deploy.spec.engines import EngineStore, EngineTrust
from deploy.spec.firewall import Firewall
from deploy.spec.gateway import Gateway
from deploy.spec.llm import LLM
from deploy.spec.machine import Docker, Driver, Hub, Machine, Mirrors, Registry, Release, Toolkit
from deploy.spec.proxy import Proxy
from deploy.spec.sharing import Sharing

Model = LLM | Embedder | Reranker


@dataclass(frozen=True, kw_only=True)
class AcceptedHoles:
    """Known holes (CVE ids) that an operator accepts on a server, and the reason.

    `enginehouse plan` does not refuse them and shows the reason; the doctor does not report them.
    """

    ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class OwnModel:
    """The operator's own model, served by the same Triton from a model repository that every host has.

    `path` is the repository: it holds `NAME/config.pbtxt` and `NAME/1/model.py`. Its files are read and never changed.
    `mib` is its GPU memory on each GPU of the server, all instances together; 0 for a model on the CPU. Clients reach
    it at Triton's own ports: no gateway routes to it.
    """

    name: str
    path: str
    mib: int


@dataclass(frozen=True, kw_only=True)
class Server:
    """A Triton server: GPUs, ports, address, models. `protection` names the restriction of an address other than
    loopback.

    "firewall": clients, and balancers outside the inventory, come from the networks in `allow` of the host's
    `Firewall`. "balancer": clients can only use the inventory's own balancers, which are allowed automatically.
    """

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
    accepts: AcceptedHoles | None = None
    own_models: tuple[OwnModel, ...] = ()

    @property
    def standalone_llms(self) -> tuple[LLM, ...]:
        return tuple(model for model in self.models if isinstance(model, LLM) and model.runtime != "triton")

    @property
    def in_triton(self) -> tuple[Model, ...]:
        return tuple(model for model in self.models if model not in self.standalone_llms)


def one_per_gpu(server: Server, gpus: int) -> tuple[Server, ...]:
    """`server` for each of `gpus` GPUs: `main-0` on GPU 0, `main-1` on GPU 1, ports ten apart."""
    return tuple(
        replace(
            server,
            name=f"{server.name}-{gpu}",
            gpus=(gpu,),
            http_port=server.http_port + 10 * gpu,
            grpc_port=server.grpc_port + 10 * gpu,
            metrics_port=server.metrics_port + 10 * gpu,
        )
        for gpu in range(gpus)
    )


@dataclass(frozen=True, kw_only=True)
class Host:
    """Everything in the inventory about one host, as typed objects."""

    name: str
    machine: Machine
    servers: tuple[Server, ...]
    release: str | Release = DEFAULT_RELEASE
    image_digest: str = ""
    driver: Driver = Driver()
    docker: Docker = Docker()
    toolkit: Toolkit = Toolkit()
    registry: Registry = Registry()
    hub: Hub = Hub()
    mirrors: Mirrors = Mirrors()
    proxy: Proxy | None = None
    """None: the host reaches the outside directly, or through a proxy that its programs already use."""
    engine_store: EngineStore | None = None
    engine_trust: EngineTrust | None = None
    firewall: Firewall | None = None
    """None: the host's firewall is managed elsewhere and stays unchanged."""
    farm: bool = False
    """True for a host that builds every engine of the inventory that its GPU can build, and serves nothing
    (`build.py`)."""
    pool: str = ""
    """Name of the pool: the hosts behind one route of a balancer, which serve the same models. A rollout counts by it
    how many hosts are out. Empty: clients come to the host itself."""
    peer_address: str = ""
    """Address for balancers and other hosts, if it differs from the address of the servers."""
    traffic: Traffic = Traffic()
    gateway: Gateway | None = None
    """None: no gateway on this host, and clients send to Triton itself. The only host of an inventory has a `Gateway()`
    by default."""
    connected: bool = True
    """False: the host reaches only the control machine, over SSH, and every part comes from `bundle`."""
    bundle: str = "bundle"
    """Directory of the control machine, made by `enginehouse bundle`; read only for a host that is not connected."""
    sharing: Sharing | None = None
    """None: the host fetches or receives every file directly, and shares none."""
    groups: tuple[str, ...] = ()

    @property
    def served_models(self) -> tuple[tuple[Server, Model], ...]:
        return tuple((server, model) for server in self.servers for model in server.models)

    @property
    def llms(self) -> tuple[LLM, ...]:
        return tuple(model for _, model in self.served_models if isinstance(model, LLM))
