"""The ASGI application: access rights, routes, and the end of each request.

More than 300 lines, because every end of a request is handled in one place.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from gateway import anthropic, audit, cohere, cohere_chat, cohere_chat_v1, tei
from gateway.anthropic_answer import anthropic_error
from gateway.bodies import body_bounds
from gateway.chat import chat_completions
from gateway.completions import completions
from gateway.embeddings import embeddings
from gateway.errors import ENDS, ApiError, UpstreamError, place
from gateway.exchange import ClientLeft, Exchange, Receive, Scope, Send
from gateway.fields import FieldError
from gateway.forms import is_foreign_page
from gateway.gateway import Gateway, kept
from gateway.identity import person_of
from gateway.keys import Key
from gateway.models import list_models, one_model, version
from gateway.openapi import SCORES, Route
from gateway.openapi import answer as describe
from gateway.page import PAGES, page
from gateway.request import Request
from gateway.rerank import cohere_v1, cohere_v2, score
from gateway.responses import input_tokens, responses
from gateway.tokenize import detokenize, tokenize
from gateway.try_page import TRIALS, translate
from gateway.unsupported import TEXT_ERRORS, path_refusal

SWEEP_SECONDS = 1.0
CANCEL_SECONDS = 5.0
"""Seconds for interrupted clients to receive the event that reports the interruption."""

Body = Callable[[ApiError], object]


def openai_error(error: ApiError) -> object:
    return error.to_json()


def tei_error(error: ApiError) -> object:
    """The error in TEI's form."""
    kinds = {503: "Overloaded", 429: "Overloaded", 500: "Backend", 504: "Backend"}
    return {"error": error.message, "error_type": kinds.get(error.status, "Validation")}


async def openapi(request: Request) -> None:
    """Answers the paths, and the models of the key, as OpenAPI 3.1."""
    await describe(request, tuple(ROUTES.items()))


