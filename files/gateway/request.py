"""What the endpoints are handed."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Any

from gateway.exchange import Exchange
from gateway.fields import Fields
from gateway.fleet import Work
from gateway.gateway import Gateway
from gateway.keys import Key
from gateway.settings import Alias, ModelSettings
from gateway.traces import traceparent


@dataclass
class Request:
    """A request that has a right to an answer, and its parsed body."""

    gateway: Gateway
    exchange: Exchange
    key: Key
    body: Any
    alias: Alias = field(default_factory=lambda: Alias(""))
    """What the client's name of the model says besides."""

    def fields(self) -> Fields:
        """The fields of the body."""
        return Fields(self.body)

    def model(self, name: str, kind: str) -> tuple[ModelSettings, Alias]:
        """The model of this name or alias; the audit's line and the metrics know it from here on.

        Raises: ApiError 404 or 400.
        """
        model, self.alias = self.gateway.model(name, kind, self.key)
        self.exchange.record.model = model.name
        return model, self.alias

    def work(self, model: ModelSettings, weight: int, beginning: bytes = b"") -> Work:
        """What the fleet is asked to carry."""
        trace = traceparent(self.exchange.identity, self.gateway.settings.trace_one_in)
        return Work(model, weight, self._served_by, self._queued, beginning, self.key.tenant, trace)

    def salt(self, model: ModelSettings) -> str:
        """What keeps this tenant's cached prefixes apart from others', where the model's slot can; no tenant's name.

        Nobody computes it without the host's secret: whoever reaches Triton beside the gateway could else send it, and
        learn from `cached_tokens` how a tenant's prompts begin.
        """
        if not model.salts:
            return ""
        return hmac.new(self.gateway.settings.salt, self.key.tenant.encode(), "sha256").hexdigest()[:32]

    def reserve(self, tokens: int) -> None:
        """The request may use so many tokens of its key's.

        Raises: ApiError 429.
        """
        if self.exchange.lease:
            self.exchange.lease.reserve(tokens)

    def _served_by(self, server: str) -> None:
        self.exchange.record.server = server

    def _queued(self, seconds: float) -> None:
        record = self.exchange.record  # of the parts of a request the one that waited longest
        record.queued = max(record.queued or 0.0, seconds)

    @property
    def seconds(self) -> float:
        """How long Triton may take."""
        return float(self.exchange.limits.request_seconds)
