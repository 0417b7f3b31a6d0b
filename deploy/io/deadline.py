"""A deadline for a whole answer from the network, because urllib's own time limit starts again with each read."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T]) -> T:
    """The result of `call`, or its exception. Raises: TimeoutError after this time; the process does not wait for it.

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
