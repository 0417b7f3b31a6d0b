"""Connects Triton's request objects with the pipeline: bytes in, tensors or one error per request out.

Takes `triton_python_backend_utils` as an argument, so that tests can replace it. An exception from `execute` would fail
every request of the batch, so `execute` raises none.

If requests have response senders (24.06 and later, also in models that are not decoupled), `execute` returns once the
jobs are in the pipeline, and Triton hands over the next batch while the device computes this one. Otherwise it waits
and returns the responses.
"""

import json
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from .batching import Batcher, Job
from .device import Runner
from .errors import RequestError
from .metrics import Meter
from .pipeline import Pipeline
from .settings import Settings

MOST_TEXT_BYTES = 2**20
"""Largest size of a text. The tokeniser reads all of it, even to keep at most `max_tokens` tokens: 6 s of CPU and 2.4
GiB for 16 MiB (tokenizers 0.23.3, 2-core VM, 2026-11-21), while all other requests wait."""


GATHER_SECONDS = 0.0005
"""While the device is busy, requests collect in Triton's queue for this long before the next batch is taken."""


class Model(Protocol):
    """An embedder or a reranker. `Any` stands for the jobs of its own `read`; it receives no others."""

    runner: Runner
    budget: int
    max_tokens: int
    notes: list[str]

    @property
    def inputs(self) -> tuple[str, ...]: ...

    def read(self, tensors: Sequence[list[list[str]]], shape: tuple[int, ...], parameters: str | None) -> Job: ...

    def encode(self, jobs: Sequence[Any]) -> None: ...

    def answer(self, job: Any) -> dict[str, np.ndarray]: ...