ROUTES = {
    "/v1/models": Route(list_models, "models", "OpenAI", "Models", parameter=("endpoint", "query")),
    "/v1/models/": Route(one_model, "models", "OpenAI", "Model", parameter=("name", "path")),
    "/v1/chat/completions": Route(chat_completions, "chat", "OpenAI", "ChatAnswer", "Chat"),
    "/v1/completions": Route(completions, "completions", "OpenAI", "CompletionAnswer", "Completion"),
    "/v1/responses": Route(responses, "responses", "OpenAI", "ResponseAnswer", "Response"),
    "/v1/responses/input_tokens": Route(input_tokens, "tokenize", "OpenAI", "ResponseTokens", "ResponseInput"),
    "/v1/embeddings": Route(embeddings, "embeddings", "OpenAI", "EmbeddingsAnswer", "Embeddings"),
    "/v1/messages": Route(anthropic.messages, "messages", "Anthropic", "AnthropicAnswer", "Messages"),
    "/v1/messages/count_tokens": Route(anthropic.count_tokens, "tokenize", "Anthropic", "InputTokens", "CountTokens"),
    "/v1/chat": Route(cohere_chat_v1.chat, "chat", "Cohere v1", "CohereAnswerV1", "CohereChatV1|CohereResultsV1"),
    "/v1/embed": Route(cohere.embed_v1, "embeddings", "Cohere v1", "EmbedAnswer", "CohereEmbedV1"),
    "/v1/rerank": Route(cohere_v1, "rerank", "Cohere v1", "RerankAnswer", "Rerank"),
    "/v1/tokenize": Route(cohere.tokenize, "tokenize", "Cohere v1", "CohereTokens", "CohereTokenize"),
    "/v1/detokenize": Route(cohere.detokenize, "tokenize", "Cohere v1", "CohereText", "CohereDetokenize"),
    "/v2/chat": Route(cohere_chat.chat, "chat", "Cohere v2", "CohereAnswer", "CohereChat"),
    "/v2/embed": Route(cohere.embed_v2, "embeddings", "Cohere v2", "EmbedAnswer", "CohereEmbed|CohereEmbedInputs"),
    "/v2/rerank": Route(cohere_v2, "rerank", "Cohere v2", "RerankAnswer", "Rerank"),
    "/v1/score": Route(score, "rerank", "vLLM", "ScoreAnswer", "|".join(SCORES)),
    "/tokenize": Route(tokenize, "tokenize", "vLLM", "Tokens", "Tokenize|TokenizeChat"),
    "/detokenize": Route(detokenize, "tokenize", "vLLM", "Detokenized", "CohereDetokenize"),
    "/version": Route(version, "version", "vLLM", "Version"),
    "/embed": Route(tei.embed, "embeddings", "TEI", "vector[1..]", "TeiEmbed"),
    "/rerank": Route(tei.rerank, "rerank", "TEI", "TeiRank[1..]|RerankAnswer", "TeiRerank|Rerank"),
    "/info": Route(tei.info, "models", "TEI", "Info"),
    "/openapi.json": Route(openapi, "openapi", "enginehouse", "OpenApi"),
}
SHORT = ("/models", "/chat/completions", "/completions", "/embeddings", "/responses", "/messages", "/score")
"""Paths that clients use if their base address lacks `/v1`."""
SHORT_FOLDERS = ("/models/", "/responses/", "/messages/")
DOUBLED = re.compile(r"(?:/openai)?/v1(?=/v[12]/)|/openai(?=/(?:v1/|responses|models))")
"""The part of a path that a client has from a base address of another form: `/v1` twice, or Azure's `/openai`."""
AZURE = re.compile(r"/openai/deployments/([^/]+)(/chat/completions|/completions|/embeddings)")
MOST_ORIGIN = 128
SECRETS = ("key", "token", "secret", "auth", "sig", "pass")
"""Parts of the names of query parameters that may hold a key, which the logs of other programs would keep."""
NAMES = re.compile(rb"[A-Za-z0-9_, -]{1,2048}")
EXPOSED = (
    b"access-control-expose-headers",
    b"x-request-id, retry-after, x-should-retry, x-enginehouse-ignored, x-enginehouse-model, "
    + b", ".join(
        b"x-ratelimit-%s-%s" % (word, kind)
        for word in (b"limit", b"remaining", b"reset")
        for kind in (b"requests", b"tokens", b"tokens-day", b"tokens-month")
    ),
)
"""The header that lets pages of `cors_origins` read an answer's id, limits and waits."""
OPEN = ("/health", "/metrics")
"""Paths that need no key; the balancer and the HTTPS server do not forward these paths."""


@dataclass
class OpenRequest:
    """An open request: its task, its key, and the reason for its cancellation, if any."""

    work: asyncio.Task[None]
    key: Key
    why: Exception | None = None

    def end(self, why: Exception) -> None:
        """Cancels the work, for this reason."""
        self.why = why
        self.work.cancel()


