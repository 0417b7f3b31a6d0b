"""The pages: /health, /v1/models, /v1/completions, counters; errors in the program's own form."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from llm_stand_in.ranks import Launched, Ranks

WORDS = (" rehearsal", " stand-in", " of", " an", " answer")
ROUNDED = (" rehearsal", " stand-in", " of", " another", " answer")
"""The answer of weights or a cache in 8 bit: rounding changes a token here and there."""
SHARED = {
    *("model", "prompt", "max_tokens", "n", "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "seed"),
    *("presence_penalty", "repetition_penalty", "stop", "min_tokens", "stop_token_ids", "ignore_eos", "logprobs"),
    *("skip_special_tokens", "stream", "stream_options", "response_format"),
}
FIELDS = {
    "vllm": SHARED | {"return_tokens_as_token_ids", "return_token_ids", "cache_salt", "structured_outputs"},
    "trtllm-serve": SHARED,
}
KEEP_ALIVE_SECONDS = 5
"""Seconds until uvicorn closes a silent connection, in both programs (their own setting, read on 2026-11-27)."""
FIRST_ID = 40
"""First token id of the generated text: in most tokenizers these ids are letters, so the text is readable."""


class BadRequest(Exception):
    """A body that the program answers with 400."""


@dataclass
class Engine:
    """The served model and its counters."""

    runtime: str
    version: str
    name: str
    longest: int
    words: tuple[str, ...] = WORDS
    ranks: Ranks | Launched | None = None
    """The ranks on other hosts, each of which every token goes through."""
    answers: int = 0
    tokens: int = 0
    running: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, body: dict[str, Any]) -> tuple[list[list[int] | str], int]:
        """Returns the prompts and the tokens to make for each.

        Raises: BadRequest for what the program refuses.
        """
        if unknown := sorted(set(body) - FIELDS[self.runtime]):
            raise BadRequest(f"{unknown[0]}: Extra inputs are not permitted")
        if self.runtime == "vllm" and body.get("model", self.name) != self.name:
            raise BadRequest(f"The model `{body.get('model')}` does not exist.")
        prompt: Any = body.get("prompt") or []
        is_many = isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], (list, str))
        prompts: list[list[int] | str] = prompt if is_many else [prompt]
        if not prompts or not all(prompts):
            raise BadRequest("prompt: the prompt cannot be empty")
        count = int(body.get("max_tokens", 16))
        longest = max(len(ids) for ids in prompts)
        if count < 1 or (isinstance(prompts[0], list) and longest + count > self.longest):
            raise BadRequest(f"max_tokens: the maximum context length is {self.longest} tokens")
        if not 0 < float(body.get("top_p", 1)) <= 1:
            raise BadRequest("top_p must be in (0, 1]")
        if "stream_options" in body and not body.get("stream"):
            raise BadRequest("stream_options: only with stream")
        return prompts, count

    def word(self, place: int) -> str:
        """Returns the word at this place after it has passed every rank; a wrong rank changes it."""
        words = self.words
        if self.ranks is None:
            return words[place % len(words)]
        return words[place % len(words)] if self.ranks.exchange(place) else " broken"

    def count(self, tokens: int, answers: int = 0) -> None:
        """Adds to the counters."""
        with self.lock:
            self.tokens += tokens
            self.answers += answers

    def page(self) -> str:
        """Returns the counters in Prometheus' form, under the program's names."""
        if self.runtime == "vllm":
            labels = f'engine="0",model_name="{self.name}"'
            return (
                "# TYPE vllm:num_requests_running gauge\n"
                f"vllm:num_requests_running{{{labels}}} {self.running}.0\n"
                f"vllm:num_requests_waiting{{{labels}}} 0.0\n"
                f"vllm:kv_cache_usage_perc{{{labels}}} 0.0\n"
                "# TYPE vllm:generation_tokens counter\n"
                f"vllm:generation_tokens_total{{{labels}}} {self.tokens}.0\n"
                "# TYPE vllm:request_success counter\n"
                f'vllm:request_success_total{{{labels},finished_reason="length"}} {self.answers}.0\n'
            )
        return (
            f"trtllm_num_requests_running {self.running}\ntrtllm_num_requests_waiting 0\n"
            f"trtllm_generation_tokens_total {self.tokens}\ntrtllm_request_success_total {self.answers}\n"
        )


def serve(engine: Engine, host: str, port: int) -> ThreadingHTTPServer:
    """Returns the bound server; each request has a thread."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            """Handles a request, unless the client is silent for too long."""
            self.connection.settimeout(KEEP_ALIVE_SECONDS)
            super().handle_one_request()

        def do_GET(self) -> None:
            """Answers the pages."""
            self.connection.settimeout(None)
            metrics = "/metrics" if engine.runtime == "vllm" else "/prometheus/metrics"
            if self.path == "/health":
                self._whole(200, b"", "text/plain")
            elif self.path == "/version":
                self._json(200, {"version": f"{engine.version} (rehearsal stand-in)"})
            elif self.path == "/v1/models":
                card = {"id": engine.name, "object": "model", "owned_by": "rehearsal stand-in"}
                self._json(200, {"object": "list", "data": [card]})
            elif self.path == metrics:
                self._whole(200, engine.page().encode(), "text/plain; version=0.0.4")
            else:
                self._json(404, {"detail": "Not Found"})

        def do_POST(self) -> None:
            """Answers completions; other paths get an error."""
            self.connection.settimeout(None)
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path != "/v1/completions":
                self._json(404, {"detail": "Not Found"})
                return
            try:
                body = json.loads(raw)
                prompts, count = engine.check(body)
            except (BadRequest, ValueError, TypeError) as problem:
                self._refuse(str(problem))
                return
            with engine.lock:
                engine.running += 1
            try:
                (self._stream if body.get("stream") else self._complete)(body, prompts, count)
            except OSError:
                self.close_connection = True  # the client has left: the request ends
            finally:
                with engine.lock:
                    engine.running -= 1

        def _complete(self, body: dict[str, Any], prompts: list[list[int] | str], count: int) -> None:
            number = len(prompts) * int(body.get("n", 1))
            choices = [self._choice(body, index, range(count), "length") for index in range(number)]
            engine.count(count * number, 1)
            self._json(200, {**HEAD, "choices": choices, "usage": usage(prompts, count * number)})

        def _stream(self, body: dict[str, Any], prompts: list[list[int] | str], count: int) -> None:
            number = len(prompts) * int(body.get("n", 1))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for place in range(count):
                for index in range(number):
                    finish = "length" if place == count - 1 else None
                    self._event({**HEAD, "choices": [self._choice(body, index, range(place, place + 1), finish)]})
                engine.count(number)
            if (body.get("stream_options") or {}).get("include_usage"):
                self._event({**HEAD, "choices": [], "usage": usage(prompts, count * number)})
            engine.count(0, 1)
            self._chunk(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

        def _choice(self, body: dict[str, Any], index: int, places: range, finish: str | None) -> dict[str, Any]:
            text = "".join(engine.word(place) for place in places)
            choice = {"index": index, "text": text, "logprobs": None, "finish_reason": finish, "stop_reason": None}
            if body.get("return_token_ids"):
                choice["token_ids"] = [FIRST_ID + identity(engine.words[place % len(WORDS)]) for place in places]
            return choice

        def _refuse(self, message: str) -> None:
            error = {"message": message, "type": "BadRequestError", "param": None, "code": 400}
            self._json(400, {"error": error} if engine.runtime == "vllm" else {"object": "error", **error})

        def _event(self, value: dict[str, Any]) -> None:
            self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

        def _chunk(self, content: bytes) -> None:
            self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
            self.wfile.flush()

        def _json(self, status: int, value: dict[str, Any]) -> None:
            self._whole(status, json.dumps(value).encode(), "application/json")

        def _whole(self, status: int, content: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Logs no requests, as the start line asks."""

    HEAD = {"id": "cmpl-rehearsal", "object": "text_completion", "created": int(time.time()), "model": engine.name}
    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = False  # a stop waits for requests that have begun
    return server


def identity(word: str) -> int:
    """Returns the id of a word, counted from 0."""
    return WORDS.index(word) if word in WORDS else len(WORDS) + ROUNDED.index(word)


def usage(prompts: list[list[int] | str], made: int) -> dict[str, Any]:
    """Returns counts of tokens; a text counts a token for each word."""
    read = sum(len(prompt) if isinstance(prompt, list) else len(prompt.split()) for prompt in prompts)
    return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}
