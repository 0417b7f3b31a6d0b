"""An engine behind the contract of deploy/models/llm_contract.py: the model `<name>_completion`.

It replaces the image's `preprocessing`, `postprocessing` and `tensorrt_llm_bls`, and calls the engine's own model with
token ids. Options without an engine tensor (alternatives of a token, `min_p`, `best_of`) are refused.

The engine's model stops a request by its id, for any sender. So request ids are random, and a client's own id is not
passed on.

A streaming engine is called over Triton's HTTP API. The Python backend's call of a streaming model (BLS) crashes this
process if several threads use it. A thread of the backend frees a finished stream, numpy's arrays included, without
Python's lock: three clients corrupted the heap of 24.10 after 261 to 640 requests (mended in 24.12). A stream that
wakes holds its mutex while it waits for Python's lock, and another call holds that lock while it waits for the stream.
This deadlock came after 1,163 requests of three clients and after 375 of eight (seen in a debugger; python_backend's
main branch of July 2026 has the same code). Over HTTP, 10,000 requests of three clients and 6,000 of eight ended.
Triton 2.51, 2026-11-28.
"""

import http.client
import json
import os
import secrets
import threading

import numpy as np
import triton_python_backend_utils as pb_utils

from llm.events import Sequence
from llm.inputs import GUIDES, Mistake, Unsupported, read
from llm.requests import Metrics, Requests
from llm.tokens import Growing, Tokens

for _name in [name for name in os.environ if name.startswith(("OMPI_", "PMIX_", "PMI_", "PRTE_"))]:
    del os.environ[_name]  # inherited from mpirun, but this process is not a rank (tensorrtllm_backend issue 553)

MAX_TOKENS = 32
"""Default number of new tokens; also the default of TensorRT-LLM's SamplingParams, which the llmapi model uses."""
SAMPLING = {
    "n": ("num_return_sequences", np.int32),
    "temperature": ("temperature", np.float32),
    "top_k": ("runtime_top_k", np.int32),
    "top_p": ("runtime_top_p", np.float32),
    "frequency_penalty": ("frequency_penalty", np.float32),
    "presence_penalty": ("presence_penalty", np.float32),
    "repetition_penalty": ("repetition_penalty", np.float32),
}
"""A sampling field's name in the engine's model, and its type; two more have names that change with the release."""
OURS = ("max_tokens", "skip_special_tokens", "add_special_tokens", "ignore_eos", "stop_token_ids")
OUTPUTS = ("output_ids", "sequence_length", "sequence_index", "output_log_probs")
GUIDE_TYPES = {field: kind for kind, field in GUIDES.items()}
NO_END = -1
ADDRESS = os.environ.get("ENGINEHOUSE_HTTP", "127.0.0.1:8000")
"""Address of Triton's HTTP API in this container."""


