"""A fleet client's protocols: HTTP over kept and over new connections, unary gRPC, and a stream per request.

All use NVIDIA's unmodified client library with its defaults for keepalive and retries, to measure a balancer's effect
on such a client. Streams use only the library's stubs: its asyncio client 2.73 cannot request the empty final response,
without which no client knows that a stream is complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import aiohttp
import grpc
import numpy as np
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.grpc.aio import InferenceServerClient as GrpcClient
from tritonclient.http.aio import InferenceServerClient as HttpClient
from tritonclient.utils import InferenceServerException

WAYS = ("http", "http-new", "grpc", "stream")
CLOSE = 1e-4
"""Largest difference of vectors between batches of different sizes; the encoders' own tests have the same bound."""

Answer = np.ndarray | str


class Fault(Exception):
    """The reason why a request is lost. `pieces` are the pieces of a stream that came before, the first at `first`
    by the monotonic clock. `is_end`: the stream broke off, so no model gave a wrong answer."""

    def __init__(self, reason: str, pieces: int = 0, first: float = 0.0, is_end: bool = False) -> None:
        super().__init__(reason)
        self.pieces, self.first, self.is_end = pieces, first, is_end


@dataclass(frozen=True)
class Question:
    """Texts for an embedder, or a prompt for an LLM that should give `tokens` tokens."""

    model: str
    texts: tuple[str, ...]
    tokens: int = 0


@dataclass(frozen=True)
class Place:
    """Host and port of both protocols."""

    http: str
    grpc: str


class Client:
    """A client with kept HTTP connections and two gRPC channels, for its unary requests and for its streams.

    `patience_seconds` is the time limit of a request.
    """

    def __init__(self, place: Place, patience_seconds: float) -> None:
        self.place, self.patience_seconds = place, patience_seconds
        self.http = self._http()
        # GRPC channels to one address share a connection by default.
        alone = [("grpc.use_local_subchannel_pool", 1)]
        self.grpc = GrpcClient(place.grpc, channel_args=alone)
        self.streams = grpc.aio.insecure_channel(place.grpc, options=alone)
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.streams)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.close()
        await self.grpc.close()
        await self.streams.close()

    async def ask(self, way: str, question: Question, first_piece: Callable[[], None] = lambda: None) -> Answer:
        """Returns vectors `[texts, dimensions]`, or the text of a stream. Raises `Fault` without an answer.

        `first_piece` is called once, when the answer or its first piece arrives.
        """
        try:
            async with asyncio.timeout(self.patience_seconds):
                if way == "stream":
                    return await self._stream(question, first_piece)
                answer = await self._unary(way, question)
                first_piece()
                return answer
        except InferenceServerException as error:
            raise Fault(_message(error)) from None
        except TimeoutError:
            raise Fault(f"no answer in {self.patience_seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Fault(f"{type(error).__name__}: {error}") from None

    async def _unary(self, way: str, question: Question) -> Answer:
        if way == "grpc":
            result = await self.grpc.infer(question.model, [_texts(over_grpc, question)])
        elif way == "http":
            result = await self.http.infer(question.model, [_texts(over_http, question)])
        else:
            async with self._http() as new:
                result = await new.infer(question.model, [_texts(over_http, question)])
        vectors = result.as_numpy("embeddings")
        if vectors is None or not np.isfinite(vectors).all():
            raise Fault("an answer without vectors, or with numbers that are none")
        return vectors

    def _http(self) -> HttpClient:
        # Unlimited connections: otherwise a request would wait for another one's answer instead of being sent at its
        # due time.
        return HttpClient(self.place.http, conn_limit=0, conn_timeout=self.patience_seconds)

    async def _stream(self, question: Question, first_piece: Callable[[], None]) -> str:
        text, pieces, first, is_whole = "", 0, 0.0, False
        call = self.stub.ModelStreamInfer(_once(_prompt(question)))
        try:
            async for answer in call:
                if answer.error_message:
                    raise Fault(answer.error_message[:200])
                if piece := _text(answer.infer_response):
                    if not pieces:
                        first = asyncio.get_running_loop().time()
                        first_piece()
                    text, pieces = text + piece, pieces + 1
                # Reads to the end of the call. Triton 2.51 never unloads a model if a stream was cancelled while its
                # last response was on its way, and its exit then takes the whole timeout; server#8078 (2.57) fixes such
                # a race.
                is_whole = is_whole or answer.infer_response.parameters["triton_final_response"].bool_param
        except grpc.RpcError as error:
            if not is_whole:
                raise Fault(f"{error.code().name}: {error.details()}"[:200], pieces, first, is_end=True) from None
        finally:
            call.cancel()
        if not is_whole:
            raise Fault("the stream ended before its final response", pieces, first, is_end=True)
        return text


def differs(first: Answer, answer: Answer) -> str:
    """Returns the difference between an answer and the first answer to the same question; empty for equal answers."""
    if isinstance(first, str) and isinstance(answer, str):
        at = next(
            (n for n, (a, b) in enumerate(zip(first, answer, strict=False)) if a != b), min(len(first), len(answer))
        )
        where = f"{len(answer)} characters instead of {len(first)}, from {at} on {answer[at : at + 40]!r}"
        return "" if first == answer else f"another text: {where} instead of {first[at : at + 40]!r}"
    if isinstance(first, str) or isinstance(answer, str):
        return "a text instead of vectors, or the other way round"
    if first.shape != answer.shape:
        return f"another shape: {answer.shape} instead of {first.shape}"
    worst = float(np.abs(first - answer).max(initial=0.0))
    return "" if worst < CLOSE else f"other numbers: off by {worst:.2g}"


async def _once(request: service_pb2.ModelInferRequest) -> AsyncIterator[service_pb2.ModelInferRequest]:
    yield request


def _texts(library: ModuleType, question: Question) -> Any:
    array = np.array([[text.encode() for text in question.texts]], dtype=object)
    return library.InferInput("texts", list(array.shape), "BYTES").set_data_from_numpy(array)


def _prompt(question: Question) -> service_pb2.ModelInferRequest:
    request = service_pb2.ModelInferRequest(model_name=question.model)
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    for name, kind, contents in (
        ("text_input", "BYTES", {"bytes_contents": [" ".join(question.texts).encode()]}),
        ("streaming", "BOOL", {"bool_contents": [True]}),
        ("sampling_param_max_tokens", "INT32", {"int_contents": [question.tokens]}),
        ("sampling_param_exclude_input_from_output", "BOOL", {"bool_contents": [True]}),
    ):
        request.inputs.add(name=name, datatype=kind, shape=[1], contents=contents)
    return request


def _text(answer: service_pb2.ModelInferResponse) -> str:
    """Returns the piece of text in an answer; a BYTES tensor is four bytes of length, then the bytes."""
    named = zip(answer.outputs, answer.raw_output_contents, strict=False)
    return next((raw[4:].decode() for output, raw in named if output.name == "text_output"), "")


def _message(error: InferenceServerException) -> str:
    status = str(error.status() or "error").removeprefix("StatusCode.")
    return f"{status}: {error.message()}"[:200]
