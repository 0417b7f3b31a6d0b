"""The LLM slot: the engine of the image's own `llmapi` model, behind the contract of deploy/models/llm_contract.py.

The image's model loads TensorRT-LLM and runs its event loop. This module parses requests and writes responses, because
up to TensorRT-LLM 1.2.1 the image's own code

- passes `streaming` in the position of `lora_request`, so that no request streams,
- sends the whole text in every event, without ids and counts,
- lets anyone who knows or guesses a request's id stop that request.

The image provides `initialize`, `finalize` and three attributes, which `_require` checks before the model is ready.
Options that this release's SamplingParams and `generate_async` lack are refused by name.

Triton passes every request on at once, so Triton's own queue never fills. Instead, at most `max_running` +
`max_queue_size` requests (config.pbtxt) may be unanswered; further ones get UNAVAILABLE, as from Triton's queue. Triton
also counts a request of such a model as answered once `execute` returns. So sent answers are counted here, as the
metric `enginehouse_llm_answers_total`, by which the watchdog detects a hang.

The model code must be of the same TensorRT-LLM version as the wheel, so it is taken from the image, not shipped here.
`python/` of the release has repairs of the image (see roles/_shipping/repairs.py). PYTHONPATH also names it, for the
worker processes. The Python backend's own interpreter may ignore PYTHONPATH (seen on Triton 2.51), hence the lines
below.
"""

import asyncio
import dataclasses
import importlib.util
import inspect
import json
import os
import sys

import triton_python_backend_utils as pb_utils

from llm.events import Sequence
from llm.inputs import Mistake, Unsupported, read
from llm.requests import Metrics, Requests

IMAGE_MODEL = os.environ.get("ENGINEHOUSE_LLMAPI", "/app/all_models/llmapi/tensorrt_llm/1")
RELEASE_PACKAGES = os.path.join(os.environ.get("ENGINEHOUSE_RELEASE", "/nonexistent"), "python")
HERE = os.path.dirname(os.path.abspath(__file__))

# The image's code looks for model.yaml beside itself in some versions, in Triton's model directory in others.
os.environ["LLM_CONFIG_PATH"] = os.path.join(HERE, "model.yaml")

sys.path.insert(0, IMAGE_MODEL)  # its model.py imports its own helpers.py by that bare name
if os.path.isdir(RELEASE_PACKAGES):
    sys.path.insert(0, RELEASE_PACKAGES)

_spec = importlib.util.spec_from_file_location("llmapi_of_the_image", os.path.join(IMAGE_MODEL, "model.py"))
_module = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _module
_spec.loader.exec_module(_module)

KEYWORDS = ("sampling_params", "streaming", "lora_request", "cache_salt")
NEEDED = ("_llm_engine", "_event_loop", "_ongoing_request_count")
CHECK_MILLISECONDS = 100
IGNORED = {"frequency_penalty": 0.0, "presence_penalty": 0.0, "repetition_penalty": 1.0, "min_p": 0.0}
"""Sampling fields that the sampler of the PyTorch backend takes and ignores, with the values that change nothing."""
HONOURED_SINCE = (1, 3)
"""NVIDIA/TensorRT-LLM pull requests 16485 and 16590, of July 2026."""