class TritonPythonModel:
    """Entry point of Triton's Python backend."""

    def initialize(self, args):
        """Loads the tokenizer; the engine's own model is loaded by Triton."""
        configuration = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in configuration["parameters"].items()}
        self._streams = configuration.get("model_transaction_policy", {}).get("decoupled", False)
        self._engine = parameters["engine"]
        self._sampling = SAMPLING | {
            "seed": (parameters["seed_input"], np.uint64),
            "min_tokens": (parameters["min_tokens_input"], np.int32),
        }
        self._guided, self._adapters = (
            parameters.get("guided_decoding") == "true",
            json.loads(parameters.get("adapters", "{}")),
        )
        self._tokens = Tokens(parameters["tokenizer_dir"])
        most = int(parameters["max_running"]), int(parameters["max_queue_size"])
        period = int(parameters["cancellation_check_period_ms"]) / 1000
        self._requests = Requests(*most, Metrics(args["model_name"]), self._on_leave, period)

    def execute(self, requests):
        """Starts a thread per request, because a call of another model blocks."""
        for request in requests:
            entered = self._requests.enter(request)
            if entered is not None:
                threading.Thread(target=self._answer, args=(entered,), daemon=True).start()

    def _answer(self, entered):
        try:
            request = read(entered.request.inputs())
            if not self._streams and (request.streaming or request.sampling.get("n", 1) > 1):
                raise Mistake("Streaming is only supported in decoupled mode, and more than one sequence as well.")
            sampling = {"max_tokens": MAX_TOKENS, "skip_special_tokens": True, "add_special_tokens": True}
            sampling |= request.sampling
            ids = self._tokens.ids(request.prompt, sampling["add_special_tokens"])
            inputs = self._inputs(request, sampling, ids)
            entered.work = Work(self._engine, self._streams)
            self._tell(entered, request, sampling, len(ids), entered.work.responses(inputs))
        except Left:
            entered.fail("Request cancelled by client", "CANCELLED")
        except Exception as trouble:
            entered.fail(str(trouble) or type(trouble).__name__, _code(trouble))

    def _inputs(self, request, sampling, ids):
        """The tensors of the engine's model; it batches, so each has a first dimension of 1."""
        ends = [] if sampling.get("ignore_eos") else self._tokens.ends
        stops = [*sampling.get("stop_token_ids", []), *ends[1:]]
        tensors = {
            "input_ids": np.array([ids], np.int32),
            "input_lengths": _single(len(ids), np.int32),
            "request_output_len": _single(sampling["max_tokens"], np.int32),
            "end_id": _single(ends[0] if ends else NO_END, np.int32),
            "pad_id": _single(ends[0] if ends else 0, np.int32),
            # Streams internally if a stop string may end the answer.
            "streaming": _single(self._streams and (request.streaming or bool(request.stops)), np.bool_),
            "exclude_input_in_output": _single(True, np.bool_),
        }
        if stops:
            tensors["stop_words_list"] = np.array([[stops, range(1, len(stops) + 1)]], np.int32)
        if request.logprobs is not None:
            if request.logprobs:
                raise Unsupported("an engine tells each token's own probability; sampling_param_logprobs has to be 0")
            tensors["return_log_probs"] = _single(True, np.bool_)
        for name in [name for name in sampling if name not in OURS]:
            tensors |= self._sampled(name, sampling[name])
        return tensors | self._extras(request)

    def _sampled(self, name, value):
        if name == "best_of" and value == 1:
            return {}
        if name not in self._sampling:
            raise Unsupported(f"an engine of this release takes no {name}")
        theirs, kind = self._sampling[name]
        return {theirs: _single(value, kind)}

    def _extras(self, request):
        extras = {}
        if request.salt:
            raise Unsupported("an engine of this release takes no cache_salt")
        if request.adapter:
            if request.adapter not in self._adapters:
                known = ", ".join(self._adapters) or "none"
                raise Mistake(f"lora_name {request.adapter!r} is no adapter of this model; it has: {known}")
            extras["lora_task_id"] = _single(self._adapters[request.adapter], np.uint64)
        if request.guide:
            if not self._guided:
                raise Unsupported(
                    "guided decoding is off for this model; the inventory turns it on: guided_decoding=True"
                )
            field, guide = request.guide
            extras["guided_decoding_guide_type"] = _single(GUIDE_TYPES[field].encode(), np.object_)
            if guide is not True:
                extras["guided_decoding_guide"] = _single(guide.encode(), np.object_)
        return extras

    def _tell(self, entered, request, sampling, prompt, responses):
        count, most = sampling.get("n", 1), sampling["max_tokens"]
        sequences = [Sequence(number, request.stops, most, request.logprobs, request.echoed) for number in range(count)]
        ends = sampling.get("stop_token_ids", []), bool(sampling.get("ignore_eos")), sampling["skip_special_tokens"]
        growing = [Growing(self._tokens, most, *ends) for _ in range(count)]
        whole = {}

        def events_of(numbers, is_last):
            events = [event for number in numbers if (event := sequences[number].next_event(growing[number], is_last))]
            if request.streaming:
                return events
            for event in events:
                whole[event.sequence] = whole[event.sequence].and_then(event) if event.sequence in whole else event
            return []

        for tensors in responses:
            number = int(tensors["sequence_index"].reshape(-1)[0]) if "sequence_index" in tensors else 0
            ids = tensors["output_ids"].reshape(-1)[: int(tensors["sequence_length"].reshape(-1)[0])].tolist()
            logprobs = tensors["output_log_probs"].reshape(-1)[-len(ids) :].tolist() if request.logprobs == 0 else []
            growing[number].add(ids, logprobs)
            events = events_of([number], is_last=False)
            if events:
                entered.say(request, events, False, prompt, -1)
            if all(sequence.is_finished for sequence in sequences):
                entered.work.stop()  # the engine does not know about a stop string that ended the answer
        for sequence in growing:
            sequence.end()
        events = events_of(range(count), is_last=True)
        entered.say(request, events if request.streaming else [whole[n] for n in sorted(whole)], True, prompt, -1)

    def _on_leave(self, entered):
        """Stops the engine's work; the thread that detects disconnected clients calls this until the request has
        ended."""
        if entered.work is not None:
            entered.work.has_left = True
            entered.work.stop()

    def finalize(self):
        """Sends the remaining answers."""
        self._requests.end()


