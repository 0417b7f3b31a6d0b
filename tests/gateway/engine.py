"""A small LLM engine over HTTP in place of vLLM or trtllm-serve: their protocol over the tests' Triton.

It plays the same scripts and records requests by the slot's names, so that every test of an LLM can use either. It
refuses the fields that the programs refuse: `refusal` keeps their rules, read on 2026-11-27 in vLLM 0.26.0
(`CompletionRequest`, `SamplingParams._verify_args`) and in TensorRT-LLM's main branch (`openai_protocol.py`, which
forbids unknown fields).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import grpc

from tests.gateway.triton import Event, ModelRequest, Triton

SHARED = {
    "model", "prompt", "max_tokens", "n", "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "seed",
    "presence_penalty", "repetition_penalty", "stop", "min_tokens", "stop_token_ids", "ignore_eos", "logprobs",
    "skip_special_tokens", "stream", "stream_options", "response_format",
}  # fmt: skip
FIELDS = {
    "vllm": SHARED | {"return_tokens_as_token_ids", "return_token_ids", "cache_salt", "structured_outputs"},
    "trtllm-serve": SHARED,
}
STATUSES = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.UNIMPLEMENTED: 501,
}
NEUTRAL = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "frequency_penalty": 0.0, "presence_penalty": 0.0}
NEUTRAL |= {"repetition_penalty": 1.0}


def refusal(body: dict[str, Any], runtime: str) -> str:
    """Returns the field for which the program answers 400; "" if it accepts the body."""
    if unknown := set(body) - FIELDS[runtime]:
        return sorted(unknown)[0]
    prompts = body.get("prompt")
    lists = prompts if prompts and isinstance(prompts[0], list) else [prompts]
    if not all(ids and all(type(identity) is int and identity >= 0 for identity in ids) for ids in lists):
        return "prompt"
    bounds = {"temperature": (0, 2), "min_p": (0, 1), "frequency_penalty": (-2, 2), "presence_penalty": (-2, 2)}
    bounds |= {"top_k": (-1, 2**31 - 1), "logprobs": (0, 20), "max_tokens": (1, 2**31 - 1), "n": (1, 16384)}
    bounds |= {"seed": (-(2**63), 2**63 - 1)}
    for name, (least, most) in bounds.items():
        if name in body and not least <= body[name] <= most:
            return name
    if not 0 < body.get("top_p", 1) <= 1:
        return "top_p"
    if body.get("repetition_penalty", 1) <= 0:
        return "repetition_penalty"
    if type(body.get("top_k", 0)) is not int:
        return "top_k"
    if not 0 <= body.get("min_tokens", 0) <= body["max_tokens"]:
        return "min_tokens"
    if body["temperature"] == 0 and body.get("n", 1) > 1:
        return "n"
    if not all(body.get("stop", [])) or not all(type(identity) is int for identity in body.get("stop_token_ids", [])):
        return "stop"
    if "stream_options" in body and not body.get("stream"):
        return "stream_options"
    if body.get("cache_salt", "salt") == "":
        return "cache_salt"
    formats = body.get("structured_outputs", {"json": {}})
    return "" if len(formats) == 1 and set(formats) <= {"json", "regex", "json_object"} else "structured_outputs"


@dataclass
class Engine:
    """The server; scripts and the memory of requests are its Triton's."""

    triton: Triton = field(default_factory=Triton)
    runtime: str = "vllm"
    address: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    connections: int = 0
    stopping: int = 0
    """Answers of a program that stops meanwhile, which end as `stops_by` says."""
    stops_by: str = "done"
    """"done": a stream without events; "abort": an answer that was aborted, without text if streamed; "cut": half."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of a connection until the client closes it."""
        self.connections += 1
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    await self._next(reader, writer)
        finally:
            writer.transport.abort()

    async def _next(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        if head[0].startswith("GET /health "):
            whole(writer, b"", 200 if self.triton.is_ready else 503)
        elif head[0].startswith("POST /v1/completions ") and headers["content-type"] == "application/json":
            await self._complete(json.loads(raw), headers, reader, writer)
        else:
            whole(writer, b"{}", 404)
        await writer.drain()

    async def _complete(
        self, body: dict[str, Any], headers: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.bodies.append(body)
        request = remembered(body, headers)
        self.triton.requests.append(request)
        if name := refusal(body, self.runtime):
            whole(writer, self._error(400, name), 400)
            return
        self.triton.running += 1
        work = asyncio.ensure_future(self._answer(body, request, writer))
        gone = asyncio.ensure_future(self._watch(reader))
        try:
            await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
            self.triton.cancelled += not work.done()
            if not work.done():
                raise ConnectionResetError
            work.result()
        finally:
            self.triton.running -= 1
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    @staticmethod
    async def _watch(reader: asyncio.StreamReader) -> None:
        """Returns once the client has closed the connection; reads no byte of its next request."""
        while not reader.at_eof():
            await asyncio.sleep(0.005)

    async def _answer(self, body: dict[str, Any], request: ModelRequest, writer: asyncio.StreamWriter) -> None:
        script = self.triton.script
        prompts = body["prompt"] if isinstance(body["prompt"][0], list) else [body["prompt"]]
        request.tensors["sampling_param_n"] = [len(prompts) * body.get("n", 1)]
        error = script.error
        if script.error_prompt not in ((), tuple(prompts[0])):
            error = None
        events = self.triton._events(request)
        if error and (not script.error_after or not body.get("stream")):
            status = 429 if "maximum queue size" in error[1].lower() else STATUSES.get(error[0], 500)
            whole(writer, self._error(status), status)
            return
        stops_by, self.stopping = self.stops_by * bool(self.stopping), max(self.stopping - 1, 0)
        if stops_by == "abort":
            events = (Event("" if body.get("stream") else "He", finish="abort", tokens=1),)
        if stops_by == "cut":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{")
            raise ConnectionResetError
        if not body.get("stream"):
            if script.halts_after is not None:
                await self.triton.goes_on.wait()
            whole(writer, json.dumps(self._whole(body, events)).encode(), 200)
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n")
        writer.write(b"transfer-encoding: chunked\r\n\r\n")
        begun: set[int] = set()
        if stops_by == "done":
            chunk(writer, b"data: [DONE]\n\n")
            writer.write(b"0\r\n\r\n")
            return
        for sent, event in enumerate(events):
            if error and sent == script.error_after:
                chunk(writer, b"data: " + self._error(500) + b"\n\n")
                break
            if sent == script.halts_after:
                await self.triton.goes_on.wait()
            choice = self._choice(body, event)
            if event.sequence not in begun and body.get("return_token_ids"):
                choice["prompt_token_ids"] = prompts[0]
            begun.add(event.sequence)
            self._send(writer, {"choices": [choice]})
            await writer.drain()
        else:
            self._send(writer, {"choices": [], "usage": usage_of(body, events)})
        chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        if script.halts_after == len(events):
            await self.triton.goes_on.wait()

    def _send(self, writer: asyncio.StreamWriter, more: dict[str, Any]) -> None:
        event = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "llama", **more}
        chunk(writer, b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n")

    def _choice(self, body: dict[str, Any], event: Event) -> dict[str, Any]:
        choice = {"index": event.sequence, "text": event.text, "logprobs": None, "stop_reason": None}
        choice |= {"finish_reason": event.finish or None}
        if body.get("return_token_ids"):
            choice["token_ids"] = list(event.ids)
        if "logprobs" in body:
            choice["logprobs"] = logprobs_of(event.ids, body["logprobs"])
        return choice

    def _whole(self, body: dict[str, Any], events: tuple[Event, ...]) -> dict[str, Any]:
        joined: dict[int, Event] = {}
        for event in events:
            before = joined.get(event.sequence, Event(sequence=event.sequence))
            texts, ids = before.text + event.text, before.ids + event.ids
            joined[event.sequence] = replace(before, text=texts, ids=ids, finish=event.finish or before.finish)
        choices = [self._choice(body, joined[sequence]) for sequence in sorted(joined)]
        return {"id": "cmpl-1", "object": "text_completion", "choices": choices, "usage": usage_of(body, events)}

    def _error(self, status: int, param: str | None = None) -> bytes:
        """Returns an error whose text must not reach clients or logs."""
        error = {"message": "secret words of the engine", "type": "x", "param": param, "code": status}
        value = {"error": error} if self.runtime == "vllm" else {"object": "error", **error}
        return json.dumps(value).encode()


def logprobs_of(ids: tuple[int, ...], width: int) -> dict[str, Any]:
    """Returns the lists of a completion, with ids in place of texts and the values of the tests' Triton."""
    tops = [[(identity, -0.5), (identity + 1, -1.5)][: max(width, 1)] for identity in ids]
    return {
        "text_offset": [0] * len(ids),
        "tokens": [f"token_id:{identity}" for identity in ids],
        "token_logprobs": [-0.5] * len(ids),
        "top_logprobs": [{f"token_id:{identity}": chance for identity, chance in top} for top in tops],
    }


def usage_of(body: dict[str, Any], events: tuple[Event, ...]) -> dict[str, Any]:
    """Returns the counts of all sequences together; cached tokens are those of the prompt."""
    completion, cached = sum(event.tokens for event in events), max(event.cached for event in events)
    usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": completion}
    return usage | ({"prompt_tokens_details": {"cached_tokens": cached}} if cached >= 0 else {})


def remembered(body: dict[str, Any], headers: dict[str, str]) -> ModelRequest:
    """Returns the request by the slot's names, without numbers that change no probability."""
    prompt = body["prompt"]
    tensors: dict[str, Any] = {"prompt_token_ids": prompt[0] if prompt and isinstance(prompt[0], list) else prompt}
    for name in ("max_tokens", "temperature", "seed", "min_tokens", "logprobs", *NEUTRAL):
        if name in body and body[name] != NEUTRAL.get(name):
            tensors[f"sampling_param_{name}"] = [body[name]]
    for name in ("stop", "stop_token_ids"):
        if body.get(name):
            tensors[f"sampling_param_{name}"] = body[name]
    if body.get("skip_special_tokens") is False:
        tensors["sampling_param_skip_special_tokens"] = [False]
    for kind, text in body.get("structured_outputs", {}).items():
        tensors["guided_decoding_guide_type"] = [{"json": "json_schema", "json_object": "json"}.get(kind, kind)]
        tensors |= {} if kind == "json_object" else {"guided_decoding_guide": [text]}
    if guide := body.get("response_format"):
        kind = guide["type"]
        tensors["guided_decoding_guide_type"] = [{"json_object": "json"}.get(kind, kind)]
        text = json.dumps(guide[kind]) if kind == "json_schema" else guide.get(kind)
        tensors |= {"guided_decoding_guide": [text]} if text else {}
    if body["model"] != "llama":
        tensors["lora_name"] = [body["model"]]
    if "cache_salt" in body:
        tensors["cache_salt"] = [body["cache_salt"]]
    return ModelRequest("llama", "", tensors, {}, headers)


def whole(writer: asyncio.StreamWriter, content: bytes, status: int) -> None:
    """Writes an answer with its length."""
    head = f"HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)


def chunk(writer: asyncio.StreamWriter, content: bytes) -> None:
    """Writes a chunk of a body."""
    writer.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")


@contextlib.asynccontextmanager
async def engine_serving(engine: Engine) -> AsyncIterator[Engine]:
    """Runs the engine on loopback; `address` holds its host and port."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(engine.answer(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    engine.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield engine
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)
