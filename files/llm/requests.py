"""The unanswered requests: their number, disconnected clients, and queued responses.

Four threads use this module. Triton's thread admits requests, and the engine's event loop queues their events. A sender
thread sends them, and another thread checks periodically for disconnected clients; both calls wait for Triton.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from llm.events import Event
from llm.inputs import LlmRequest

TORN = ("A part of this answer could not be sent, so it ends here; ask again", "UNAVAILABLE")
"""The error sent in place of the rest of an answer: an incomplete answer must not look complete."""


class Metrics:
    """`enginehouse_llm_answers_total`, `…_running_requests` and `…_cache_share`, if Triton supports custom metrics.

    TensorRT-LLM's PyTorch backend does not report the use of its key/value cache of `cache_tokens` tokens. So the
    tokens of running requests are counted here, prompts and answers. A shared prefix is counted for each request. An
    answer that is not streamed is counted at its end only.
    """

    def __init__(self, model: str, cache_tokens: int = 0) -> None:
        self._unsaid, self._due, self._running = 0, 0.0, 0
        self._cache_tokens, self._held, self._held_due = cache_tokens, 0, 0.0
        self._answers = self._work = self._cache = None
        if hasattr(pb_utils, "MetricFamily"):
            self._families = [  # keeps references, because a metric ends with its family
                pb_utils.MetricFamily(name=name, description=description, kind=kind)
                for name, description, kind in (
                    (
                        "enginehouse_llm_answers_total",
                        "Answers, and parts of streamed answers, sent",
                        pb_utils.MetricFamily.COUNTER,
                    ),
                    (
                        "enginehouse_llm_running_requests",
                        "Requests taken in and not answered to the end",
                        pb_utils.MetricFamily.GAUGE,
                    ),
                )
            ]
            self._answers, self._work = (family.Metric(labels={"model": model}) for family in self._families)
            if cache_tokens:
                share = pb_utils.MetricFamily(
                    name="enginehouse_llm_cache_share",
                    description="Share of the key/value cache that requests under way fill, 0 to 1",
                    kind=pb_utils.MetricFamily.GAUGE,
                )
                self._families.append(share)
                self._cache = share.Metric(labels={"model": model})

    def add_answer(self, is_last: bool) -> None:
        """Counts an answer, or a part of one; errors do not count. Each update is a message to the server, so at most
        one a second is sent.

        Only the sender thread calls this.
        """
        self._unsaid += 1
        now = time.monotonic()
        if self._answers is None or (now < self._due and not is_last):
            return
        count, self._unsaid, self._due = self._unsaid, 0, now + 1
        _update(self._answers.increment, count)

    def set_running(self, count: int) -> None:
        """Updates the gauge if the number has changed; only the thread that checks clients calls this."""
        if self._work is not None and count != self._running:
            self._running = count
            _update(self._work.set, count)

    def set_held(self, tokens: int) -> None:
        """Updates the gauge if the number has changed, once a second; only the thread that checks clients calls
        this."""
        now = time.monotonic()
        if self._cache is not None and tokens != self._held and now >= self._held_due:
            self._held, self._held_due = tokens, now + 1
            _update(self._cache.set, round(tokens / self._cache_tokens, 4))


def _update(setter: Any, value: float) -> None:
    try:
        setter(value)
    except Exception as trouble:  # a metrics failure does not affect answers
        pb_utils.Logger.log_error(f"a metric was not updated: {trouble}")


class Entered:
    """An admitted request. No thread uses it after its last response.

    `task` is the coroutine that answers it, `work` the state of a model without coroutines, `tokens` the number of its
    prompt and answer tokens in the engine's cache.
    """

    def __init__(self, request: Any, outbox: queue.SimpleQueue[Any]) -> None:
        self.request, self.sender = request, request.get_response_sender()
        self.task = self.work = None
        self.tokens = 0
        self.lock, self.is_over, self.is_torn = threading.Lock(), False, False
        self._outbox, self._closed = outbox, False

    def say(self, request: LlmRequest, events: list[Event], is_over: bool, prompt: int, cached: int) -> None:
        """Queues events for sending; with `is_over` they are the last ones."""
        if self._closed:
            return
        self._closed = is_over
        for number, event in enumerate(events, start=1):
            tensors = (request, event, prompt, cached)
            self._outbox.put((self, tensors, None, is_over and number == len(events)))
        if is_over and not events:
            self._outbox.put((self, None, None, True))

    def fail(self, message: str, code: str) -> None:
        """Queues the error to be sent; it ends the request."""
        if not self._closed:
            self._closed = True
            self._outbox.put((self, None, (message, code), True))

    def cancel(self) -> None:
        """Ends the request's coroutine with CancelledError; called in the event loop."""
        if self.task is not None:
            self.task.cancel()

    def has_left(self) -> bool:
        """True if the rest is not needed: the client cancelled or disconnected, or a response could not be sent.

        Triton may only be asked before the last response.
        """
        with self.lock:
            return not self.is_over and (self.is_torn or bool(self.request.is_cancelled()))