class Work:
    """A request to the engine's model, under a random id."""

    def __init__(self, engine, streams):
        self._engine, self._streams, self._identity = engine, streams, secrets.token_hex(16)
        self._lock, self._is_stopped, self.has_left = threading.Lock(), False, False

    def responses(self, inputs):
        """The tensors of each response by name. Raises `Left`, or `EngineError` with the engine's message."""
        try:
            for tensors in self._ask(inputs):
                if "output_ids" in tensors:
                    yield tensors
        except EngineError:
            if not self._is_stopped:
                raise
        if self.has_left:
            raise Left

    def stop(self):
        """Ends the engine's work on the request; may be called from any thread, and more than once."""
        with self._lock:
            if self._is_stopped:
                return
            self._is_stopped = True
        # Requests to the engine's model must have these three.
        tensors = {"input_ids": [[0]], "input_lengths": [[1]], "request_output_len": [[1]]}
        inputs = {name: np.array(value, np.int32) for name, value in tensors.items()}
        for _ in self._ask(inputs | {"stop": _single(True, np.bool_)}):
            pass

    def _ask(self, inputs):
        return (_streamed if self._streams else _whole)(self._engine, self._identity, inputs)


def _streamed(engine, identity, inputs):
    """The tensors of each event of a streaming engine. Raises EngineError."""
    body = {"id": identity} | {name: _plain(array) for name, array in inputs.items()}
    connection = http.client.HTTPConnection(ADDRESS)
    try:
        path = f"/v2/models/{engine}/generate_stream"
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        for line in connection.getresponse():
            event = json.loads(line.removeprefix(b"data:") or b"{}") if line.strip() else {}
            if "error" in event:
                raise EngineError(event["error"])
            yield {name: np.array(value) for name, value in event.items() if name in OUTPUTS}
    finally:
        connection.close()


def _plain(array):
    """The values of a tensor as a flat list for Triton's HTTP API; the model's configuration has the shape."""
    values = [value.decode() if isinstance(value, bytes) else value for value in array.reshape(-1).tolist()]
    return values if len(values) > 1 else values[0]


def _whole(engine, identity, inputs):
    """The tensors of the only response of an engine that does not stream. Raises EngineError."""
    names = [name for name in OUTPUTS if name != "output_log_probs" or "return_log_probs" in inputs]
    tensors = [pb_utils.Tensor(name, array) for name, array in inputs.items()]
    response = pb_utils.InferenceRequest(
        model_name=engine, request_id=identity, requested_output_names=names, inputs=tensors
    ).exec()
    if response.has_error():
        raise EngineError(response.error().message())
    yield {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}


class Left(Exception):
    """The client has left."""


class EngineError(Exception):
    """The engine's model answered with an error instead of tokens."""


def _single(value, kind):
    return np.array([[value]], kind)


def _code(trouble):
    """Triton's code for an error. The engine's model gives no code; errors of a request begin as below."""
    if isinstance(trouble, Unsupported):
        return "UNSUPPORTED"
    theirs = isinstance(trouble, Mistake) or "Encountered an error when fetching new request" in str(trouble)
    return "INVALID_ARG" if theirs else "INTERNAL"