class App:
    """The application around a gateway's state. A failing request does not affect others."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.is_stopping = False
        """`/health` says that the process stops, so that balancers send no new requests; arriving ones are still
        answered."""
        self.is_full: Callable[[], bool] = lambda: False
        self._open_requests: dict[Exchange, OpenRequest] = {}
        self._request_tasks: set[asyncio.Task[Any]] = set()
        self._interrupted_ids: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            exchange = Exchange(scope, receive, send, self.gateway.settings.limits)
            exchange.pauses = self.gateway.pauses
            if exchange.path in OPEN:
                await self._open(exchange)
            else:
                await self._serve_request(exchange)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        async with self.running():
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self._cancel_open_requests()
        await send({"type": "lifespan.shutdown.complete"})

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While this context lasts, changed files are reread, servers are checked, and silent streams get comments."""
        works = (self.gateway.keep_current, self.gateway.keep_counting, self._keep_sweeping)
        tasks = [asyncio.ensure_future(kept(work)) for work in works]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.gateway.fleet.close()
            self.gateway.budgets.close()
            self.gateway.usage.close()

    async def _cancel_open_requests(self) -> None:
        """Cancels the requests that are still open at the stop's deadline; the log names their ids."""
        for task in self._request_tasks:
            task.cancel()
        if self._request_tasks:
            await asyncio.wait(self._request_tasks, timeout=CANCEL_SECONDS)
        if self._interrupted_ids:
            print(f"<4>{json.dumps({'cut': self._interrupted_ids})}", file=sys.stderr, flush=True)

    async def _keep_sweeping(self) -> None:
        comments: set[asyncio.Task[None]] = set()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            comments = {task for task in comments if not task.done()} | self.sweep(time.monotonic())

    def sweep(self, now: float) -> set[asyncio.Task[None]]:
        """Sends a comment on silent streams; ends requests whose client reads nothing, or whose key was revoked.

        Returns the tasks that send the comments.
        """
        comments = set()
        for exchange, open_request in self._open_requests.items():
            if exchange.stuck_seconds(now) > exchange.limits.stuck_seconds:
                open_request.end(ClientLeft("stuck"))
            elif not self.gateway.keys.lives(open_request.key):
                message = "this API key was revoked or has expired"
                open_request.end(ApiError(401, message, code="invalid_api_key", is_spent=True))
            elif exchange.streams and exchange.silent_seconds(now) > exchange.limits.silent_seconds:
                comments.add(asyncio.ensure_future(exchange.comment()))
        return comments

    async def _open(self, exchange: Exchange) -> None:
        if exchange.method not in ("GET", "HEAD"):
            await exchange.fail(error := ApiError(405, "GET or HEAD", allow="GET, HEAD"), openai_error(error))
        elif exchange.path == "/metrics":
            page = self.gateway.metrics.page().encode()
            await exchange.whole(page, b"text/plain; version=0.0.4; charset=utf-8")
        else:
            models = self.gateway.standing()
            stopping = {"stopping": True} if self.is_stopping else {}
            await exchange.json({"models": models, **stopping}, 200 if any(models.values()) and not stopping else 503)

    async def _serve_request(self, exchange: Exchange) -> None:
        path, deployment = known_path(exchange.path)
        exchange.path = path
        is_page = path in PAGES and self.gateway.settings.pages
        if is_page and path in TRIALS and exchange.method == "POST":
            route = ROUTES.get(TRIALS[path].endpoint)
        else:
            route = ROUTES.get("/v1/models/" if path.startswith("/v1/models/") else path)
        label = exchange.record.endpoint = route.label if route else "page" if is_page else "none"
        metrics, record = self.gateway.metrics, exchange.record
        metrics.running.add((label,))
        shape = error_shape(route, exchange)
        if task := asyncio.current_task():
            self._request_tasks.add(task)
            task.add_done_callback(self._request_tasks.discard)
        try:
            await self._answer(route, exchange, deployment)
        except asyncio.CancelledError:  # the process stops, so this task can end here
            record.end = "cut"
            self._interrupted_ids.append(exchange.identity)
            failure = ApiError(503, "the gateway stops", code="cut", retry_after=1, is_spent=exchange.has_begun)
            with contextlib.suppress(Exception):
                await exchange.fail(failure, shape(failure))
        except ENDS:
            raise
        except BaseException as error:  # also a panic of a library in Rust, whose text may be a prompt
            failure = client_error(error, exchange)
            record.end = failure.code or failure.kind
            if not exchange.has_begun:
                record.status = failure.status
            if failure.status != 499:
                with contextlib.suppress(Exception):  # the client may have disconnected too
                    await asyncio.wait_for(exchange.fail(failure, shape(failure)), exchange.limits.stuck_seconds)
        finally:
            metrics.running.add((label,), -1)
            for held in (exchange.held, exchange.answer):
                if held:
                    held.release()
            if exchange.lease:
                exchange.lease.settle(record, exchange.streams)
            self._count(exchange)

    async def _answer(self, route: Route | None, exchange: Exchange, deployment: str) -> None:
        origin = exchange.headers.get(b"origin", b"").decode("latin-1")
        if origin and origin in self.gateway.settings.cors_origins:
            exchange.cors = [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin"), EXPOSED]
        elif not self.gateway.keys.path and is_foreign_page(origin.encode("latin-1"), self.gateway.settings.url):
            shown = re.sub("[^!-~]", "?", origin)[:MOST_ORIGIN]
            message = f"this gateway needs no key, and does not know {shown} as its address: a page of another site"
            remedy = f'the operator declares Gateway(url="{shown}"), or `cors_origins` for another site\'s pages'
            raise ApiError(403, f"{message} could ask it; {remedy}", code="other_site")
        if self.is_full():
            raise ApiError(503, "all connections of the gateway are in use", code="overloaded", retry_after=1)
        if exchange.record.endpoint == "none":
            raise ApiError(404, path_refusal(exchange.path), code="unknown_url")
        if route is None and exchange.path == "/" and exchange.method == "POST" and exchange.is_json:
            raise ApiError(404, "nothing answers here; send chats to POST /v1/chat/completions", code="unknown_url")
        if route:
            methods = ("GET", "HEAD") if route.method == "GET" else (route.method,)
            if exchange.method == "OPTIONS":
                return await self._options(exchange, (*methods, "OPTIONS"))
            if exchange.method not in methods:
                raise ApiError(405, f"{route.method} is the only method here", allow=", ".join(methods))
        self._read_query(exchange)
        if exchange.header_bytes > self.gateway.settings.listen.header_bytes:
            raise ApiError(431, "the headers are too large")
        if exchange.is_ambiguous:
            raise ApiError(400, "a header that may occur only once, such as Authorization, occurs twice")
        identity = self.gateway.settings.identity
        exchange.record.person = person_of(identity, exchange.client, exchange.sent_headers)
        if route is None:
            return await page(self.gateway, exchange)
        if exchange.path in TRIALS:
            await translate(self.gateway, exchange, TRIALS[exchange.path])
        record = exchange.record
        key = self.gateway.keys.holder(exchange.authorization)
        record.tenant, record.key = key.tenant, key.prefix
        exchange.lease = self.gateway.budgets.lease(key)
        if route.method == "POST":
            exchange.lease.begin()
            exchange.held = self.gateway.held_by(key.tenant)
        request = Request(self.gateway, exchange, key, deployment=deployment)
        if route.method == "POST":
            request.raw = await exchange.body(body_bounds(self.gateway.settings, route.kind).most_bytes)
        work = asyncio.ensure_future(read_and_answer(route, request))
        left = asyncio.ensure_future(exchange.left())
        open_request = self._open_requests[exchange] = OpenRequest(work, key)
        left.add_done_callback(lambda _: work.cancel())
        try:
            await work  # cancelling this task cancels the work and waits for its end
        except asyncio.CancelledError:
            if open_request.why is None and not left.done():
                raise
            raise open_request.why or ClientLeft() from None
        finally:
            del self._open_requests[exchange]
            left.cancel()

    async def _options(self, exchange: Exchange, methods: tuple[str, ...]) -> None:
        """Answers with the methods of a path, which a browser asks for before a request from another origin's page."""
        allow = ", ".join(methods).encode()
        if exchange.cors:
            # SDKs send a dozen headers of their own.
            names = exchange.headers.get(b"access-control-request-headers", b"")
            allowed = names if NAMES.fullmatch(names) else b"authorization, content-type"
            exchange.cors += [
                (b"access-control-allow-methods", allow),
                (b"access-control-allow-headers", allowed),
                (b"access-control-max-age", b"600"),
            ]
        await exchange.whole(b"", b"text/plain", 200, [(b"allow", allow)])

    def _read_query(self, exchange: Exchange) -> None:
        """Reads the query: Azure's `api-version`, Anthropic's `beta` and Cohere's `endpoint` are accepted.

        Other names are ignored.

        Raises: ApiError for a possible key, and for every name if unknown fields are refused.
        """
        names = [word.partition(b"=")[0].decode("latin-1") for word in exchange.query.split(b"&") if word]
        ours = ("api-version", "beta", *(("endpoint",) if exchange.path == "/v1/models" else ()))
        names = [name for name in names if name not in ours]
        refuses = self.gateway.settings.unknown_fields == "refuse"
        if names and (refuses or any(word in name.lower() for name in names for word in SECRETS)):
            raise ApiError(400, "the query string is not read; send the key in a header")
        if names:
            exchange.ignored.append("query")

    def _count(self, exchange: Exchange) -> None:
        record, metrics, now = exchange.record, self.gateway.metrics, time.monotonic()
        metrics.requests.add((record.endpoint, record.model, str(record.status)))
        if record.alias:
            metrics.aliases.add((record.alias, record.model, record.instead_of))
        metrics.seconds.observe((record.endpoint, record.model), now - record.began)
        for kind in ("prompt", "completion", "cached"):
            if count := getattr(record, f"{kind}_tokens"):
                metrics.tokens.add((record.model, kind), count)
        if record.queued is not None:
            metrics.queued.observe((record.model,), record.queued)
        if exchange.streams and exchange.has_begun:
            metrics.stream_ended(record.model, record.end)
        if exchange.lease and exchange.method == "POST":
            prompt, completion = exchange.lease.used
            # If tenants share cached prefixes, this count would reveal how another tenant's prompt began.
            model = self.gateway.settings.models.get(record.model)
            is_own = bool(model and model.salts) or not self.gateway.settings.keys_file
            tokens = (prompt, min(record.cached_tokens, prompt) if is_own else 0, completion)
            is_error = bool(record.end) or record.status >= 400
            seconds = now - record.began
            self.gateway.usage.add(record.at, record.holder, record.tenant, record.model, is_error, tokens, seconds)
        audit.write(record.line(now))


def known_path(path: str) -> tuple[str, str]:
    """The path in the routes' form, and the deployment that Azure's clients put into it."""
    path = re.sub("//+", "/", path).rstrip("/") or "/"
    if match := AZURE.fullmatch(path):
        return f"/v1{match[2]}", match[1]
    if match := DOUBLED.match(path):
        path = path[match.end() :]
    return f"/v1{path}" if path in SHORT or path.startswith(SHORT_FOLDERS) else path, ""


def error_shape(route: Route | None, exchange: Exchange) -> Body:
    """The form of errors: the path's, else the form of the dialect that has the path or whose header was sent."""
    is_shared = route is None or route.label == "models"
    if exchange.path.startswith("/v1/messages") or (is_shared and b"anthropic-version" in exchange.headers):
        return anthropic_error
    is_teis = route.vendor == "TEI" if route else exchange.path.startswith(TEXT_ERRORS)
    return tei_error if is_teis else openai_error


async def read_and_answer(route: Route, request: Request) -> None:
    """Reads the request's body and sends its answer, by an alias's fallback if its model does not answer."""
    if route.method == "POST":
        await request.read(route.kind)
    try:
        await route.answer(request)
    except (ApiError, UpstreamError) as error:
        if not request.falls_back(error):
            raise
        first = error
    else:
        return
    try:
        await route.answer(request)
    # The fallback refuses the request, so the client gets the first model's error.
    except (ApiError, FieldError) as error:
        if isinstance(error, FieldError) or error.status == 400:
            raise first from None
        raise


def client_error(error: BaseException, exchange: Exchange) -> ApiError:
    """The client's error for an exception. An unexpected exception is logged by its place, without its text."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ClientLeft):
        return ApiError(499, "the client left", code=error.word)
    if isinstance(error, FieldError):
        return ApiError(400, error.message, param=error.param or None, code=error.code)
    if isinstance(error, UpstreamError):
        return error.to_api(is_spent=exchange.has_begun or exchange.record.first_token is not None)
    print(json.dumps({"request": exchange.identity, "internal_error": place(error)}), file=sys.stderr, flush=True)
    return ApiError(500, f"the gateway failed; its log names request {exchange.identity}", code="internal_error")
