"""Requests that Triton traces, chosen by the request's id, so that either all its parts and tries are traced, or none.

The trace has the request's id, like the answer's `x-request-id` and the audit's line; they have no other link. A
client's own trace headers are not read: clients would decide what is traced, and could use the id of another's request.
"""

from __future__ import annotations

import os


def traceparent(identity: str, one_in: int) -> str:
    """The W3C `traceparent` of a request, whose id is 32 hex digits; "" if it is not traced.

    On average one request of `one_in` is traced; with 0 none.
    """
    if not one_in or int(identity, 16) % one_in:
        return ""
    return f"00-{identity}-{os.urandom(8).hex()}-01"
