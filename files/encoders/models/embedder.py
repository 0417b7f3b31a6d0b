"""Triton Python backend of the embedder; everything that does not import Triton's module is in `encoders`."""

from typing import Any

import triton_python_backend_utils as pb_utils

from encoders.embedding import Embedder
from encoders.serving import Service


class TritonPythonModel:
    """Entry point of Triton's Python backend."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads the weights and warms the model up; Triton reports the model ready only afterwards."""
        self._service = Service(pb_utils, args, Embedder)

    def execute(self, requests: list[Any]) -> list[Any] | None:
        """The responses in the order of the requests; None if each response goes through its request's sender."""
        return self._service.execute(requests)

    def is_ready(self) -> bool:
        """False if the model cannot answer; Triton 26.03 and later calls this with every readiness probe."""
        return self._service.is_ready()

    def finalize(self) -> None:
        """Waits until every request has been answered."""
        self._service.close()
