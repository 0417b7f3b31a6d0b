"""Runs requests of many threads in transformers' one generation loop (rehearsal stand-in)."""

import itertools
import queue
import threading
import time

SILENT_SECONDS = 300
"""Seconds without a token for any request after which a request is given up."""
POLL_SECONDS = 0.05


class Loop:
    """transformers' manager, which passes results to waiting threads."""

    _numbers = itertools.count()

    def __init__(self, manager):
        self._manager, self._waiting, self._lock = manager, {}, threading.Lock()
        self._trouble = self._ended = None
        self._heard = time.monotonic()
        manager.warmup()  # allocates the cache, so that too large a cache fails the load
        manager.start()
        self._thread = threading.Thread(target=self._deliver, name="answers", daemon=True)
        self._thread.start()

    def results(self, ids, most, stopped):
        """Yields the request's state after every token, up to its end or until `stopped`; then frees its cache."""
        identity, mine = f"request-{next(self._numbers)}", queue.SimpleQueue()
        finished = False
        self._enter(identity, mine)
        try:
            if self._manager.add_request(ids, identity, max_new_tokens=most, streaming=True) is None:
                raise RuntimeError(self._ended or "the generation loop takes no requests any more")
            while not finished:
                result = self._next(mine, stopped)
                if result is None:
                    return
                finished = result.is_finished()
                if result.error:
                    raise RuntimeError(f"the generation loop said: {result.error}")
                yield result
        finally:
            with self._lock:
                self._waiting.pop(identity, None)
            if not finished:
                self._manager.cancel_request(identity)

    def wait(self):
        """Waits until the loop has ended."""
        self._thread.join()

    def held_tokens(self):
        """Returns tokens whose keys and values the cache holds for running requests, from the scheduler."""
        working = self._manager.batch_processor.scheduler.active_requests
        return sum(state.position_offset for state in [*working.values()])

    def end(self):
        """Stops the loop; waiting requests get an error."""
        self._manager.stop(block=True, timeout=30, hard_stop=True)
        self._thread.join(30)

    def _enter(self, identity, mine):
        with self._lock:
            if self._ended:
                raise RuntimeError(self._ended)
            if not self._waiting:
                self._heard = time.monotonic()
            self._waiting[identity] = mine

    def _next(self, mine, stopped):
        while not stopped():
            try:
                result = mine.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if time.monotonic() - self._heard > SILENT_SECONDS:
                    raise TimeoutError(f"no request has got a token for {SILENT_SECONDS} s") from None
                continue
            if result is None:
                raise RuntimeError(self._ended)
            return result
        return None

    def _deliver(self):
        while True:
            # Read before the queue, which has the last message by the time the manager ends.
            running = self._manager.is_running()
            result = self._manager.get_result(timeout=POLL_SECONDS)
            if result is not None:
                self._hand_over(result)
            elif not running:
                break
        with self._lock:
            self._ended = f"the generation loop has ended: {self._trouble or 'it was stopped'}"
            for mine in self._waiting.values():
                mine.put(None)

    def _hand_over(self, result):
        self._heard = time.monotonic()
        self._trouble = result.error or self._trouble
        with self._lock:
            mine = self._waiting.get(result.request_id)
        if mine is not None:
            mine.put(result)
        elif not result.is_finished():  # the request was cancelled before the loop knew it
            self._manager.cancel_request(result.request_id)
