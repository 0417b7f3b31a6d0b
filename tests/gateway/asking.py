"""A client of the ASGI application in the same process, and a gateway with a Triton behind it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.app import App
from gateway.gateway import Gateway
from tests.gateway import schemas
from tests.gateway.engine import Engine, engine_serving
from tests.gateway.triton import Triton, serving
from tests.gateway.weights import TEMPLATE, written

KEY = "eh-test-0123456789abcdef0123456789abcdef"
OTHER_KEY = "eh-other-0123456789abcdef0123456789abcdef"
SECONDS = 600
CHAT = "/v1/chat/completions"


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs an asynchronous test under pytest, with a time limit."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), SECONDS))

    return run


@dataclass
class Answer:
    """The part of an answer that has arrived; `events` are the parsed data lines of a stream, with `[DONE]` as text."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_complete: bool = False

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json()["error"]

    @property
    def events(self) -> list[Any]:
        lines = [line.removeprefix("data: ") for line in self.body.decode().split("\n\n") if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]


@dataclass
class Conversation:
    """A running request: `leave` closes the client's end, `stops_reading` leaves sent data unread."""

    app: App
    scope: dict[str, Any]
    parts: list[bytes]
    answer: Answer = field(default_factory=Answer)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    takes: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self) -> dict[str, Any]:
        if self.parts:
            part = self.parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self.parts)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.takes.wait()
        if message["type"] == "http.response.start":
            self.answer.status = message["status"]
            self.answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.answer.body += message["body"]
            self.answer.is_complete = not message.get("more_body", False)
        self.came.set()

    async def run(self) -> Answer:
        """Returns the whole answer; an accepted request keeps the schemas of its path."""
        body = b"".join(self.parts)
        await self.app(self.scope, self.receive, self.send)
        is_json = self.answer.headers.get("content-type") == "application/json"
        if self.answer.status == 200 and body[:1] in (b"{", b""):
            call = self.scope["method"], self.scope["path"], body
            schemas.check(self.app.gateway.settings, *call, self.answer.body if is_json else b"")
        return self.answer

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits for further data until the condition holds."""
        while not holds():
            self.came.clear()
            await self.came.wait()


@dataclass
class RunningGateway:
    """A gateway and the servers behind it."""

    app: App
    gateway: Gateway
    tritons: list[Triton]
    settings_file: Path
    keys_file: Path
    engine: Engine | None = None
    """The LLM's engine, which plays the first Triton's scripts."""

    @property
    def triton(self) -> Triton:
        return self.tritons[0]

    def opened(
        self,
        path: str,
        body: Any = None,
        *,
        method: str = "",
        key: str | None = KEY,
        headers: dict[str, str] | None = None,
        query: str = "",
        parts: list[bytes] | None = None,
    ) -> Conversation:
        """Returns a request that has not been started."""
        sent = [body if isinstance(body, bytes) else json.dumps(body).encode()] if body is not None else [b""]
        sent_headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        sent_headers |= headers or {}
        scope = {
            "type": "http",
            "method": method or ("GET" if body is None and parts is None else "POST"),
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent_headers.items()],
        }
        conversation = Conversation(self.app, scope, parts or sent)
        conversation.takes.set()
        return conversation

    async def ask(self, path: str, body: Any = None, **more: Any) -> Answer:
        """Returns the complete answer to a request."""
        return await self.opened(path, body, **more).run()

    async def chat(self, text: str = "hello", **more: Any) -> Answer:
        """Returns the answer to a chat of one message."""
        return await self.ask("/v1/chat/completions", chat(text, **more))


def chat(text: str = "hello", **more: Any) -> dict[str, Any]:
    """Returns a chat's body."""
    return {"model": "llama", "messages": [{"role": "user", "content": text}], **more}


def key_line(key: str, tenant: str, models: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """Returns a key in the file's form."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return {"sha256": digest, "prefix": key[:7], "tenant": tenant, "models": models or ["*"], **more}


def settings(addresses: list[str], weights: Path, keys: Path | None, **more: Any) -> dict[str, Any]:
    """Returns settings of a fleet with a model of each kind on every server."""
    servers = {f"host-{number}/main": {"grpc": address} for number, address in enumerate(addresses)}
    shared = {"servers": list(servers), "created": 1763856000}
    encoder = shared | {"max_items": 3, "max_tokens": 512}
    embedder = encoder | {"kind": "embedder", "dimensions": 4, "tasks": ["search_query", "search_document"]}
    document: dict[str, Any] = {
        "fingerprint": "plan-1",
        "hold_seconds": 30,
        "servers": servers,
        "models": {
            "llama": shared | {"kind": "llm", "context_tokens": 200, "files": str(weights), "guided_decoding": True},
            "nomic": embedder,
            "bge": encoder | {"kind": "reranker", "triton_model": "bge_v2"},
        },
        "aliases": {"nomic:query": {"model": "nomic", "task": "search_query"}, "gpt-4o": {"model": "llama"}},
    }
    return document | ({"keys_file": str(keys)} if keys else {}) | more


@contextlib.asynccontextmanager
async def running_gateway(
    folder: Path,
    tritons: int = 1,
    has_keys: bool = True,
    template: str = TEMPLATE,
    llm: dict[str, Any] | None = None,
    runtime: str = "",
    **more: Any,
) -> AsyncIterator[RunningGateway]:
    """Yields a gateway before `tritons` servers, with `KEY` of acme for all models and `OTHER_KEY` of umbrella for bge.

    `llm`: further settings of llama, whose chat template is `template`. `runtime`: the program of an engine over HTTP
    that serves llama instead; server.json in `folder` may name another program.
    """
    keys = folder / "keys.json"
    keys.write_text(json.dumps({"keys": [key_line(KEY, "acme"), key_line(OTHER_KEY, "umbrella", ["bge"])]}))
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(Triton())) for _ in range(tritons)]
        addresses, weights = [server.address for server in servers], written(folder / "weights", template)
        gateway_settings = settings(addresses, weights, keys if has_keys else None, **more)
        engine = None
        if runtime:
            engine = await stack.enter_async_context(engine_serving(Engine(servers[0], runtime)))
            address = {"http": engine.address, "runtime": runtime, "release": str(folder / "server.json")}
            gateway_settings["servers"]["host-0/engine"] = address
            gateway_settings["models"]["llama"]["servers"] = ["host-0/engine"]
        gateway_settings["models"].get("llama", {}).update(llm or {})
        app = await stack.enter_async_context(opened(folder, gateway_settings))
        yield RunningGateway(app, app.gateway, servers, folder / "settings.json", keys, engine)


@contextlib.asynccontextmanager
async def opened(folder: Path, gateway_settings: dict[str, Any]) -> AsyncIterator[App]:
    """Yields the running application with these settings."""
    (folder / "settings.json").write_text(json.dumps(gateway_settings))
    app = App(Gateway(folder / "settings.json"))
    async with app.running():
        await asyncio.sleep(0)  # lets the tasks start that follow the servers
        yield app


async def becomes(holds: Callable[[], bool]) -> None:
    """Returns once the condition holds."""
    while not holds():
        await asyncio.sleep(0.01)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """Returns the audit lines printed so far."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
