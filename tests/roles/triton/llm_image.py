"""The image's `llmapi` model and TensorRT-LLM's LLM class, as far as the slot uses them, for tests without an image.

`MODEL` is the text of a model.py with the attributes of the image's own: an event loop in a thread, an engine in it.
The engine answers " w0 w1 …" (ids 100, 101, …) to any prompt, a word an event, and holds prompts that begin with "hold"
until the file GO exists, or their request is aborted. `engine.asked` has the arguments of `generate_async`.
"""

MODEL = '''
import asyncio
import os
import threading
import time
from dataclasses import dataclass, field

import triton_python_backend_utils as pb_utils

GO = os.environ.get("LLM_IMAGE_GO", "/nonexistent")


def is_held(word, said):
    return word.startswith("hold") and not os.path.exists(GO)


@dataclass
class Output:
    """As TensorRT-LLM's CompletionOutput."""

    index: int
    text: str = ""
    token_ids: list = field(default_factory=list)
    logprobs: list = field(default_factory=list)
    cumulative_logprob: float = None
    finish_reason: str = None
    stop_reason: object = None


class Result:
    """As TensorRT-LLM's RequestOutput: an asynchronous iterator that gives itself after every token."""

    def __init__(self, word, ids, params, streaming):
        self.word, self.prompt_token_ids, self.params, self.streaming = word, ids, params, streaming
        self.outputs = [Output(number) for number in range(params.n)]
        self.finished, self.is_aborted, self.cached_tokens = False, False, 3

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.finished:
            raise StopAsyncIteration
        while True:
            while self.holds():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0)
            self.step()
            if self.finished or self.streaming:
                return self

    def holds(self):
        return not self.is_aborted and is_held(self.word, len(self.outputs[0].token_ids))

    def step(self):
        number = len(self.outputs[0].token_ids)
        for output in self.outputs:
            if self.is_aborted:
                output.finish_reason = "cancelled"
                continue
            output.text += f" w{number}"
            output.token_ids.append(100 + number)
            if self.params.logprobs:
                output.logprobs.append({100 + number: -0.5, 7: -1.5})
                output.cumulative_logprob = -0.5 * (number + 1)
            if 100 + number in (self.params.stop_token_ids or []):
                output.finish_reason, output.stop_reason = "stop", 100 + number
                output.token_ids.pop()
        is_long = number + 1 == self.params.max_tokens
        self.finished = is_long or self.is_aborted or self.outputs[0].finish_reason is not None
        if is_long and self.finished:
            self.outputs[-1].finish_reason = "length"  # of the last sequence alone, as TensorRT-LLM does

    def abort(self):
        self.is_aborted = True


class Engine:
    """As tensorrt_llm.LLM."""

    def __init__(self):
        self.asked = []

    def generate_async(
        self, inputs, sampling_params=None, lora_request=None, prompt_adapter_request=None, streaming=False
    ):
        self.asked.append((inputs, sampling_params, lora_request, streaming))
        if inputs == "too long":
            raise ValueError("prompt length (9) exceeds max_seq_len (8)")
        if inputs == "breaks":
            raise RuntimeError("a CUDA error")
        word, ids = ("", inputs) if isinstance(inputs, list) else (inputs, [1, 2])
        return Result(word, ids, sampling_params, streaming)


class TritonPythonModel:
    def initialize(self, args):
        self._llm_engine, self._ongoing_request_count = Engine(), 0
        self._event_loop = asyncio.new_event_loop()
        self._event_thread = threading.Thread(target=self._event_loop.run_forever, daemon=True)
        self._event_thread.start()

    def finalize(self):
        for _ in range(1000):  # upstream waits for the requests in work, without an end
            if not self._ongoing_request_count:
                break
            time.sleep(0.01)
        self._event_loop.call_soon_threadsafe(self._event_loop.stop)
        self._event_thread.join()
        self._event_loop.close()
'''

SAMPLING = '''
from dataclasses import dataclass


@dataclass(kw_only=True)
class SamplingParams:
    """Fields of TensorRT-LLM 1.0 to 1.2.1 that the slot may name."""

    max_tokens: int = 32
    min_tokens: int = None
    n: int = 1
    best_of: int = None
    top_k: int = None
    top_p: float = None
    min_p: float = None
    temperature: float = None
    seed: int = None
    frequency_penalty: float = None
    presence_penalty: float = None
    repetition_penalty: float = None
    stop_token_ids: list = None
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    add_special_tokens: bool = True
    logprobs: int = None
    exclude_input_from_output: bool = True
    guided_decoding: object = None


@dataclass(kw_only=True)
class GuidedDecodingParams:
    """Its fields from 1.0 on."""

    json: object = None
    regex: str = None
    grammar: str = None
    json_object: bool = False
    structural_tag: str = None
'''
PACKAGE = {
    "__init__.py": "__version__ = '1.2.1'\nfrom .sampling_params import SamplingParams\n",
    "sampling_params.py": SAMPLING,
    "executor.py": "import collections\n\nLoRARequest = collections.namedtuple('LoRARequest', 'name number path')\n",
}
"""The package `tensorrt_llm`."""