class Service:
    """A model instance: answers each batch of requests, one response per request."""

    def __init__(self, pb_utils: Any, arguments: dict[str, str], kind: Callable[[Settings], Model]) -> None:
        name, config = arguments["model_name"], json.loads(arguments["model_config"])
        self._pb = pb_utils
        values = {key: value["string_value"] for key, value in config.get("parameters", {}).items()}
        self._settings = Settings.of(values)
        self._model = model = kind(self._settings)
        meter = Meter(pb_utils, name, model.budget, model.runner.peak_bytes, lambda text: self._log("error", text))
        self._answered = meter.answered
        meter.seconds = lambda: model.runner.time.seconds
        batcher = Batcher(model.runner.launch, model.budget, model.runner.streams)
        batcher.launched = meter.passed
        self._pipeline = Pipeline(model.encode, batcher, self._reply, meter)
        self._pipeline.prompt_letters = model.runner.prompt_letters
        self._log(
            "info",
            f"{name}: {type(model).__name__} on {self._settings.device} in {self._settings.dtype}, "
            f"up to {model.max_tokens} tokens each and {model.budget} a pass, "
            f"streams {model.runner.streams}, {model.runner.held_mib()} MiB held; "
            f"{', '.join(model.notes)}",
        )

    def is_ready(self) -> bool:
        """False once the device has stopped computing or a thread has ended; Triton then reports not ready."""
        return self._model.runner.is_well and not (self._pipeline.dead or self._pipeline.closed)

    def close(self) -> None:
        """Waits until every request is answered and the threads have ended; later requests are refused. Repeatable."""
        self._pipeline.close()

    def execute(self, requests: Sequence[Any]) -> list[Any] | None:
        """The responses in order; None if each response goes through its request's sender once computed."""
        jobs = [self._read(request) for request in requests]
        if self._pipeline.at_once(jobs):
            return [self._counted(job) for job in jobs]
        if all(hasattr(request, "get_response_sender") for request in requests):
            for job, request in zip(jobs, requests, strict=True):
                job.answered = _through(request.get_response_sender(), self._pb, job)
            self._pipeline.submit(jobs)
            time.sleep(GATHER_SECONDS)
            return None
        return self._wait_for(jobs)

    def _wait_for(self, jobs: list[Job]) -> list[Any]:
        responses: dict[int, Any] = {}
        waits = [threading.Event() for _ in jobs]
        for job, wait in zip(jobs, waits, strict=True):
            job.answered = _kept(responses, id(job), wait)
        self._pipeline.submit(jobs)
        for wait in waits:
            wait.wait()
        return [responses[id(job)] for job in jobs]

    def _read(self, request: Any) -> Job:
        try:
            arrays = [self._array(request, name) for name in self._model.inputs]
            items = arrays[-1].size
            if items > self._settings.max_items:
                raise RequestError(f"{items} items in one request; at most {self._settings.max_items}")
            tensors = [_decode(name, array) for name, array in zip(self._model.inputs, arrays, strict=True)]
            job = self._model.read(tensors, arrays[-1].shape, request.parameters())
            job.letters = sum(len(text) for rows in tensors for row in rows for text in row)
            job.is_cancelled = getattr(request, "is_cancelled", job.is_cancelled)  # stubs have it since 23.10
            return job
        except Exception as error:
            return Job(error=error)

    def _array(self, request: Any, name: str) -> np.ndarray:
        tensor = self._pb.get_input_tensor_by_name(request, name)
        if tensor is None:
            raise RequestError(f"input {name} is missing")
        array: np.ndarray = tensor.as_numpy()
        if array.ndim != 2:
            raise RequestError(f"input {name} has shape {list(array.shape)}; wanted [rows, items]")
        return array

    def _reply(self, job: Job) -> None:
        try:
            response = self._response(job)
            job.answered(response)
            if job.error is None:
                self._answered()
        except Exception as error:  # a disconnected client must not end the thread that answers the others
            self._log("error", f"a response could not be sent, {_where(error)}")

    def _counted(self, job: Job) -> Any:
        response = self._response(job)
        if job.error is None:
            self._answered()
        return response

    def _response(self, job: Job) -> Any:
        try:
            if job.error is None:
                outputs = self._model.answer(job)
                tensors = [self._pb.Tensor(name, array) for name, array in outputs.items()]
                return self._pb.InferenceResponse(output_tensors=tensors)
        except Exception as error:
            job.error = error
        return self._pb.InferenceResponse(output_tensors=[], error=self._error(job.error))

    def _error(self, error: Exception | None) -> Any:
        if not isinstance(error, RequestError):
            self._log("error", f"internal error, {_where(error)}")
            error = RequestError(f"internal error, {type(error).__name__}; see the server's log", "INTERNAL")
        code = getattr(self._pb.TritonError, error.code, None)  # error codes were added with 23.09, some of them later
        return self._pb.TritonError(str(error)) if code is None else self._pb.TritonError(str(error), code)

    def _log(self, level: str, message: str) -> None:
        logger = getattr(self._pb, "Logger", None)
        if logger is not None:
            with suppress(Exception):  # a failing logger must not end the thread
                getattr(logger, f"log_{level}")(message)


def _kept(responses: dict[int, Any], key: int, wait: threading.Event) -> Callable[[Any], None]:
    """A function that stores a response under `key`, then sets `wait`."""

    def keep(response: Any) -> None:
        responses[key] = response
        wait.set()

    return keep


def _through(sender: Any, pb_utils: Any, job: Job) -> Callable[[Any], None]:
    """A function that sends the response of `job`.

    The sender, not the request, tells whether the client cancelled: the request no longer exists then.
    """
    job.is_cancelled = getattr(sender, "is_cancelled", job.is_cancelled)
    return lambda response: sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def _where(error: Exception | None) -> str:
    """The error's type and place, without text of a request. Only errors of torch and of arithmetic, which never see
    text, keep their message."""
    frames = traceback.extract_tb(error.__traceback__) if error else []
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}{f': {error}' if isinstance(error, RuntimeError | ArithmeticError) else ''}"


def _decode(name: str, array: np.ndarray) -> list[list[str]]:
    return [[_text(name, i, j, item) for j, item in enumerate(row)] for i, row in enumerate(array.tolist())]


def _text(name: str, row: int, column: int, item: bytes | str) -> str:
    if len(item) > MOST_TEXT_BYTES:
        raise RequestError(f"{name}[{row}][{column}] has {len(item)} bytes of at most {MOST_TEXT_BYTES}; shorten it")
    try:
        return item if isinstance(item, str) else bytes(item).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(f"{name}[{row}][{column}] is not UTF-8 at byte {error.start}") from None
