"""Errors that clients receive for failed requests, in OpenAI's shape."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    499: "client_left",
}

ENDS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions that end a task or the process. All others are errors, a panic of a library in Rust included, which is no
`Exception`."""

QUOTA = "insufficient_quota"
"""Code and type of OpenAI's refusal of a key with an exhausted budget."""

MOST_WAIT_SECONDS = 60
"""Longest `Retry-After` in seconds that OpenAI's clients obey; they ignore longer ones (openai 2.20, 2026-11-25)."""


class ApiError(Exception):
    """Ends a request. `retry_after` is in seconds; `is_spent`: no client should retry, because tokens were made.

    A used-up budget also has `is_spent`, because no wait that clients obey would help. `allow`: the methods that the
    path takes, for a request with another method.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int = 0,
        is_spent: bool = False,
        allow: str = "",
    ) -> None:
        super().__init__(message)
        self.allow = allow
        self.status, self.message, self.param, self.code = status, message, param, code
        self.retry_after, self.is_spent = retry_after, is_spent

    @property
    def kind(self) -> str:
        """The `type` of OpenAI's error object."""
        if self.code == QUOTA:
            return QUOTA
        return TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")

    def to_json(self) -> dict[str, Any]:
        """The body of the answer; Cohere's clients read `message`, OpenAI's read `error`."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"message": self.message, "error": error}

    def headers(self) -> list[tuple[bytes, bytes]]:
        """`Retry-After` if waiting helps, and a header against a client's own retries if tokens were spent.

        `Allow` if the method is wrong.
        """
        wait = str(min(self.retry_after, MOST_WAIT_SECONDS)).encode()
        headers = [(b"retry-after", wait)] if self.retry_after else []
        headers += [(b"allow", self.allow.encode())] if self.allow else []
        return [*headers, (b"x-should-retry", b"false")] if self.is_spent else headers


class UpstreamError(Exception):
    """Triton's answer was an error. `code` is gRPC's name for it, such as INVALID_ARGUMENT."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def is_full(self) -> bool:
        return self.code == "UNAVAILABLE" and "maximum queue size" in self.message

    @property
    def is_away(self) -> bool:
        """True if the server is not listening, is stopping, or has not loaded the model: it accepted no work."""
        return self.code == "UNAVAILABLE" and not self.is_full

    @property
    def may_go_elsewhere(self) -> bool:
        """True if another server may answer: this one is away or full, aborts its requests, or lacks the model."""
        return self.code in ("UNAVAILABLE", "CANCELLED", "NOT_FOUND")

    def to_api(self, is_spent: bool = False) -> ApiError:
        """The client's error. It has Triton's message only if that message is about the request."""
        if self.code in ("INVALID_ARGUMENT", "UNIMPLEMENTED", "OUT_OF_RANGE"):
            code = "unsupported" if self.code == "UNIMPLEMENTED" else None
            return ApiError(400, self.message, code=code, is_spent=is_spent)
        if self.is_full:
            return ApiError(503, "the model's queue is full", code="overloaded", retry_after=1, is_spent=is_spent)
        if self.may_go_elsewhere:
            message = "no server of this model answers"
            return ApiError(503, message, code="unavailable", retry_after=2, is_spent=is_spent)
        if self.code == "DEADLINE_EXCEEDED":
            return ApiError(504, "the model did not answer in time", code="timeout", is_spent=True)
        return ApiError(500, "the model's server failed", code="upstream_error", is_spent=is_spent)


def place(error: BaseException) -> str:
    """The exception's type and the lines of its traceback, without its message, which may have text of a request."""
    frames: list[Any] = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at " + " < ".join(f"{frame.filename}:{frame.lineno}" for frame in frames[::-1])
