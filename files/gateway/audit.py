"""The audit's line of a request: caller, model, amounts and result; never a word of the text."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TextIO

compact = json.JSONEncoder(separators=(",", ":")).encode


@dataclass
class Record:
    """The audit's fields of one request. Seconds are of a monotonic clock; None for a step that the request did not
    reach."""

    identity: str
    endpoint: str
    began: float
    tenant: str = "-"
    key: str = "-"
    person: str = ""
    """The key's client whom a proxy named (identity.py)."""
    model: str = ""
    """The model that was chosen, or the fallback that answered."""
    alias: str = ""
    """The client's name of a split, or of a model with a fallback."""
    instead_of: str = ""
    """The model whose fallback answered."""
    server: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    read_tokens: int = 0
    """Tokens charged to the key for a large or counted text when no model was called."""
    events: int = 0
    """Least tokens of an LLM's events so far: an event may have several, and their count comes with the last one."""
    first_token: float | None = None
    queued: float | None = None
    """Seconds of waiting for a ready server."""
    status: int = 0
    """HTTP status; 200 also for a stream that broke, because the status was sent before."""
    end: str = ""
    """The error's code; "left" if the client disconnected, "stuck" if the client stopped reading, "" for a complete
    answer."""
    at: float = field(default=0.0)
    """Start of the request, in seconds of the epoch."""

    @property
    def holder(self) -> str:
        return f"{self.key}/{self.person}" if self.person else self.key

    def line(self, now: float) -> str:
        """The line as JSON; times in milliseconds."""
        first = None if self.first_token is None else round((self.first_token - self.began) * 1000, 1)
        queued = None if self.queued is None else round(self.queued * 1000, 1)
        entry = {
            "time": datetime.fromtimestamp(self.at, timezone.utc).isoformat(timespec="milliseconds"),
            "request": self.identity,
            "tenant": self.tenant,
            "key": self.key,
            **({"person": self.person} if self.person else {}),
            "endpoint": self.endpoint,
            "model": self.model,
            **({"alias": self.alias} if self.alias else {}),
            **({"instead_of": self.instead_of} if self.instead_of else {}),
            "server": self.server,
            "status": self.status,
            "end": self.end,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cached_tokens": self.cached_tokens,
            "queued_ms": queued,
            "first_token_ms": first,
            "duration_ms": round((now - self.began) * 1000, 1),
        }
        return compact(entry)


def write(line: str, to: TextIO | None = None) -> None:
    """Writes the line to the journal; a failed write ends no request."""
    with contextlib.suppress(OSError, ValueError):
        print(line, file=to or sys.stdout, flush=True)
