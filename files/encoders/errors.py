"""The two exceptions of this package.

CheckpointError   at load: the files, settings or device are unusable; the model never becomes ready
RequestError      at inference: one request is refused; other requests of the batch are unaffected
"""


class CheckpointError(Exception):
    """The model cannot be loaded; the message names the file or setting, and the expected value."""


class RequestError(Exception):
    """Refuses a request. `code` is the name of a Triton error code, kept as text so Triton is not imported."""

    def __init__(self, message: str, code: str = "INVALID_ARG") -> None:
        super().__init__(message)
        self.code = code


def worker_stopped() -> RequestError:
    """The error of a request whose thread died."""
    return RequestError("the model's worker has stopped; the server needs a restart", "UNAVAILABLE")
