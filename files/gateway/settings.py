"""The map of models and servers that the plan renders, as values; a file with unknown content is refused whole.

More than 300 lines, because the whole file format is in one place.

    {"fingerprint": "plan-c0561c73b5631697",            system_fingerprint of answers
     "url": "https://llm.example.com",                   of the gateway, for its page; absent: the address it listens on
     "keys_file": "/etc/enginehouse/gateway/keys.json",  absent: no key is required
     "salt_file": "/etc/enginehouse/gateway/salt",        a secret of the host, if a model has `salts`
     "hosts": 1,                                         hosts with a gateway; each accepts its part of a limit
     "listen": {"address": "127.0.0.1", "ports": [8080]},  fields of Listen; a process for each port
     "unknown_fields": "refuse",                         absent: ignored, and named in a header of the answer
     "cors_origins": ["https://app.example.com"],        absent: browsers hide answers from other origins
     "default_embedder": "nomic", "default_reranker": "bge",  for requests without a model
     "pages": false,                                     absent: pages for people at /, /try and /usage
     "trace_one_in": 100,                                one of so many requests is traced (traces.py); absent: none
     "hold_seconds": 120,                                longest wait for a model without a ready server
     "limits": {…},                                      fields of Limits
     "usage_days": 400,                                  days that counters of usage are kept; 0: no counters
     "prices": {"llama": {"prompt": 0.5, "cached": 0.1, "completion": 1.5, "currency": "USD"}},   a million tokens
     "identity": {"header": "x-forwarded-email", "proxies": ["127.0.0.1"]},   absent: no header names a person
     "mutual": {"certificate": PATH, "authority": PATH}, absent: no server is on another host
     "servers": {"h100-01/main": {"grpc": "127.0.0.1:8001", "ready_url": "http://10.0.0.7:8404/ready/main"},
                 "h100-02/main": {"grpc": "10.0.0.8:8009", "ready_url": "https://10.0.0.8:8009/ready/main",
                                  "mutual": "main"},
                 "h100-01/chat": {"http": "127.0.0.1:8010", "runtime": "vllm", "version": "0.26.0"}},
     "models": {
       "llama": {"kind": "llm", "triton_model": "llama", "servers": ["h100-01/main"], "created": 1763856000,
                 "context_tokens": 8192, "files": "/var/lib/enginehouse/weights/llama/3f9c",
                 "tool_parser": "llama3_json", "reasoning_parser": "", "guided_decoding": true},
       "nomic": {"kind": "embedder", …, "dimensions": 768, "max_items": 1024, "max_tokens": 512,
                 "tasks": ["search_query", "search_document"]},
       "bge":   {"kind": "reranker", …, "max_items": 1024, "max_tokens": 512}},
     "aliases": {"nomic:query": {"model": "nomic", "task": "search_query"},
                 "llama:support": {"model": "llama", "adapter": "support"},
                 "qwen": {"models": ["qwen-8k", "qwen-64k"]},
                 "chat": {"shares": {"llama": 95, "llama-next": 5}, "sticky": "key", "fallback": "qwen-8k"}}}

`files` of an LLM is a folder with the weights' own tokenizer.json, tokenizer_config.json, and chat_template.jinja and
generation_config.json if they were published. With `"salts": true` the LLM's slot takes `cache_salt`, and tenants share
no cached prefix. An alias of several `models` is one LLM in engines for different lengths: the shortest that has room
for a prompt answers it. Parsers have vLLM's names; without `tool_parser` tools are refused, and JSON schemas without
`guided_decoding`. Without `ready_url` the server itself is asked for its readiness. A server with `http` is an LLM's
engine, and `runtime` its program (runtimes.py); a file `release` names another program after a swap. A server with
`mutual` is behind a port of its host that uses mutual TLS for all servers there (mutual.py); the value names the
server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, cast

from gateway.fields import FieldError, Fields
from gateway.identity import Identity, identity_of
from gateway.runtimes import RUNTIMES
from gateway.servers import Mutual, ServerSettings, identified, mutual_of, refuse_runtimes, server_of
from gateway.usage import Price

Kind = Literal["llm", "embedder", "reranker"]
KINDS = ("llm", "embedder", "reranker")
TOOL_PARSERS = ("hermes", "llama3_json", "mistral", "harmony")
REASONING_PARSERS = ("qwen3", "deepseek_r1")
TASKS = ("search_query", "search_document", "classification", "clustering")
MOST = 2**31 - 1
SALT_DIGITS = 64
LISTEN_NUMBERS = ("connections", "header_bytes", "header_seconds", "drain_seconds")


USAGE_DAYS = 400
"""Days that counters of usage are kept by default."""


@dataclass(frozen=True)
class Limits:
    """Bounds of requests. All are whole numbers; `_seconds` are seconds."""

    body_bytes: int = 16 * 2**20
    """Bytes of any body. `body_bounds` lowers it to the most that a model of the endpoint's kind could take."""
    nesting: int = 64
    """Brackets within brackets of a body."""
    values: int = 65_536
    """Values of a body, names included, outside its texts; token ids and documents come on top."""
    body_seconds: int = 30
    """Seconds that a client gets to send its body, at `BODY_RATE` bytes a second at least."""
    bodies_bytes: int = 128 * 2**20
    """Bytes of bodies that a process holds, from the first byte until they are parsed. As texts of four bytes a
    character they take 512 MiB at most."""
    tenant_bodies_bytes: int = 32 * 2**20
    """Bytes of bodies that a process holds for one tenant."""
    request_seconds: int = 600
    """Seconds for an answer, streamed or whole; OpenAI's clients wait as long."""
    silent_seconds: int = 10
    """Seconds after which a silent stream sends a comment."""
    stuck_seconds: int = 60
    """Seconds without reading after which a client counts as gone."""
    held: int = 256
    """Requests that may wait for models without a ready server."""
    inputs: int = 2048
    """Texts of one request for embeddings."""
    documents: int = 10_000
    """Documents of one request to rerank."""


