"""Triton Python backend of the embedder; all of it but the name of Triton's module is in `encoders`."""

from typing import Any

import triton_python_backend_utils as pb_utils

from encoders.embedding import Embedder
from encoders.serving import Service


class TritonPythonModel:
    """The class that the Python backend calls."""

    def initialize(self, args: dict[str, str]) -> None:
        """Weights are loaded and warm when this returns; Triton reports the model ready only then."""
        self._service = Service(pb_utils, args, Embedder)

    def execute(self, requests: list[Any]) -> list[Any] | None:
        """A response per request: in order, or None and each by its sender."""
        return self._service.execute(requests)

    def is_ready(self) -> bool:
        """Asked by Triton 26.03 and later with every readiness probe."""
        return self._service.is_ready()

    def finalize(self) -> None:
        """Waits until every request has been answered."""
        self._service.close()
