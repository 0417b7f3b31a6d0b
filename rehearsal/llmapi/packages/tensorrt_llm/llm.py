"""An LLM that answers with the prompt's own words (rehearsal stand-in).

Like the real one, it reads config.json, tokenizer.json and the headers of the safetensors shards, and refuses at load:
unknown arguments, an incomplete checkpoint, a key/value cache below one sequence.
"""

import itertools
import json
import re
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import Tokenizer

from .arguments import check
from .results import RequestResult, json_text
from .sampling_params import SamplingParams

ARCHITECTURES = {
    "GptOssForCausalLM", "LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM", "Qwen2ForCausalLM",
    "Qwen3ForCausalLM", "Qwen3MoeForCausalLM",
}  # fmt: skip
SECONDS_PER_TOKEN = 0.005
DEFAULT_MAX_TOKENS = 32
# A control token, with the role or channel name that follows some of them.
MARKER = re.compile(r"<\|(?:start|channel|constrain)\|>[^<]*|<\|[^|]*\|>")
WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


@dataclass
class Output:
    """The text generated so far."""

    text: str = ""
    new_text: str = ""
    finish_reason: str = None
    stop_reason: str = None
    cumulative_logprob: float = 0.0
    times_ns: dict = field(default_factory=dict)
    token_ids: list = field(default_factory=list)


@dataclass
class RequestOutput:
    """A finished request."""

    prompt: str
    outputs: list


class Base:
    """Base of both LLM classes: `generate` answers like the real one, `stream` yields an Output per token."""

    drift = None
    """Number of the word from which the answer differs from the checkpoint's."""
    computed_by = None
    """The program that computes in place of TensorRT-LLM, if there is one."""

    def prepare(self, folder, max_seq_len):
        """Loads the tokenizer of `folder`."""
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.max_seq_len = max_seq_len

    def generate(self, prompt, sampling_params, use_tqdm=True):
        """Returns the complete answer to one prompt."""
        *_, output = self.stream(prompt, **sampling_params.caller_values())
        output.token_ids = self.tokenizer.encode(output.text, add_special_tokens=False).ids
        return RequestOutput(prompt, [output])

    def generate_async(
        self,
        inputs,
        sampling_params=None,
        lora_request=None,
        prompt_adapter_request=None,
        streaming=False,
        kv_cache_retention_config=None,
        disaggregated_params=None,
        trace_headers=None,
        _postproc_params=None,
        scheduling_params=None,
        cache_salt=None,
    ):
        """Returns the running answer; called in an event loop. The order of its parameters is that of 1.2.1."""
        params = sampling_params or SamplingParams()
        is_text = isinstance(inputs, str)
        ids = self.tokenizer.encode(inputs, add_special_tokens=params.add_special_tokens).ids if is_text else inputs
        if params.max_tokens < 1:
            raise ValueError(f"require max_tokens >= 1, got max_tokens={params.max_tokens}")
        if len(ids) + params.max_tokens > self.max_seq_len:
            limit = f"max_seq_len ({self.max_seq_len})"
            raise ValueError(
                f"prompt length ({len(ids)}) plus max_tokens ({params.max_tokens}) should not exceed {limit}"
            )

        before = inputs if is_text and not params.exclude_input_from_output else ""

        def sequences(stopped):
            return [self.tokens(ids, stopped, params, (params.seed or 0) + number) for number in range(params.best_of)]

        return RequestResult(ids, sequences, params, streaming, self.tokenizer, before)

    def tokens(self, ids, stopped, params, seed):
        """Yields the ids of an answer until it ends or `stopped`: the prompt's own words in a circle."""
        if params.guided_decoding:
            pieces = iter([json_text(params.guided_decoding)])
        else:
            words = WORD.findall(MARKER.sub(" ", self.tokenizer.decode(ids, skip_special_tokens=False))) or ["nothing"]
            start = seed % len(words)
            pieces = (f" {word}" for word in itertools.cycle([*words[start:], *words[:start]]))
        answer = (token for text in pieces for token in self.tokenizer.encode(text, add_special_tokens=False).ids)
        for token in itertools.islice(answer, params.max_tokens):
            if stopped():
                return
            time.sleep(SECONDS_PER_TOKEN)
            yield token

    def shutdown(self):
        """Does nothing: the stand-in has no process."""

    def stream(self, prompt, stopped=lambda: False, **sampling):
        """Yields an Output after every token, the last one with its finish reason: length, stop or cancelled."""
        most = _checked(sampling)
        used = len(self.tokenizer.encode(prompt).ids)
        if used + most > self.max_seq_len:
            limit = f"max_seq_len ({self.max_seq_len})"
            raise ValueError(f"prompt length ({used}) plus max_tokens ({most}) should not exceed {limit}")
        words = WORD.findall(MARKER.sub(" ", prompt)) or ["nothing"]
        start = sampling.get("seed", 0) % len(words)
        output = Output(times_ns={"arrival": time.time_ns(), "first_scheduled": time.time_ns()})
        for number in range(most):
            if stopped():
                output.finish_reason, output.new_text = "cancelled", ""
                yield output
                return
            time.sleep(SECONDS_PER_TOKEN)
            word = words[(start + number) % len(words)]
            if self.drift is not None and number >= self.drift:
                word = f"not{word}"
            self._append(output, word, sampling.get("stop", []), number + 1 == most)
            yield output
            if output.finish_reason:
                return

    def _append(self, output, word, stops, last):
        before, output.new_text = output.text, f" {word}"
        output.text += output.new_text
        output.times_ns.setdefault("first_token", time.time_ns())
        output.times_ns["last_token"] = time.time_ns()
        output.cumulative_logprob -= 0.5
        hits = [(output.text.find(stop), stop) for stop in stops if stop and stop in output.text]
        if hits:
            place, output.stop_reason = min(hits)
            output.text = output.text[:place]
            output.new_text = output.text[len(before) :]
            output.finish_reason = "stop"
        elif last:
            output.finish_reason = "length"