class TritonPythonModel(_module.TritonPythonModel):
    """The image's engine with a limit of unanswered requests, our tensor contract, and detection of disconnected
    clients."""

    def initialize(self, args):
        """Reads the limits, then loads the model, which takes minutes."""
        configuration = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in configuration["parameters"].items()}
        self._streams = configuration.get("model_transaction_policy", {}).get("decoupled", False)
        self._guided = parameters.get("guided_decoding") == "true"
        self._adapters = json.loads(parameters.get("adapters", "{}"))
        most = int(parameters["max_running"]), int(parameters["max_queue_size"])
        super().initialize(args)
        self._require()
        period = int(parameters.get("cancellation_check_period_ms", CHECK_MILLISECONDS)) / 1000
        metrics = Metrics(args["model_name"], int(parameters.get("cache_tokens", 0)))
        self._requests = Requests(*most, metrics, self._on_leave, period)

    def _require(self):
        """Checks that the image's model and TensorRT-LLM have the attributes and signatures that this module uses."""
        missing = [name for name in NEEDED if not hasattr(self, name)]
        if missing:
            raise pb_utils.TritonModelException(
                f"the image's llmapi model has no {', '.join(missing)}: its TensorRT-LLM is none of those that "
                "files/llm/llmapi.py was written for (1.0 to 1.2.1)"
            )
        parameters = inspect.signature(self._llm_engine.generate_async).parameters
        # A decorator may hide the names; TensorRT-LLM itself then refuses unknown ones.
        hidden = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        self._takes = frozenset(parameters) | (frozenset(KEYWORDS) if hidden else frozenset())
        for name in ("sampling_params", "streaming"):
            if name not in self._takes:
                raise pb_utils.TritonModelException(f"TensorRT-LLM's generate_async takes no `{name}`")
        import tensorrt_llm
        from tensorrt_llm import SamplingParams

        self._version = tensorrt_llm.__version__
        self._sampling, self._fields = SamplingParams, {field.name for field in dataclasses.fields(SamplingParams)}

    def execute(self, requests):
        """Triton calls this from a single thread, so no request enters between the check for room and the entry."""
        for request in requests:
            entered = self._requests.enter(request)
            if entered is not None:
                asyncio.run_coroutine_threadsafe(self._answer(entered), self._event_loop)

    async def _answer(self, entered):
        """Sends all responses of a request; runs in the event loop of the image's model."""
        self._ongoing_request_count += 1
        entered.task, result = asyncio.current_task(), None
        try:
            request = read(entered.request.inputs())
            result = self._generate(request)
            entered.tokens = len(result.prompt_token_ids)
            await self._tell(entered, request, result)
        except asyncio.CancelledError:
            if result is not None:
                result.abort()
            entered.fail("Request cancelled by client", "CANCELLED")
        except Exception as trouble:
            entered.fail(str(trouble) or type(trouble).__name__, _code(trouble))
        finally:
            self._ongoing_request_count -= 1

    def _generate(self, request):
        """Passes the request to TensorRT-LLM."""
        if not self._streams and (request.streaming or request.sampling.get("n", 1) > 1):
            raise Mistake("Streaming is only supported in decoupled mode, and more than one sequence as well.")
        if request.streaming and request.sampling.get("best_of", 1) > request.sampling.get("n", 1):
            raise Mistake("the best of several sequences are known at the end: best_of above n does not stream")
        # Streams internally to find stop strings; otherwise the engine would continue to max_tokens.
        streaming = request.streaming or bool(request.stops)
        named = {"streaming": streaming, "sampling_params": self._sampling_params(request)}
        if request.adapter:
            named["lora_request"] = self._adapter(request.adapter)
        if request.salt:
            named["cache_salt"] = request.salt
        self._refuse_unknown("generate_async", [name for name in named if name not in self._takes])
        return self._llm_engine.generate_async(request.prompt, **named)

    def _sampling_params(self, request):
        ignored = [name for name, none in IGNORED.items() if request.sampling.get(name, none) != none]
        if ignored and tuple(int(part) for part in self._version.split(".")[:2]) < HONOURED_SINCE:
            raise Unsupported(f"the sampler of TensorRT-LLM {self._version} ignores {', '.join(ignored)}")
        fields = {**request.sampling, "exclude_input_from_output": True}
        if request.logprobs is not None:
            fields["logprobs"] = max(1, request.logprobs)
        if request.guide:
            fields["guided_decoding"] = self._guide(*request.guide)
        self._refuse_unknown("SamplingParams", [name for name in fields if name not in self._fields])
        return self._sampling(**fields)

    def _guide(self, kind, guide):
        if not self._guided:
            raise Unsupported("guided decoding is off for this model; the inventory turns it on: guided_decoding=True")
        from tensorrt_llm.sampling_params import GuidedDecodingParams

        known = [field.name for field in dataclasses.fields(GuidedDecodingParams)]
        self._refuse_unknown("GuidedDecodingParams", [kind] if kind not in known else [])
        return GuidedDecodingParams(**{kind: guide})

    def _adapter(self, name):
        if name not in self._adapters:
            known = ", ".join(self._adapters) or "none"
            raise Mistake(f"lora_name {name!r} is no adapter of this model; it has: {known}")
        from tensorrt_llm.executor import LoRARequest

        return LoRARequest(name, list(self._adapters).index(name) + 1, self._adapters[name])

    def _refuse_unknown(self, what, names):
        if names:
            raise Unsupported(f"TensorRT-LLM's {what} of this release has no {', '.join(names)}")

    async def _tell(self, entered, request, result):
        most = request.sampling.get("max_tokens", self._sampling().max_tokens)
        count = request.sampling.get("n", 1)
        sequences = [Sequence(number, request.stops, most, request.logprobs, request.echoed) for number in range(count)]
        whole = {}
        async for output in result:
            is_over = output.finished
            entered.tokens = len(result.prompt_token_ids) + sum(
                len(completion.token_ids) for completion in output.outputs
            )
            pairs = zip(sequences, output.outputs, strict=True)
            events = [event for sequence, completion in pairs if (event := sequence.next_event(completion, is_over))]
            if any(event.finish_reason == "cancelled" for event in events):
                raise RuntimeError("TensorRT-LLM gave the request up")
            if not is_over and all(sequence.is_finished for sequence in sequences):
                is_over = True
                result.abort()  # the engine does not know about the stop string that was found
            if not request.streaming:
                for event in events:
                    whole[event.sequence] = whole[event.sequence].and_then(event) if event.sequence in whole else event
                events = [whole[number] for number in sorted(whole)] if is_over else []
            entered.say(request, events, is_over, len(result.prompt_token_ids), getattr(result, "cached_tokens", -1))
            if is_over:
                return
        raise RuntimeError("TensorRT-LLM ended the request without a last output")

    def _on_leave(self, entered):
        """Called by another thread when the request's client has left."""
        self._event_loop.call_soon_threadsafe(entered.cancel)

    def finalize(self):
        """Ends the engine before the senders, because the engine waits for running requests, which wait for their
        senders.

        Waits until a request that was just admitted has begun; otherwise the engine's loop would end without answering
        it.
        """
        if self._event_loop.is_running():
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._event_loop).result()
        super().finalize()
        self._requests.end()


def _code(trouble):
    """Triton's code for an error; TensorRT-LLM raises ValueError and its own RequestError for a wrong request."""
    if isinstance(trouble, Unsupported):
        return "UNSUPPORTED"
    is_theirs = isinstance(trouble, (Mistake, ValueError)) or type(trouble).__name__ == "RequestError"
    return "INVALID_ARG" if is_theirs else "INTERNAL"
