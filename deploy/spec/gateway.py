"""A gateway, as an operator declares it: an API of OpenAI, Cohere and TEI before a host's servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from deploy.spec.https import Https


@dataclass(frozen=True, kw_only=True)
class GatewayLimits:
    """Limits of one request through a gateway, and of all requests in one process."""

    body_mib: int = 16
    """MiB of a request's body. A chat may have less: as much as the largest context of the gateway's LLMs can hold."""
    tenant_bodies_mib: int = 32
    """MiB of bodies that a process holds for one tenant, from the first byte until they are parsed; more: 429."""
    bodies_mib: int = 128
    """MiB of all tenants' bodies; more: 503. A parsed body takes up to four times its size; a process has 4 GiB."""
    request_seconds: int = 600
    """Seconds for an answer, streamed or whole; OpenAI's clients wait as long."""
    connections: int = 4096
    """Connections of a process; a request on one more is answered 503."""
    held: int = 256
    """Requests of a process that may wait for models without a ready server."""
    inputs: int = 2048
    """Texts of one request for embeddings."""
    documents: int = 10_000
    """Documents of one request to rerank."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """The price of a model's tokens, in `currency` for a million of each kind."""

    prompt: float
    """Price of prompt tokens that were not cached."""
    completion: float
    """Price of answer tokens."""
    cached: float | None = None
    """Price of cached prompt tokens; None: the same as uncached ones."""
    currency: str = "USD"
    """Currency code of ISO 4217: three capital letters."""


@dataclass(frozen=True, kw_only=True)
class Alias:
    """A name for several models: Alias(models={"llama": 95, "llama-next": 5}, fallback="llama-small").

    `models` have weights, which are shares of requests; if weights change, the fewest keys move for models listed last.
    A new release is tried as a model of another name, in its own server. An alias with a fallback may have one model
    alone.
    """

    models: dict[str, int] = field(hash=False)
    sticky: Literal["key", "request"] = "key"
    """"key": an API key, with the client's `x-session-affinity` if it sends one, always has the same model. "request":
    each request is drawn; shares then hold for few keys too, and a chat may change its model."""
    fallback: str = ""
    """The model that answers if the servers of the other models do not answer before the first token."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A header in which an OIDC proxy on the gateway's host names the person behind a request.

    The gateway trusts it only on connections from `proxies`, and counts usage by person within the key. The proxy must
    remove the header from clients' requests. Any program that can connect from those addresses may name any person.
    """

    header: str
    """Name in lower case: x-forwarded-email of oauth2-proxy, remote-email of Authelia."""
    proxies: tuple[str, ...] = ("127.0.0.1",)
    """Loopback addresses of the host."""


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """The gateway on the host that declares it, before that host's servers. Each port is a separate process.

    It serves plain HTTP, so `address` is loopback, unless `protection="balancer"`: a `Balancer` with a `gateway_port`
    uses TLS with clients, only it may connect, and you confirm that the network between the two is private. `https`
    uses TLS with clients on the host itself. `keys`: "file" requires a key of /etc/enginehouse/gateway/keys.json from
    every client; None requires no key.
    """

    address: str = "127.0.0.1"
    protection: Literal["", "balancer"] = ""
    url: str = ""
    """Address that clients type, such as https://llm.example.com, for the page at /. Without it the page shows the
    first name of `acme`, or where the gateway listens."""
    ports: tuple[int, ...] = (8080,)
    keys: Literal["file"] | None = "file"
    hold_seconds: int = 120
    """Seconds that requests wait for a model without a ready server, during a swap for instance; 0 answers 503 at once.
    """
    drain_seconds: int = 90
    """Seconds for requests in flight when a process stops; then they are cut."""
    aliases: dict[str, str | tuple[str, ...] | Alias] = field(default_factory=dict, hash=False)
    """Further names of models: {"gpt-4o": "llama"}. Of several LLMs of the same weights, {"llama": ("llama-8k",
    "llama-128k")}, the shortest that has room for a prompt answers. An `Alias` splits by weights and falls back.
    Embedders with tasks have NAME:query and NAME:document anyway, and LoRA adapters NAME:ADAPTER."""
    others: tuple[str, ...] = ()
    """Hosts and pools to whose servers this gateway sends as well, over mutual TLS (`Traffic.gateways_port` there).
    Of an LLM that only they serve, this host gets the tokenizer and template, and no weights."""
    trace_one_in: int | None = None
    """Number of requests of which one is traced: Triton writes the start of each step, and no content, to its unit's
    journal. None traces nothing. Setting it for the first time, or removing it, swaps the host's servers. A client's
    own `traceparent` is dropped; a client with direct access to Triton can have its requests traced."""
    unknown_fields: Literal["ignore", "refuse"] = "ignore"
    """Fields of a request that no endpoint reads: ignored and named in the answer's header `x-enginehouse-ignored`, or
    refused. A field that would change the meaning of the answer is refused in both cases."""
    cors_origins: tuple[str, ...] = ()
    """Origins, such as https://app.example.com, whose pages a browser allows to call the gateway. Such a page sends a
    key."""
    pages: bool = True
    """Pages for people: a key's models and usage, and forms to try chats, vectors and rankings. False: 404."""
    default_embedder: str = ""
    """The embedder for TEI's clients, who name none, if there are several; NAME:query names its task too."""
    default_reranker: str = ""
    prices: dict[str, Price] = field(default_factory=dict, hash=False)
    """Prices of models for `enginehouse usage`: {"gpt-oss-20b": Price(prompt=0.1, completion=0.4)}. A request is
    charged at the price that is in force when it ends; later prices change no count."""
    usage_days: int = 400
    """Days that this host keeps counters of requests, tokens and cost by key, tenant and model; 0 counts nothing."""
    identity: Identity | None = None
    """The header of an OIDC proxy that names the person behind a request; None reads none. Names of persons are then in
    the counters of usage and in the journal. Not with `protection="balancer"`, which forwards headers that clients
    wrote."""
    limits: GatewayLimits = GatewayLimits()
    https: Https | None = None
    """None: the host offers no TLS to clients."""
