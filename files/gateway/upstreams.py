"""The two kinds of servers under one interface: a Triton over gRPC, and an LLM's engine over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from gateway.events import Event, event_of
from gateway.http_upstream import HttpUpstream
from gateway.llm_request import LlmRequest
from gateway.servers import ServerSettings
from gateway.triton import Triton, readable

Upstream = Triton | HttpUpstream


def upstream_of(settings: ServerSettings) -> Upstream:
    """The connection to a server, in the server's protocol."""
    if settings.http:
        return HttpUpstream(settings)
    return Triton(settings.grpc, settings.identity, settings.mutual)


def events_of(
    upstream: Upstream, model: str, request: LlmRequest, seconds: float, trace: str
) -> AsyncGenerator[Event, None]:
    """The events of one request, as they arrive. Closing the iterator before its end cancels the request.

    The iterator raises UpstreamError.
    """
    if isinstance(upstream, HttpUpstream):
        return upstream.events(model, request, seconds, trace)
    return _of_triton(upstream, model, request, seconds, trace)


async def _of_triton(
    triton: Triton, model: str, request: LlmRequest, seconds: float, trace: str
) -> AsyncGenerator[Event, None]:
    async with aclosing(triton.stream(model, request.tensors(), seconds, trace)) as answers:
        async for outputs in answers:
            yield readable(partial(event_of, outputs))
