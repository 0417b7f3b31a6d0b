"""Requests that Triton traces: the request's id decides, so either all its parts and tries are traced, or none.

The trace has the request's id, which the answer's `x-request-id` and the audit's line have as well; nothing else joins
them. What a client says of traces is not read: strangers would decide what is traced, and name it as another's request.
"""

from __future__ import annotations

import os


def traceparent(identity: str, one_in: int) -> str:
    """The W3C `traceparent` of a request, whose id is 32 hex digits; "" if it is not traced.

    One request of `one_in` is; 0 traces none.
    """
    if not one_in or int(identity, 16) % one_in:
        return ""
    return f"00-{identity}-{os.urandom(8).hex()}-01"
