"""Triton's `tensorrtllm` backend without TensorRT-LLM: the same parameters, tensors, streaming and refusals.

rehearsal stand-in. The real one is a C++ library; this is a Python-based backend in its place, so nothing in a model
repository tells the two apart. It takes and returns token ids. Each request has a thread; there are no batches.
"""

import json
import os
import sys
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from stand_in_engine import Engine, Refused
from stand_in_tokens import Asked, answer, words

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
SECONDS_PER_TOKEN = 0.005
LOG_PROBABILITY = -0.5
TIMES = ("arrival_time_ns", "first_scheduled_time_ns", "first_token_time_ns", "last_token_time_ns")
COUNTS = ("kv_cache_alloc_new_blocks", "kv_cache_reused_blocks", "kv_cache_alloc_total_blocks",
          "total_accepted_draft_tokens", "total_draft_tokens")  # fmt: skip


class TritonPythonModel:
    """The model that Triton's Python backend calls."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        """Changes nothing, like the real one."""
        return auto_complete_model_config

    def initialize(self, args):
        """Loads the engine, or refuses it like the real backend."""
        configuration = json.loads(args["model_config"])
        self.decoupled = pb_utils.using_decoupled_model_transaction_policy(configuration)
        self.outputs = {output["name"] for output in configuration["output"]}
        try:
            self.engine = Engine({key: value["string_value"] for key, value in configuration["parameters"].items()})
        except Refused as problem:
            raise pb_utils.TritonModelException(f"[TensorRT-LLM][ERROR] {problem}") from None
        self.running, self.lock, self.adapters = {}, threading.Lock(), set()
        rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
        pb_utils.Logger.log_info(f"rehearsal stand-in: no TensorRT-LLM here; rank {rank}: {self.engine.describe()}")

    def execute(self, requests):
        """Starts a thread per request. Decoupled answers use their senders, others come together."""
        senders = [request.get_response_sender() if self.decoupled else Collector(request) for request in requests]
        threads = [
            threading.Thread(target=self._work, args=pair, daemon=True) for pair in zip(requests, senders, strict=True)
        ]
        for thread in threads:
            thread.start()
        if self.decoupled:
            return None
        for thread in threads:
            thread.join()
        return [sender.response for sender in senders]

    def _work(self, request, sender):
        cancelled, last = threading.Event(), {}
        try:
            if scalar(request, "stop", False):
                self._stop(request.request_id())
                return
            with self.lock:
                self.running[request.request_id()] = cancelled
            self._answer(request, sender, lambda: cancelled.is_set() or sender.is_cancelled())
        except Exception as trouble:  # an error ends only its own request
            last = {"response": pb_utils.InferenceResponse([], error=pb_utils.TritonError(str(trouble)))}
        finally:
            with self.lock:
                self.running.pop(request.request_id(), None)
            # The error is also the final response, because an ensemble waits for no further response after an error.
            sender.send(**last, flags=FINAL)

    def _stop(self, identity):
        if not identity:
            raise RuntimeError("Trying to stop a request but request ID is not provided")
        with self.lock:
            running = self.running.get(identity)
        if running:
            running.set()

    def _answer(self, request, sender, is_stopped):
        rows = len(array(request, "input_lengths").reshape(-1))
        streaming = bool(scalar(request, "streaming", False))
        if rows > 1 and not self.decoupled:
            raise RuntimeError(
                "Batch size > 1 requires the tensorrt_llm backend to be using decoupled transaction policy"
            )
        if streaming and not self.decoupled:
            raise RuntimeError("Streaming is only supported if model is deployed using decoupled mode.")
        prompts = [self._prompt(request, row) for row in range(rows)]
        for row, prompt in enumerate(prompts):
            for sequence in range(int(scalar(request, "num_return_sequences", 1, row))):
                self._generate(request, sender, is_stopped, prompt, (row, sequence, streaming))

    def _prompt(self, request, row):
        """Returns a row, checked against the engine's limits."""
        length, count = int(array(request, "input_lengths").reshape(-1)[row]), int(scalar(request, "request_output_len",
                                                                                          0, row))  # fmt: skip
        engine, beams = self.engine, int(scalar(request, "beam_width", 1, row))
        if count < 1:
            raise RuntimeError(f"Encountered an error when fetching new request: maxNewTokens ({count}) must be > 0")
        if length > engine.max_input_len or length + count > engine.max_seq_len:
            raise RuntimeError(
                f"Encountered an error when fetching new request: Prompt length ({length}) exceeds maximum input "
                f"length ({engine.max_input_len}), or with {count} tokens of answer max_seq_len ({engine.max_seq_len})"
            )
        if beams > engine.max_beam_width:
            raise RuntimeError(f"Requested beam width {beams} is larger than max_beam_width {engine.max_beam_width}")
        for kind in ("context", "generation"):
            if scalar(request, f"return_{kind}_logits", False, row) and not engine.gathers(kind):
                raise RuntimeError(
                    f"Return {kind} logits was requested, but the engine was not built with gather_{kind}_logits"
                )
        self._check_extras(request, row)
        lists = {
            name: words(lists[row]) if (lists := array(request, f"{name}_list")) is not None and lists.size else []
            for name in ("stop_words", "bad_words")
        }
        ids = [int(token) for token in array(request, "input_ids")[row][:length]]
        seed = int(scalar(request, "seed", scalar(request, "random_seed", 0, row), row))
        least = int(scalar(request, "min_tokens", scalar(request, "min_length", 0, row), row))
        return Asked(ids, count, seed, int(scalar(request, "end_id", -1, row)), least, **lists)

    def _check_extras(self, request, row):
        engine, drafted = self.engine, array(request, "draft_input_ids")
        if drafted is not None and engine.build.get("speculative_decoding_mode") != "draft_tokens_external":
            raise RuntimeError("draft tokens need an engine built with draft_tokens_external")
        if array(request, "guided_decoding_guide_type") is not None and not engine.parameters.get(
            "guided_decoding_backend"
        ):
            raise RuntimeError("Guided decoding was requested, but no guided_decoding_backend is configured")
        task = scalar(request, "lora_task_id", None, row)
        if task is None:
            return
        if not engine.built("lora_plugin"):
            raise RuntimeError("LoRA was requested, but the engine was built without lora_plugin")
        if array(request, "lora_weights") is not None:
            self.adapters.add(int(task))
        prefetched = os.path.join(engine.parameters.get("lora_prefetch_dir", ""), str(int(task)))
        if int(task) not in self.adapters and not os.path.isdir(prefetched):
            raise RuntimeError(f"LoRA task {task} not found in cache. Please send LoRA weights with request")

    def _generate(self, request, sender, is_stopped, prompt, place):
        row, sequence, streaming = place
        beams = int(scalar(request, "beam_width", 1, row))
        began = time.time_ns()
        prompt.seed += sequence
        tokens_of_beams = [[] for _ in range(beams)]
        for tokens in zip(*(answer(self.engine, prompt, beam) for beam in range(beams)), strict=False):
            if is_stopped():
                return
            time.sleep(SECONDS_PER_TOKEN)
            for beam, token in zip(tokens_of_beams, tokens, strict=True):
                beam.append(token)
            if streaming:
                sender.send(self._response(request, [[token] for token in tokens], place, prompt, began))
        if not streaming:
            kept = self.engine.truth("exclude_input_in_output")
            excluded = bool(scalar(request, "exclude_input_in_output", kept, row))
            whole = tokens_of_beams if excluded else [prompt.ids + beam for beam in tokens_of_beams]
            sender.send(self._response(request, whole, place, prompt, began, len(tokens_of_beams[0])))

    def _response(self, request, beams, place, prompt, began, generated=1):
        row, sequence, _ = place
        shape = (1, len(beams), generated)
        outputs = {
            "output_ids": np.array([beams], np.int32),
            "sequence_length": np.array([[len(beam) for beam in beams]], np.int32),
            "batch_index": np.array([[row]], np.int32),
            "sequence_index": np.array([[sequence]], np.int32),
        }
        if scalar(request, "return_log_probs", False, row):
            outputs["cum_log_probs"] = np.full((1, len(beams)), LOG_PROBABILITY * generated, np.float32)
            outputs["output_log_probs"] = np.full(shape, LOG_PROBABILITY, np.float32)
        if scalar(request, "return_context_logits", False, row):
            outputs["context_logits"] = one_hot([prompt.ids], self.engine.vocabulary)
        if scalar(request, "return_generation_logits", False, row):
            ends = [beam[-generated:] if generated else [] for beam in beams]
            outputs["generation_logits"] = one_hot([ends], self.engine.vocabulary)
        if scalar(request, "return_perf_metrics", False, row):
            outputs |= {name: np.array([[began if name == TIMES[0] else time.time_ns()]], np.int64) for name in TIMES}
            outputs |= {name: np.zeros((1, 1), np.int32) for name in COUNTS}
            outputs["acceptance_rate"] = np.zeros((1, 1), np.float32)
        if scalar(request, "return_num_input_tokens", False, row):
            outputs["num_input_tokens"] = np.array([[len(prompt.ids)]], np.int32)
        if scalar(request, "return_num_output_tokens", False, row):
            outputs["num_output_tokens"] = np.array([[generated]], np.int32)
        wanted = {name for name in request.requested_output_names() if name in self.outputs}
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, outputs[name]) for name in outputs if name in wanted])

    def finalize(self):
        """Writes a line to the log that distinguishes a clean stop from a killed process."""
        pb_utils.Logger.log_info("rehearsal stand-in: finalized")


class Collector:
    """Receives the one response of an undecoupled request."""

    def __init__(self, request):
        self.is_cancelled = request.is_cancelled
        self.response = pb_utils.InferenceResponse([], error=pb_utils.TritonError("nothing was generated"))

    def send(self, response=None, flags=0):
        """Keeps the last response; an end without one changes nothing."""
        self.response = response or self.response


def array(request, name):
    """Returns an input unchanged, or None."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy()


def scalar(request, name, otherwise, row=0):
    """Returns the row's value of an input with a value per row."""
    values = array(request, name)
    return otherwise if values is None or not values.size else values.reshape(-1)[row]


def one_hot(ids, vocabulary):
    """Returns logits with 1 for the given token and 0 for all others."""
    return np.eye(vocabulary, dtype=np.float32)[np.array(ids, np.int64)]