class LLM(Base):
    """An LLM with the arguments of tensorrt_llm.LLM: published weights behind the PyTorch backend."""

    def __init__(self, **arguments):
        check(arguments)
        if "model" not in arguments:
            raise ValueError("LLM() needs `model`")
        if arguments.get("backend", "pytorch") not in ("pytorch", "_autodeploy"):
            raise ValueError(f"backend {arguments['backend']!r} is not in this stand-in; it rehearses `pytorch`")
        self.folder = Path(arguments["model"])
        self.configuration = _configuration(self.folder)
        self.prepare(self.folder, arguments.get("max_seq_len") or self.configuration["max_position_embeddings"])
        self.tensors, self.weight_bytes = _weights(self.folder)
        self.kv_tokens = (arguments.get("kv_cache_config") or {}).get("max_tokens")
        if self.kv_tokens is not None and self.kv_tokens < self.max_seq_len:
            raise RuntimeError(
                f"the key/value cache holds {self.kv_tokens} tokens (kv_cache_config.max_tokens) and one sequence "
                f"needs up to {self.max_seq_len} (max_seq_len)"
            )

    def describe(self):
        """Returns a line for the log."""
        kept = "what is left" if self.kv_tokens is None else f"{self.kv_tokens} tokens"
        return (
            f"{self.configuration['architectures'][0]} from {self.folder}: {self.tensors} tensors, "
            f"{self.weight_bytes >> 20} MiB, max_seq_len {self.max_seq_len}, KV cache {kept}"
        )


def _checked(sampling):
    most = sampling.get("max_tokens", DEFAULT_MAX_TOKENS)
    if most < 1:
        raise ValueError(f"require max_tokens >= 1, got max_tokens={most}")
    if sampling.get("temperature", 0) < 0:
        raise ValueError(f"require temperature >= 0, got temperature={sampling['temperature']}")
    if not 0 < sampling.get("top_p", 1) <= 1:
        raise ValueError(f"require 0 < top_p <= 1, got top_p={sampling['top_p']}")
    if sampling.get("best_of", 1) < 1:
        raise ValueError(f"require best_of >= 1, got best_of={sampling['best_of']}")
    return most


def _configuration(folder):
    if not folder.is_dir():
        raise OSError(f"{folder} is no folder here, and nothing can be downloaded from inside this container")
    configuration = json.loads((folder / "config.json").read_text())
    architecture = (configuration.get("architectures") or ["none"])[0]
    if architecture not in ARCHITECTURES:
        raise ValueError(f"Unknown architecture for AutoModelForCausalLM: {architecture}")
    return configuration


def _weights(folder):
    """Returns (tensors, bytes) of the folder's shards from their headers; raises if a shard of the index is missing."""
    index = folder / "model.safetensors.index.json"
    named = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else set()
    shards = sorted(folder / name for name in named) or sorted(folder.glob("*.safetensors"))
    if not shards:
        raise FileNotFoundError(f"No safetensors weight files found in {folder}")
    counted = [_header(shard) for shard in shards]
    return sum(tensors for tensors, _ in counted), sum(size for _, size in counted)


def _header(shard):
    with shard.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    size = max(entry["data_offsets"][1] for entry in header.values())
    if shard.stat().st_size != 8 + length + size:
        raise OSError(f"{shard.name} has {shard.stat().st_size} bytes and its header describes {8 + length + size}")
    return len(header), size
