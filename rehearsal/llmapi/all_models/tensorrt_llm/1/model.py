"""Triton's `llmapi` model without TensorRT-LLM: the same files, tensors, settings, cancelling and refusals.

rehearsal stand-in. What it answers is the business of the stand-in's LLM: the prompt's own words, or on a real GPU what
a network says. Each request has a thread of its own, as the real one has a task per request in its event loop.
"""

import json
import threading

import triton_python_backend_utils as pb_utils
from helpers import error, published, read_configuration, response, sampling, scalar, strings, tell_held
from tensorrt_llm import LLM

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    """What Triton's Python backend calls."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        """Copy what model.yaml says about batching and decoupling into Triton's own configuration."""
        triton, _ = read_configuration()
        auto_complete_model_config.set_max_batch_size(int(triton["max_batch_size"]))
        auto_complete_model_config.set_model_transaction_policy({"decoupled": bool(triton["decoupled"])})
        return auto_complete_model_config

    def initialize(self, args):
        """Build the LLM, or refuse as the real one refuses."""
        triton, arguments = read_configuration()
        self.decoupled = pb_utils.using_decoupled_model_transaction_policy(json.loads(args["model_config"]))
        wanted = bool(triton["decoupled"])
        if wanted != self.decoupled:
            raise pb_utils.TritonModelException(
                f"triton_config.decoupled is {wanted} in model.yaml and {self.decoupled} in config.pbtxt"
            )
        if triton["max_batch_size"] != 0:
            raise pb_utils.TritonModelException("triton_config.max_batch_size has to be 0: one prompt per request")
        self.llm = LLM(**arguments)
        self.running, self.lock = {}, threading.Lock()
        self.ended, self.label = threading.Event(), None
        if self.llm.computed_by:
            self.label = published(args["model_name"], self.llm.computed_by)
            self.teller = threading.Thread(
                target=tell_held, args=(args["model_name"], self.llm.held_tokens, self.ended), daemon=True
            )
            self.teller.start()
        pb_utils.Logger.log_info(f"rehearsal stand-in: no TensorRT-LLM here; {self.llm.describe()}")

    def execute(self, requests):
        """Start a thread per request; the answers come through their senders."""
        for request in requests:
            threading.Thread(target=self._answer, args=(request, request.get_response_sender()), daemon=True).start()

    def _answer(self, request, sender):
        cancelled = threading.Event()
        try:
            if scalar(request, "stop", bool, False):
                self._cancel(request.request_id())
            else:
                self._remember(request.request_id(), cancelled)
                self._generate(request, sender, cancelled)
        except Exception as trouble:  # one request's trouble is that request's answer
            sender.send(error(f"{type(trouble).__name__}: {trouble}"))
        finally:
            with self.lock:
                self.running.pop(request.request_id(), None)
            sender.send(flags=FINAL)

    def _remember(self, identity, cancelled):
        with self.lock:
            if identity:
                self.running[identity] = cancelled

    def _cancel(self, identity):
        with self.lock:
            running = self.running.get(identity)
        if running is None:
            raise ValueError(f"no request with id '{identity}' is running")
        running.set()

    def _generate(self, request, sender, cancelled):
        streaming = scalar(request, "streaming", bool, False)
        if streaming and not self.decoupled:
            raise ValueError("Streaming is only supported in decoupled mode.")
        prompts = strings(request, "text_input")
        if len(prompts) != 1:
            raise ValueError(f"one prompt per request, {len(prompts)} were given")
        echoed = "" if scalar(request, "sampling_param_exclude_input_from_output", bool, False) else prompts[0]
        stopped = lambda: cancelled.is_set() or sender.is_cancelled()  # noqa: E731
        output = None
        for output in self.llm.stream(prompts[0], stopped, **sampling(request)):
            if streaming and output.finish_reason != "cancelled":
                sender.send(response(request, echoed + output.new_text, output))
                echoed = ""
        if not streaming and output.finish_reason != "cancelled":
            sender.send(response(request, echoed + output.text, output))

    def finalize(self):
        """Say goodbye in the log, so that a clean stop can be told from a killed process."""
        self.ended.set()
        if self.label:
            self.teller.join()
        self.llm.shutdown()
        pb_utils.Logger.log_info("rehearsal stand-in: finalized")
