"""A host's part of the plan for its gateway: the offered models and the gateway's addresses."""

from dataclasses import dataclass

from deploy.spec import GatewayLimits, Identity, Price


@dataclass(frozen=True, kw_only=True)
class GatewayModelSlice:
    """A model under its name for clients. Fields of other kinds of models are empty or 0."""

    name: str
    kind: str
    """llm, embedder or reranker."""
    triton_model: str
    """The name of the model that has the gateway's tensors."""
    servers: tuple[str, ...]
    """Names of its host's own servers, and HOST/SERVER of others'."""
    context_tokens: int = 0
    files: str = ""
    """Directory of the host with tokenizer and chat template."""
    tool_parser: str = ""
    reasoning_parser: str = ""
    guided_decoding: bool = False
    """True if the server can constrain an answer to a JSON schema."""
    salts: bool = False
    """True if the server keeps cached prefixes of different tenants apart, by the salt that the gateway sends for
    each."""
    dimensions: int = 0
    max_items: int = 0
    max_tokens: int = 0
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GatewayAliasSlice:
    """Another name of a model, or of LLMs of the same weights and several lengths.

    `task` is an embedder's default task, `adapter` the LoRA adapter that answers. `weights` are the shares of the
    `models`, in their order; `fallback` answers if none of these models can.
    """

    name: str
    models: tuple[str, ...]
    task: str = ""
    adapter: str = ""
    weights: tuple[int, ...] = ()
    sticky: str = ""
    fallback: str = ""


@dataclass(frozen=True, kw_only=True)
class GatewayOtherSlice:
    """A server of another host that a gateway sends to; `name` is HOST/SERVER, address and port are its host's."""

    name: str
    server: str
    address: str
    port: int


@dataclass(frozen=True, kw_only=True)
class MutualGatewaySlice:
    """A host whose gateway sends to this one: the name in its certificate, and its source address."""

    name: str
    address: str


@dataclass(frozen=True, kw_only=True)
class MutualSlice:
    """Mutual TLS of a host. Without `port` its gateway only sends to other hosts."""

    address: str
    """The address in the host's certificates."""
    port: int = 0
    gateways: tuple[MutualGatewaySlice, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GatewaySlice:
    """The gateway of one host. It does not contain the host's name: equal hosts have equal gateways."""

    address: str
    ports: tuple[int, ...]
    url: str = ""
    is_behind_balancer: bool = False
    """True if a balancer stops sending to a draining host: the gateway then does not ask the host's agent whether it
    drains."""
    keys: str
    """"file" if clients need a key; empty if they do not."""
    hosts: int = 1
    """Number of hosts with a gateway in the inventory: each enforces its share of a key's limits."""
    hold_seconds: int
    drain_seconds: int
    limits: GatewayLimits
    python: str
    """The version of the OS's own Python, which the gateway runs on: 3.12."""
    fingerprint: str
    """The `system_fingerprint` of answers: equal values mean equal models of equal images."""
    models: tuple[GatewayModelSlice, ...]
    aliases: tuple[GatewayAliasSlice, ...]
    trace_one_in: int = 0
    """Number of requests of which one is traced; 0 traces no request."""
    unknown_fields: str = "ignore"
    cors_origins: tuple[str, ...] = ()
    pages: bool = True
    default_embedder: str = ""
    default_reranker: str = ""
    others: tuple[GatewayOtherSlice, ...] = ()
    prices: tuple[tuple[str, Price], ...] = ()
    """Models, and the price of a million of their tokens."""
    identity: Identity | None = None
    """The header that names the person behind a request, and the addresses that may send it."""
    usage_days: int
    """Days that counters of usage are kept; 0 without counters."""

    def has_salt(self, is_beside: bool) -> bool:
        """True if the host keeps a secret for salts: a model takes one, or may after the next swap.

        A swap or its rollback brings another program beside Triton before the settings name it.
        """
        return any(model.salts for model in self.models) or bool(self.keys and is_beside)