@dataclass(frozen=True)
class Listen:
    """Address and ports for clients or the balancer before them. Each port has its own process."""

    address: str = "127.0.0.1"
    ports: tuple[int, ...] = (8080,)
    connections: int = 4096
    """Connections of a process; a request on a further one is answered 503."""
    header_bytes: int = 16_384
    """Bytes of a request's line and headers together."""
    header_seconds: int = 10
    """Seconds for a client to send them."""
    drain_seconds: int = 90
    """Seconds that a stopping process gives its open requests."""
    notice_seconds: int = 2
    """Seconds before a stop in which the process still accepts requests, while `/health` announces the stop to
    balancers."""


@dataclass(frozen=True)
class ModelSettings:
    """A model under its names for clients and for Triton. Fields of other kinds of models are empty."""

    name: str
    kind: Kind
    triton_model: str
    servers: tuple[str, ...]
    created: int
    context_tokens: int = 0
    files: str = ""
    salts: bool = False
    """True if the slot keeps cached prefixes of different salts apart."""
    tool_parser: str = ""
    reasoning_parser: str = ""
    guided_decoding: bool = False
    """True if the slot can limit an answer to a JSON schema."""
    dimensions: int = 0
    max_items: int = 0
    max_tokens: int = 0
    tasks: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ("",)
    """Programs of its servers; "" is Triton."""

    @property
    def is_over_http(self) -> bool:
        return "" not in self.runtimes

    @property
    def has_ids(self) -> bool:
        return all(RUNTIMES[runtime].has_ids for runtime in self.runtimes if runtime)

    @property
    def is_harmony(self) -> bool:
        return self.tool_parser == "harmony"

    @property
    def no_guide(self) -> str:
        """The reason why an answer cannot be limited to a schema; "" if it can."""
        if self.is_harmony:
            return "this model writes in channels, so its whole answer cannot be limited to a schema"
        return "" if self.guided_decoding else "this model is served without guided decoding (`guided_decoding`)"


@dataclass(frozen=True)
class Alias:
    """A name that clients may use for a model; `task` is the embedder's default task.

    Requests of this name use the LLM's LoRA `adapter`, if there is one. `shorter` are engines of the same LLM with less
    context than `model`, the shortest first. `shares` are the models of a split with their weights, `model` the first
    of them. `fallback` is the model that answers if the others fail before the first token.
    """

    model: str
    task: str = ""
    adapter: str = ""
    shorter: tuple[str, ...] = ()
    shares: tuple[tuple[str, int], ...] = ()
    sticky: Literal["key", "request"] = "key"
    """A split's choice is the same for all requests of a key and session, or drawn for each request."""
    fallback: str = ""

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.shares) or (self.model,)


@dataclass(frozen=True)
class Settings:
    """The content of a gateway's settings file."""

    fingerprint: str
    url: str
    keys_file: str
    hold_seconds: int
    hosts: int
    listen: Listen
    limits: Limits
    servers: Mapping[str, ServerSettings]
    models: Mapping[str, ModelSettings]
    aliases: Mapping[str, Alias]
    mutual: Mutual | None = None
    trace_one_in: int = 0
    usage_days: int = USAGE_DAYS
    prices: Mapping[str, Price] = field(default_factory=dict)
    salt_file: str = ""
    unknown_fields: str = "ignore"
    """Treatment of fields that no endpoint reads: ignore (the answer names them), or refuse."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages a browser allows to read answers; none by default."""
    pages: bool = True
    default_embedder: str = ""
    default_reranker: str = ""
    identity: Identity | None = None
    """Header of an OIDC proxy that names the person behind a request; None reads none."""
    salt: bytes = field(default=b"", repr=False)
    """Content of `salt_file`: equal for all processes of a host, and secret otherwise."""


