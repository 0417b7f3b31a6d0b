"""The objects of an inventory: Machine, Server, models, release, rollout. `deploy.validation` judges them.

They are built inside Python inventories, so that an editor completes the names and mypy checks them. Constructing one
never raises for a wrong *value*: the plan reports all problems of an inventory together. Names of numbers end with the
unit.
"""

from deploy.spec.balancer import Balancer, BalancerHost, Route, Traffic
from deploy.spec.encoders import DType, Embedder, Encoder, Path, Reranker
from deploy.spec.engines import EngineStore, EngineTrust
from deploy.spec.firewall import Firewall, Opening
from deploy.spec.gateway import Alias, Gateway, GatewayLimits, Identity, Price
from deploy.spec.https import Acme, Https
from deploy.spec.llm import (
    LLM,
    Adapter,
    Calibration,
    Draft,
    Eagle,
    Engine,
    KVCache,
    Lookahead,
    LoRA,
    Medusa,
    Parallel,
    Precision,
    ReDrafter,
    Replay,
    Speculative,
)
from deploy.spec.machine import (
    GPU,
    AptMirror,
    DataDisk,
    Docker,
    Driver,
    Fabric,
    Hub,
    Machine,
    Mirrors,
    Registry,
    Release,
    Rollout,
    Toolkit,
)
from deploy.spec.monitor import Monitor, MonitorHost
from deploy.spec.proxy import Proxy
from deploy.spec.server import AcceptedHoles, Host, Model, OwnModel, Server, one_per_gpu
from deploy.spec.sharing import Sharing
from deploy.spec.sources import Checkpoint, Secret, Weights

__all__ = [
    "GPU",
    "LLM",
    "AcceptedHoles",
    "Acme",
    "Adapter",
    "Alias",
    "AptMirror",
    "Balancer",
    "BalancerHost",
    "Calibration",
    "Checkpoint",
    "DType",
    "DataDisk",
    "Docker",
    "Draft",
    "Driver",
    "Eagle",
    "Embedder",
    "Encoder",
    "Engine",
    "EngineStore",
    "EngineTrust",
    "Fabric",
    "Firewall",
    "Gateway",
    "GatewayLimits",
    "Host",
    "Https",
    "Hub",
    "Identity",
    "KVCache",
    "LoRA",
    "Lookahead",
    "Machine",
    "Medusa",
    "Mirrors",
    "Model",
    "Monitor",
    "MonitorHost",
    "Opening",
    "OwnModel",
    "Parallel",
    "Path",
    "Precision",
    "Price",
    "Proxy",
    "ReDrafter",
    "Registry",
    "Release",
    "Replay",
    "Reranker",
    "Rollout",
    "Route",
    "Secret",
    "Server",
    "Sharing",
    "Speculative",
    "Toolkit",
    "Traffic",
    "Weights",
    "one_per_gpu",
]
