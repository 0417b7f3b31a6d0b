"""Between Triton's request objects and the embedder or reranker: bytes in, tensors or one error per request out.

Takes `triton_python_backend_utils` as an argument, so that a test can hand in its own. An exception that left
`execute` would fail every request of the batch; none does.
"""

import json
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .batching import Job
from .embedding import Embedder
from .errors import RequestError
from .reranking import Reranker
from .settings import Settings


class Service:
    """One model instance: answers each batch of requests in order, one response per request."""

    def __init__(self, pb_utils: Any, arguments: dict[str, str], kind: Callable[[Settings], Embedder | Reranker]):
        parameters = json.loads(arguments["model_config"]).get("parameters", {})
        self._pb = pb_utils
        self._settings = Settings.of({key: value["string_value"] for key, value in parameters.items()})
        self._model = kind(self._settings)
        self._log(
            "info",
            f"{arguments['model_name']}: {kind.__name__} on {self._settings.device} in {self._settings.dtype}, "
            f"up to {self._model.max_tokens} tokens each and {self._model.budget} a pass, "
            f"{self._model.runner.held_mib()} MiB held",
        )

    def is_ready(self) -> bool:
        """False once the device has stopped computing; Triton then reports the model as not ready."""
        return self._model.runner.is_well

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response per request, in order; the requests' sequences share forward passes."""
        jobs = [self._read(request) for request in requests]
        try:
            self._model.work([job for job in jobs if job.error is None])
        except Exception as error:
            for job in jobs:
                job.error = job.error or error
        return [self._respond(job) for job in jobs]

    def _read(self, request: Any) -> Job:
        try:
            arrays = [self._array(request, name) for name in self._model.inputs]
            items = arrays[-1].size
            if items > self._settings.max_items:
                raise RequestError(f"{items} items in one request; at most {self._settings.max_items}")
            tensors = [_decode(name, array) for name, array in zip(self._model.inputs, arrays, strict=True)]
            job: Job = self._model.read(tensors, arrays[-1].shape, request.parameters())
            job.is_cancelled = getattr(request, "is_cancelled", job.is_cancelled)  # stubs since 23.10 have it
            return job
        except Exception as error:
            return Job(error=error)

    def _array(self, request: Any, name: str) -> np.ndarray:
        tensor = self._pb.get_input_tensor_by_name(request, name)
        if tensor is None:
            raise RequestError(f"input {name} is missing")
        array = tensor.as_numpy()
        if array.ndim != 2:
            raise RequestError(f"input {name} has shape {list(array.shape)}; wanted [rows, items]")
        return array

    def _respond(self, job: Job) -> Any:
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
        code = getattr(self._pb.TritonError, error.code, None)  # codes came with 23.09, some of them later
        return self._pb.TritonError(str(error)) if code is None else self._pb.TritonError(str(error), code)

    def _log(self, level: str, message: str) -> None:
        logger = getattr(self._pb, "Logger", None)
        if logger is not None:
            getattr(logger, f"log_{level}")(message)


def _where(error: Exception | None) -> str:
    """What went wrong and where, without a word of a request: only torch's own messages, which see numbers alone."""
    frames = traceback.extract_tb(error.__traceback__) if error else []
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}{f': {error}' if isinstance(error, RuntimeError) else ''}"


def _decode(name: str, array: np.ndarray) -> list[list[str]]:
    return [[_text(f"{name}[{i}][{j}]", item) for j, item in enumerate(row)] for i, row in enumerate(array)]


def _text(place: str, item: bytes | str) -> str:
    try:
        return item if isinstance(item, str) else bytes(item).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(f"{place} is not UTF-8 at byte {error.start}") from None