def read(path: Path) -> Settings:
    """The settings in the file, and the identity and the secret in the files that it names.

    Raises: OSError, or ValueError for content that this version cannot read.
    """
    settings = settings_of(json.loads(path.read_text("utf-8")))
    return replace(settings, servers=identified(settings.servers, settings.mutual), salt=_salt(settings.salt_file))


def settings_of(data: object) -> Settings:
    """The settings in a parsed file.

    Raises: FieldError with the first field that is missing, unknown, of a wrong type, or names a missing object.
    """
    top = Fields(data)
    mutual = mutual_of(top.inner("mutual")) if top.has("mutual") else None
    servers = {name: server_of(name, top_, mutual) for name, top_ in _named(top, "servers")}
    models = {name: _model(name, fields_, servers) for name, fields_ in _named(top, "models")}
    aliases = {name: _alias(name, fields_, models) for name, fields_ in _named(top, "aliases")}
    settings = Settings(
        fingerprint=top.text("fingerprint", ""),
        url=_url(top),
        keys_file=top.text("keys_file", ""),
        hold_seconds=top.whole("hold_seconds", 0, 3600, 120),
        hosts=top.whole("hosts", 1, 1024, 1),
        listen=_listen(top.inner("listen")),
        limits=_limits(top.inner("limits")),
        servers=servers,
        models=models,
        aliases=aliases,
        mutual=mutual,
        trace_one_in=top.whole("trace_one_in", 0, MOST, 0),
        usage_days=top.whole("usage_days", 0, 3660, USAGE_DAYS),
        prices={name: _price(name, price, models) for name, price in _named(top, "prices")},
        salt_file=top.text("salt_file", ""),
        unknown_fields=top.text("unknown_fields", "ignore", choices=("ignore", "refuse")),
        cors_origins=tuple(top.texts("cors_origins", 64)) if top.has("cors_origins") else (),
        pages=top.flag("pages", True),
        default_embedder=_default(top, "embedder", models, aliases),
        default_reranker=_default(top, "reranker", models, aliases),
        identity=identity_of(top.inner("identity")) if top.has("identity") else None,
    )
    if not settings.salt_file and any(model.salts for model in models.values()):
        raise top.wrong("salt_file", "the file of a secret: a model has `salts`")
    top.close()
    return settings


def _default(top: Fields, kind: str, models: Mapping[str, ModelSettings], aliases: Mapping[str, Alias]) -> str:
    """The model of a kind for requests without a model's name; "" if none is declared."""
    name = top.text(f"default_{kind}", "")
    model = models.get(aliases[name].model if name in aliases else name)
    if name and (model is None or model.kind != kind):
        raise top.wrong(f"default_{kind}", f"the name of a model of kind {kind}")
    return name


def _price(name: str, section: Fields, models: Mapping[str, ModelSettings]) -> Price:
    if name not in models:
        raise FieldError(f"prices.{name}", f"`prices.{name}`: no model of this file has this name")
    prompt, cached, completion = (section.number(word, 0, MOST) or 0.0 for word in ("prompt", "cached", "completion"))
    price = Price(prompt, cached, completion, section.text("currency"))
    section.close()
    return price


def _salt(path: str) -> bytes:
    salt = Path(path).read_bytes().strip() if path else b""
    if path and len(salt) < SALT_DIGITS:
        raise ValueError(f"{path} is no secret of {SALT_DIGITS} characters or more")
    return salt


def _named(top: Fields, name: str) -> list[tuple[str, Fields]]:
    value = top.value(name)
    section = Fields({} if value is None else value, name)
    names = list(value or {})
    return [(key, section.inner(key)) for key in names]


def _url(top: Fields) -> str:
    url = top.text("url", "").rstrip("/")
    if url and not re.fullmatch(r"https?://[A-Za-z0-9.:\[\]_/~-]+", url):
        raise top.wrong("url", "an address as https://llm.example.com")  # part of commands that people paste
    return url


def _listen(section: Fields) -> Listen:
    known = Listen()
    ports = section.items("ports", 256) if section.has("ports") else list(known.ports)
    if not all(type(port) is int and 0 < port < 65536 for port in ports) or len(set(ports)) != len(ports):
        raise section.wrong("ports", "a list of different ports")
    address = section.text("address", known.address)
    numbers = {name: section.whole(name, 1, MOST, getattr(known, name)) for name in LISTEN_NUMBERS}
    notice_seconds = section.whole("notice_seconds", 0, 600, known.notice_seconds)
    listen = Listen(address, tuple(ports), notice_seconds=notice_seconds, **numbers)
    section.close()
    return listen


