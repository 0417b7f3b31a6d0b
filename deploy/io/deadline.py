"""A deadline for a whole answer from the network, because urllib's own time limit starts again with each read.

Also the pause that a busy server requests.
"""

import math
import re
import threading
import time
from collections.abc import Callable
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TypeVar

T = TypeVar("T")
LIMITED = re.compile(r";\s*r\s*=\s*0\s*;\s*t\s*=\s*(\d{1,9})\b")
"""The header RateLimit of huggingface.co's 429, as `"api";r=0;t=55`: seconds until it takes requests again."""


def requested_pause(headers: Message) -> float | None:
    """Seconds that the server asks for: Retry-After as a number or a date, or RateLimit; None without these headers."""
    word = headers.get("Retry-After", "")
    if word.isdecimal():
        return float(word)
    if limited := LIMITED.search(headers.get("RateLimit", "")):
        return float(limited[1]) + 1
    try:
        return max(math.ceil(parsedate_to_datetime(word).timestamp() - time.time()), 0)
    except (ValueError, TypeError, OverflowError):
        return None


def within(seconds: float, call: Callable[[], T]) -> T:
    """The result of `call`, or its exception. Raises: TimeoutError after this time, without waiting for the call.

    The call runs in a thread that ends with the process: a read cannot be interrupted, head and body included.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no whole answer within {seconds:g} s")
    return results[0]
