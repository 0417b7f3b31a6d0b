"""The request in the form that endpoints receive."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.bodies import body_bounds, is_large
from gateway.errors import ApiError, UpstreamError
from gateway.exchange import Exchange
from gateway.fields import Fields
from gateway.fleet import Work
from gateway.gateway import Gateway
from gateway.keys import Key
from gateway.routing import NO_PREFIX, Prefix, drawn
from gateway.settings import Alias, ModelSettings
from gateway.traces import traceparent

SESSION = b"x-session-affinity"
"""Header that balancers also hash: requests with the same value go to the same gateway and server."""
MOST_SESSION = 256
BYTES_A_TOKEN = 8
"""Bytes per token in texts that are not yet tokenised. English has 4 to 5, so no request is refused wrongly."""


@dataclass
class Request:
    """An authorised request, and its body."""

    gateway: Gateway
    exchange: Exchange
    key: Key
    raw: bytes = b""
    """The unparsed body, until it is read."""
    body: Any = None
    size: int = 0
    """Bytes of the body."""
    is_large: bool = False
    """True if the body is so large that other requests would wait for it."""
    deployment: str = ""
    """The model in the path, as Azure's clients send it; it replaces the field `model`."""
    alias: Alias = field(default_factory=lambda: Alias(""))
    """The alias by which the client named the model: its task, adapter and fallback."""
    _kept: Any = None
    """The parsed body, kept for an alias's fallback."""
    _is_read: bool = False
    """True after the first read of the body's fields; a dialect's translation is not kept."""
    _fallback: str = ""
    """The model that answers instead of the alias's own."""

    async def read(self, kind: str) -> None:
        """Parses the body. A large body is charged first, whatever the result.

        Raises: ApiError.
        """
        raw, self.raw = self.raw, b""
        self.size, self.is_large = len(raw), is_large(raw)
        if self.is_large:
            self.pay_for(len(raw))
        bounds = body_bounds(self.gateway.settings, kind).json
        self.body = await self.gateway.parser.value(raw, bounds, self.key.tenant)

    def pay_for(self, size: int) -> None:
        """Charges the key for this many bytes of text before a model has them.

        Raises: ApiError 429.
        """
        tokens = size // BYTES_A_TOKEN
        self.reserve(tokens)
        self.exchange.record.read_tokens = tokens

    def fields(self) -> Fields:
        """The fields of the body; its bytes are kept after the choice of a model only for an alias with a fallback."""
        body, self.body = self.body, None
        if not self._is_read:
            self._kept, self._is_read = body, True
        if self.deployment and isinstance(body, dict):
            body = {**body, "model": self.deployment}
        refuses = self.gateway.settings.unknown_fields == "refuse"
        return Fields(body, ignored=None if refuses else self.exchange.ignored)

    def hold_answer(self, size: int) -> None:
        """Reserves memory for an answer of this many bytes more, until the client has taken it.

        Raises: ApiError 429 or 503; during a model's answer, whose tokens then count as used, the message has the
        remedy.
        """
        self.exchange.answer = self.exchange.answer or self.gateway.answer_of(self.key.tenant)
        try:
            self.exchange.answer.take(size)
        except ApiError as error:
            if self.exchange.record.first_token is None:
                raise
            message = f"{error.message}: ask with `stream`, or for less at once"
            raise ApiError(error.status, message, code="answer_too_large", is_spent=True) from None

    def let_go(self) -> None:
        """Frees the body's bytes for another request, unless a fallback may have to read them again."""
        if self.exchange.held and self._kept is None:
            self.exchange.held.release()

    def model(self, name: str, kind: str) -> tuple[ModelSettings, Alias]:
        """The model of this name or alias; records it in the audit's line and the metrics.

        Raises: ApiError 404 or 400.
        """
        record, models = self.exchange.record, self.gateway.settings.models
        if record.instead_of:
            model, self.alias = models[self._fallback], Alias(self._fallback)
        else:
            model, self.alias = self.gateway.model(name, kind, self.key)
            if self.alias.fallback and not (self.key.may_use(name) or self.key.may_use(self.alias.fallback)):
                self.alias = replace(self.alias, fallback="")
            if self.alias.shares:
                model = models[drawn(self.alias.shares, self._sticky(name))]
            record.alias = name if self.alias.shares or self.alias.fallback else ""
        if not self.alias.fallback:
            self._kept = None
        record.model = model.name
        return model, self.alias

    def only_name(self, kind: str) -> str:
        """The name of the gateway's default model of this kind, or of the key's only one.

        Raises: ApiError if there is none, or more than one.
        """
        settings = self.gateway.settings
        default = {"embedder": settings.default_embedder, "reranker": settings.default_reranker}[kind]
        if default and self.key.may_use(default):
            return default
        names = [name for name, model in settings.models.items() if model.kind == kind and self.key.may_use(name)]
        if len(names) != 1:
            message = f"say which `model` is meant: {', '.join(names)}" if names else f"this key may not use any {kind}"
            raise ApiError(400, message, param="model")
        return names[0]

    def _sticky(self, alias: str) -> bytes:
        """The bytes that choose a model of a split: those of key and session, or of the request without both."""
        session, digest = self.session(), self.key.digest
        who = f"{digest}\0{session}" if self.alias.sticky == "key" and (digest or session) else self.exchange.identity
        return f"{alias}\0{who}".encode()

    def falls_back(self, error: ApiError | UpstreamError) -> bool:
        """True if the alias's fallback should answer: no token was sent, and no server of its model took it."""
        failure = error.to_api() if isinstance(error, UpstreamError) else error
        exchange, record = self.exchange, self.exchange.record
        if self._kept is None or exchange.has_begun or record.first_token is not None:
            return False
        if failure.status not in (500, 503) or (failure is error and failure.code != "unavailable"):
            return False
        if self.alias.fallback not in self.gateway.settings.models:
            return False
        self._fallback = self.alias.fallback
        self.body, self._kept, record.instead_of = self._kept, None, record.model
        exchange.streams = False
        return True

    def work(self, model: ModelSettings, weight: int, prefix: Prefix = NO_PREFIX) -> Work:
        """The request's work, by which the fleet chooses a server."""
        trace = traceparent(self.exchange.identity, self.gateway.settings.trace_one_in)
        fallback = self.gateway.settings.models.get(self.alias.fallback)
        may_wait = fallback is None or not self.gateway.fleet.ready(fallback.servers)
        return Work(model, weight, self._served_by, self._queued, prefix, self.key.tenant, trace, may_wait)

    def salt(self, model: ModelSettings) -> str:
        """The tenant's salt, which separates its cached prefixes from others'; empty if the model's slot takes none.

        It cannot be computed without the host's secret: otherwise a program that reaches Triton without the gateway
        could send it, and learn from `cached_tokens` how a tenant's prompts begin.
        """
        secret = self.gateway.settings.salt
        if not model.salts and not (secret and any(model.runtimes)):
            # A program beside Triton may differ from the settings' one, so it gets a salt if it may take one.
            return ""
        return hmac.new(secret, self.key.tenant.encode(), "sha256").hexdigest()[:32]

    def session(self, cache_key: str = "") -> str:
        """The client's name for requests that belong together: `prompt_cache_key`, else its header; "" without one."""
        return cache_key or self.exchange.headers.get(SESSION, b"")[:MOST_SESSION].decode("latin-1")

    def reserve(self, tokens: int) -> None:
        """Reserves tokens of the request's key.

        Raises: ApiError 429.
        """
        if self.exchange.lease:
            self.exchange.lease.reserve(tokens)

    def _served_by(self, server: str) -> None:
        self.exchange.record.server = server

    def _queued(self, seconds: float) -> None:
        record = self.exchange.record  # the longest wait among the parts of the request
        record.queued = max(record.queued or 0.0, seconds)

    @property
    def seconds(self) -> float:
        return float(self.exchange.limits.request_seconds)