def _limits(section: Fields) -> Limits:
    values = {field.name: section.whole(field.name, 1, MOST, cast(int, field.default)) for field in fields(Limits)}
    section.close()
    return Limits(**values)


def _model(name: str, section: Fields, servers: Mapping[str, ServerSettings]) -> ModelSettings:
    kind = cast(Kind, section.text("kind", choices=KINDS))
    named = tuple(section.texts("servers", len(servers) or 1))
    if unknown := set(named) - set(servers):
        raise FieldError(section.path("servers"), f"`{section.path('servers')}` names {', '.join(sorted(unknown))}")
    values: dict[str, Any] = {"runtimes": tuple(sorted({servers[server].runtime for server in named}))}
    if kind == "llm":
        values |= {"context_tokens": section.whole("context_tokens", 1, MOST), "files": section.text("files")}
        values["salts"] = section.flag("salts", False)
        values["tool_parser"] = section.text("tool_parser", "", choices=("", *TOOL_PARSERS))
        values["reasoning_parser"] = section.text("reasoning_parser", "", choices=("", *REASONING_PARSERS))
        values["guided_decoding"] = section.flag("guided_decoding", False)
    else:
        values |= {word: section.whole(word, 1, MOST) for word in ("max_items", "max_tokens")}
    if kind == "embedder":
        values["dimensions"] = section.whole("dimensions", 1, MOST)
        values["tasks"] = tuple(section.texts("tasks", len(TASKS))) if section.has("tasks") else ()
        if set(values["tasks"]) - set(TASKS):
            raise section.wrong("tasks", f"a list of {', '.join(TASKS)}")
    refuse_runtimes(section, kind, values)
    model = ModelSettings(
        name, kind, section.text("triton_model", name), named, section.whole("created", 0, 2**53, 0), **values
    )
    section.close()
    return model


def _alias(name: str, section: Fields, models: Mapping[str, ModelSettings]) -> Alias:
    if name in models:
        raise FieldError(name, f"`{name}` is a model and an alias")
    shares = _shares(section, models) if section.has("shares") else ()
    if shares:
        shorter, model = list[str](), shares[0][0]
    elif section.has("models"):
        *shorter, model = _by_length(section, models)
    else:
        shorter, model = [], section.text("model", choices=tuple(models))
    task = section.text("task", "", choices=("", *models[model].tasks))
    adapter = section.text("adapter", "")
    if adapter and models[model].kind != "llm":
        raise section.wrong("adapter", "absent: the model is not an LLM")
    if adapter and not all(RUNTIMES[runtime].has_adapters for runtime in models[model].runtimes if runtime):
        raise section.wrong("adapter", "absent: the model's engine takes no adapter by its name")
    sticky = cast(Literal["key", "request"], section.text("sticky", "key", choices=("key", "request")))
    fallback = section.text("fallback", "", choices=("", *models))
    own = {model, *shorter, *(name for name, _ in shares)}
    kinds = {models[member].kind for member in own | ({fallback} - {""})}
    if fallback in own or (fallback and (len(kinds) > 1 or "embedder" in kinds)):
        raise section.wrong("fallback", "another LLM or reranker of this file, of the kind that the alias has")
    section.close()
    return Alias(model, task, adapter, tuple(shorter), shares, sticky, fallback)


def _shares(section: Fields, models: Mapping[str, ModelSettings]) -> tuple[tuple[str, int], ...]:
    value = section.value("shares")
    shares = tuple(value.items()) if isinstance(value, dict) else ()
    is_known = bool(shares) and all(name in models for name, _ in shares)
    kinds = {models[name].kind for name, _ in shares} if is_known else set[Kind]()
    if len(kinds) != 1 or "embedder" in kinds:
        raise section.wrong("shares", "an object of LLMs or rerankers of this file, with a weight for each")
    if not all(type(weight) is int and 0 <= weight <= MOST for _, weight in shares) or not sum(dict(shares).values()):
        raise section.wrong("shares", "weights that are whole numbers, and not all 0")
    return shares


def _by_length(section: Fields, models: Mapping[str, ModelSettings]) -> list[str]:
    named = section.texts("models", len(models))
    if not all(name in models and models[name].kind == "llm" for name in named):
        raise section.wrong("models", "a list of LLMs of this file")
    if len({models[name].files for name in named}) > 1:
        raise section.wrong("models", "LLMs of the same `files`: their prompts have the same ids")
    return sorted(named, key=lambda name: models[name].context_tokens)
