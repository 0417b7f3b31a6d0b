"""Triton's `llmapi` model without TensorRT-LLM: the same files, tensors, settings, attributes, cancelling and refusals.

rehearsal stand-in. The stand-in's LLM answers with the prompt's own words, or on a real GPU with a network's. It has
the upstream errors up to 1.2.1, so that tests see a release without our repairs: `streaming` is passed in the place of
`lora_request`, every event has the whole text, and any client that names the id of a running request stops it.
"""

import asyncio
import itertools
import json
import threading
import time

import triton_python_backend_utils as pb_utils
from helpers import error, published, read_configuration, response, sampling, scalar, strings, tell_held
from tensorrt_llm import LLM, SamplingParams

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
CANCELLED = "Request cancelled by client"


class TritonPythonModel:
    """The model that Triton's Python backend calls."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        """Copies batching and decoupling from model.yaml into Triton's own configuration."""
        triton, _ = read_configuration()
        auto_complete_model_config.set_max_batch_size(int(triton["max_batch_size"]))
        auto_complete_model_config.set_model_transaction_policy({"decoupled": bool(triton["decoupled"])})
        return auto_complete_model_config

    def initialize(self, args):
        """Builds the LLM, or refuses like the real one; a separate event loop handles the requests."""
        triton, arguments = read_configuration()
        self.decoupled = pb_utils.using_decoupled_model_transaction_policy(json.loads(args["model_config"]))
        wanted = bool(triton["decoupled"])
        if wanted != self.decoupled:
            raise pb_utils.TritonModelException(
                f"triton_config.decoupled is {wanted} in model.yaml and {self.decoupled} in config.pbtxt"
            )
        if triton["max_batch_size"] != 0:
            raise pb_utils.TritonModelException("triton_config.max_batch_size has to be 0: one prompt per request")
        self._llm_engine = LLM(**arguments)
        self._ongoing_request_count = 0
        self._event_loop = asyncio.new_event_loop()
        self._event_thread = threading.Thread(target=self._event_loop.run_forever)
        self._event_thread.start()
        self.numbers, self.running, self.lock = itertools.count(), {}, threading.Lock()
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self._cancel_who_left, daemon=True)]
        self.period = triton.get("cancellation_check_period_ms", 100) / 1000
        if self._llm_engine.computed_by:
            self.label = published(args["model_name"], self._llm_engine.computed_by)
            held = (args["model_name"], self._llm_engine.held_tokens, self.ended)
            self.threads.append(threading.Thread(target=tell_held, args=held, daemon=True))
        for thread in self.threads:
            thread.start()
        pb_utils.Logger.log_info(f"rehearsal stand-in: no TensorRT-LLM here; {self._llm_engine.describe()}")

    def execute(self, requests):
        """Starts a task per request; the answers use their senders."""
        for request in requests:
            asyncio.run_coroutine_threadsafe(self._execute_single_request(request), self._event_loop)

    async def _execute_single_request(self, request):
        sender, number = request.get_response_sender(), next(self.numbers)
        if scalar(request, "stop", bool, False):
            self._stop(request.request_id(), sender)
            return
        self._ongoing_request_count += 1
        try:
            await self._generate(request, sender, number)
        except Exception as trouble:  # an error ends only its own request
            sender.send(error(f"Error generating request: {trouble}"), flags=FINAL)
        finally:
            self._ongoing_request_count -= 1
            with self.lock:
                self.running.pop(number, None)

    async def _generate(self, request, sender, number):
        streaming = scalar(request, "streaming", bool, False)
        if streaming and not self.decoupled:
            raise ValueError("Streaming is only supported in decoupled mode.")
        prompts = strings(request, "text_input")
        if len(prompts) != 1:
            raise ValueError(f"one prompt per request, {len(prompts)} were given")
        result = self._llm_engine.generate_async(prompts[0], SamplingParams(**sampling(request)), streaming)
        with self.lock:
            self.running[number] = (request, result)
        async for output in result:
            if streaming and self._is_wanted(number):
                sender.send(response(request, output.outputs), flags=FINAL if output.finished else 0)
        if not streaming and self._is_wanted(number):
            sender.send(response(request, output.outputs), flags=FINAL)

    def _is_wanted(self, number):
        with self.lock:
            return number in self.running

    def _stop(self, identity, sender):
        """Ends every request with that id from any client; none of them gets a last response."""
        with self.lock:
            named = [number for number, (request, _) in self.running.items() if request.request_id() == identity]
            for number in named if identity else []:
                self.running.pop(number)[1].abort()
        sender.send(_cancelled(), flags=FINAL)

    def _cancel_who_left(self):
        while not self.ended.wait(self.period):
            with self.lock:
                gone = [number for number, (request, _) in self.running.items() if request.is_cancelled()]
                for request, result in [self.running.pop(number) for number in gone]:
                    result.abort()
                    request.get_response_sender().send(_cancelled(), flags=FINAL)

    def finalize(self):
        """Waits for running requests, like upstream; a log line distinguishes a clean stop from a killed process."""
        for _ in range(3000):
            if not self._ongoing_request_count:
                break
            time.sleep(0.01)
        self.ended.set()
        for thread in self.threads:
            thread.join()
        self._event_loop.call_soon_threadsafe(self._event_loop.stop)
        self._event_thread.join()
        self._llm_engine.shutdown()
        pb_utils.Logger.log_info("rehearsal stand-in: finalized")


def _cancelled():
    return pb_utils.InferenceResponse(
        output_tensors=[], error=pb_utils.TritonError(CANCELLED, pb_utils.TritonError.CANCELLED)
    )