class Requests:
    """The running and waiting requests, at most `running` + `waiting`; calls `on_leave(entered)` if a client
    disconnects."""

    def __init__(self, running: int, waiting: int, metrics: Metrics, on_leave: Any, period_seconds: float) -> None:
        self._running, self._waiting, self._metrics, self._on_leave = running, waiting, metrics, on_leave
        self._taken: set[Entered] = set()
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._period, self._ends = period_seconds, threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._watch)]
        for thread in self._threads:
            thread.start()

    def enter(self, request: Any) -> Entered | None:
        """The admitted request; None if it was refused because there is no room."""
        if len(self._taken) >= self._running + self._waiting:
            self._refuse(request)
            return None
        entered = Entered(request, self._outbox)
        self._taken.add(entered)
        return entered

    def end(self) -> None:
        """Sends the queued responses, and waits for both threads to end."""
        self._ends.set()
        self._outbox.put(None)
        for thread in self._threads:
            thread.join()

    def _refuse(self, request: Any) -> None:
        message = (
            f"Exceeds maximum queue size: {self._running} requests run and {self._waiting} wait at most, "
            f"{len(self._taken)} are unanswered; send it again later"
        )
        try:
            request.get_response_sender().send(_error(message, "UNAVAILABLE"), flags=_flags(is_last=True))
        except Exception as trouble:  # a disconnected client must not fail other requests
            pb_utils.Logger.log_error(f"a refusal could not be sent: {trouble}")

    def _send(self) -> None:
        while (item := self._outbox.get()) is not None:
            entered, tensors, error, is_last = item
            if entered.is_torn:
                if not is_last:
                    continue
                tensors, error = None, TORN
            try:
                response = _error(*error) if error else _response(*tensors) if tensors else None
                self._deliver(entered, response, is_last)
            except Exception as trouble:
                pb_utils.Logger.log_error(f"an answer could not be sent: {trouble}")
                entered.is_torn = True
                continue
            if tensors:  # counted only once sent: an answer that cannot be sent does not prove a working engine
                self._metrics.add_answer(is_last)

    def _deliver(self, entered: Entered, response: Any, is_last: bool) -> None:
        with entered.lock:
            entered.is_over = entered.is_over or is_last
        # Frees the place before the last response is sent, so that a client that waits for it can send the next request
        if is_last:
            self._taken.discard(entered)
        if response is None:
            entered.sender.send(flags=_flags(is_last))
        else:
            entered.sender.send(response, flags=_flags(is_last))

    def _watch(self) -> None:
        while not self._ends.wait(self._period):
            for entered in list(self._taken):
                try:
                    if entered.has_left():
                        self._on_leave(entered)
                except Exception as trouble:  # the check of the other clients continues
                    pb_utils.Logger.log_error(f"a client could not be asked after: {trouble}")
            taken = list(self._taken)
            self._metrics.set_running(len(taken))
            self._metrics.set_held(sum(entered.tokens for entered in taken))


def _flags(is_last: bool) -> int:
    return pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if is_last else 0


def _error(message: str, code: str) -> Any:
    """The response with this error; INTERNAL replaces a code that an older Triton lacks."""
    known = getattr(pb_utils.TritonError, code, None)
    error = pb_utils.TritonError(message) if known is None else pb_utils.TritonError(message, known)
    return pb_utils.InferenceResponse(output_tensors=[], error=error)


def _response(request: LlmRequest, event: Event, prompt: int, cached: int) -> Any:
    """The tensors of deploy/models/llm_contract.py that this request wants."""
    tensors = {"text_output": _strings(event.text), "sequence_index": _numbers([event.sequence])}
    if "token_ids" in request.wants:
        tensors["token_ids"] = _numbers(event.ids)
    if "finish_reason" in request.wants:
        tensors["finish_reason"] = _strings(event.finish_reason)
    if "stop_reason" in request.wants:
        tensors["stop_reason"] = _strings(event.stop_reason)
    if "counts" in request.wants and event.finish_reason:
        counts = {"num_input_tokens": prompt, "num_output_tokens": event.generated, "num_cached_tokens": cached}
        tensors |= {name: _numbers([count]) for name, count in counts.items()}
    if "cumulative_logprob" in request.wants and event.finish_reason:
        tensors["cumulative_logprob"] = np.array([event.cumulative_logprob], np.float32)
    if request.logprobs is not None:
        tensors |= _probabilities(event, request.logprobs)
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, array) for name, array in tensors.items()])


def _probabilities(event: Event, count: int) -> dict[str, Any]:
    ids = np.full((len(event.logprobs), count), -1, np.int32)
    values = np.full((len(event.logprobs), count), -np.inf, np.float32)
    for row, (_, candidates) in enumerate(event.logprobs):
        for column, (token, value) in enumerate(candidates):
            ids[row, column], values[row, column] = token, value
    own = np.array([own for own, _ in event.logprobs], np.float32)
    return {"token_logprobs": own, "top_logprob_ids": ids, "top_logprobs": values}


def _strings(text: str) -> Any:
    return np.array([text.encode()], dtype=np.object_)


def _numbers(values: list[int]) -> Any:
    return np.array(values, dtype=np.int32)
