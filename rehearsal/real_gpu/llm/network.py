"""An LLM that computes: transformers' continuous batching over a paged key/value cache (rehearsal stand-in).

The image of a machine with a real GPU has this file as `tensorrt_llm/network.py`, in place of the words of `llm.py`.
Weights, memory, batching, streaming and cancelling are real. Unlike TensorRT-LLM it has no special kernels and no CUDA
graphs, and each token is the likeliest one for every temperature, top_p and seed.
"""

import dataclasses
import json
import os
import sys
import time
from contextlib import closing
from pathlib import Path

import torch
import transformers
from transformers import ContinuousBatchingConfig, GenerationConfig

from .arguments import check
from .llm import Base, Output, RequestOutput, _checked, _configuration, _weights
from .network_loop import Loop
from .network_ranks import Ranks
from .network_text import Text
from .network_weights import network

ARCHITECTURES = {"LlamaForCausalLM"}
TOKENS_PER_BLOCK = 32  # TensorRT-LLM's default
MASK_BYTES = 1 << 28
"""Bytes of the attention mask, one tensor of tokens of a step x tokens of the cache; they limit the tokens of a step.

With four times as much, prompts that filled the cache took 35 GiB of work beside it (one H100, 2026-11-23).
"""
NEVER = -1


class LLM(Base):
    """An LLM with the arguments of tensorrt_llm.LLM; it loads every weight of the checkpoint onto the card."""

    computed_by = f"not TensorRT-LLM: transformers {transformers.__version__}, continuous batching"

    def __init__(self, *, ranks=None, **arguments):
        check(arguments)
        _require_supported(arguments)
        self.folder = Path(arguments["model"])
        self.configuration = _llama(self.folder)
        self.prepare(self.folder, arguments.get("max_seq_len") or self.configuration["max_position_embeddings"])
        self.tensors, self.weight_bytes = _weights(self.folder)
        cache = arguments["kv_cache_config"]
        self.block_size = cache.get("tokens_per_block") or TOKENS_PER_BLOCK
        self.blocks = cache["max_tokens"] // self.block_size
        if self.blocks * self.block_size < self.max_seq_len:
            raise RuntimeError(
                f"the key/value cache holds {cache['max_tokens']} tokens (kv_cache_config.max_tokens) and one sequence "
                f"needs up to {self.max_seq_len} (max_seq_len)"
            )
        self.ranks = ranks or Ranks(arguments.get("tensor_parallel_size", 1), arguments)
        self.model = network(self.folder, self.ranks.device, self.ranks.number, self.ranks.count)
        self.ranks.join(self.model)
        self.ends = _ends(self.folder, self.configuration)
        self.step_tokens = self._step_tokens(arguments.get("max_num_tokens") or 8192)
        self.step_requests = min(arguments.get("max_batch_size") or 2048, self.step_tokens)
        self.loop = Loop(self._manager(sharing=cache.get("enable_block_reuse", True)))
        if self.ranks.number == 0:
            self._prove()

    def _step_tokens(self, wanted):
        row_bytes = self.model.dtype.itemsize * (self.blocks * self.block_size + wanted)
        return max(1, min(wanted, MASK_BYTES // row_bytes))

    def _manager(self, sharing):
        known = {field.name for field in dataclasses.fields(ContinuousBatchingConfig)}
        wanted = {
            "num_blocks": self.blocks,
            "max_batch_tokens": self.step_tokens,
            "max_requests_per_batch": self.step_requests,
            "max_memory_percent": 1.0,  # of the free memory; the plan has counted the needed memory
            "allow_block_sharing": sharing,
            "safety_margin": 0.0,  # as in TensorRT-LLM, a prompt is admitted as soon as its blocks are free
            "use_cuda_graph": False,
            "use_async_batching": False,
            "return_logprobs": True,
        }
        if "page_size" in known:  # transformers 5.18 and later
            wanted |= {"page_size": self.block_size, "auto_switch_to_flash": False}
        else:
            wanted["block_size"] = self.block_size
            self.model.set_attn_implementation("paged|sdpa")
        return self.model.init_continuous_batching(
            generation_config=GenerationConfig(do_sample=False, eos_token_id=self.ends or NEVER),
            continuous_batching_config=ContinuousBatchingConfig(**wanted),
        )

    def _prove(self):
        """Generates a token before the model is reported as ready."""
        for result in self.loop.results([0], 1, lambda: False):
            if not result.generated_tokens:
                raise RuntimeError("the network was asked for a token and gave none")

    def describe(self):
        """Returns a line for the log."""
        card = torch.cuda.get_device_name() if self.model.device.type == "cuda" else "CPU"
        card += f" x {self.ranks.count}" if self.ranks.count > 1 else ""
        return (
            f"rehearsal stand-in, {self.computed_by} on {card}, always the likeliest token; "
            f"{self.configuration['architectures'][0]} from {self.folder}: {self.tensors} tensors, "
            f"{self.weight_bytes >> 20} MiB, max_seq_len {self.max_seq_len}, KV cache "
            f"{self.blocks * self.block_size} tokens in {self.blocks} blocks, a step takes {self.step_tokens} tokens "
            f"of {self.step_requests} requests"
        )

    def held_tokens(self):
        """Returns tokens that the cache holds for running requests."""
        return self.loop.held_tokens()

    def generate(self, prompt, sampling_params, use_tqdm=True):
        """Returns the complete answer to one prompt, with the tokens as they were generated."""
        *_, output = self.stream(prompt, **sampling_params.caller_values())
        return RequestOutput(prompt, [output])

    def shutdown(self):
        """Ends the loop, running requests with an error, and frees the memory of weights and cache."""
        self.loop.end()
        self.ranks.end()
        self.loop = self.model = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def stream(self, prompt, stopped=lambda: False, **sampling):
        """Yields an Output after every token, the last one with its finish reason: length, stop or cancelled."""
        most = _checked(sampling)
        ids = self.tokenizer.encode(prompt).ids
        self._require_room(len(ids), most)
        output = Output(times_ns={"arrival": time.time_ns()})
        text = Text(self.tokenizer, sampling.get("stop", []))
        with closing(self.loop.results(ids, most, stopped)) as results:
            for result in results:
                self._append(output, text, result)
                yield output
                if output.finish_reason:
                    return
        output.finish_reason, output.new_text = "cancelled", ""
        yield output

    def tokens(self, ids, stopped, params, seed):
        """Yields the ids of an answer until it ends or `stopped`, including the token that ends it."""
        self._require_room(len(ids), params.max_tokens)
        yielded = 0
        with closing(self.loop.results(ids, params.max_tokens, stopped)) as results:
            for result in results:
                yield from result.generated_tokens[yielded:]
                yielded = len(result.generated_tokens)

    def _require_room(self, used, most):
        if not used:
            raise ValueError("the prompt has no token")
        if used + most > self.max_seq_len:
            limit = f"max_seq_len ({self.max_seq_len})"
            raise ValueError(f"prompt length ({used}) plus max_tokens ({most}) should not exceed {limit}")
        # Transformers 5.17 takes one block more than a sequence fills, and its loop ends if the cache lacks that block.
        if (used + most) // self.block_size + 1 > self.blocks:
            raise ValueError(f"{used + most} tokens and a block of {self.block_size} do not fit the key/value cache")

    def _append(self, output, text, result):
        now = time.time_ns()
        scheduled = now - int((time.perf_counter() - result.lifespan[0]) * 1e9)
        output.times_ns.setdefault("first_scheduled", scheduled)
        output.times_ns.setdefault("first_token", now)
        output.times_ns["last_token"] = now
        fresh = result.generated_tokens[len(output.token_ids) :]
        output.token_ids = result.generated_tokens
        output.cumulative_logprob = sum(result.logprobs)
        output.new_text, output.stop_reason = text.add(fresh, result.is_finished())
        output.text += output.new_text
        if output.stop_reason or (result.is_finished() and output.token_ids[-1] in self.ends):
            output.finish_reason = "stop"
        elif result.is_finished():
            output.finish_reason = "length"


def _require_supported(arguments):
    if "model" not in arguments:
        raise ValueError("LLM() needs `model`")
    if arguments.get("backend", "pytorch") != "pytorch":
        raise ValueError(f"backend {arguments['backend']!r} is not in this stand-in; it rehearses `pytorch`")
    if arguments.get("pipeline_parallel_size", 1) != 1:
        raise ValueError("pipeline_parallel_size: this stand-in gives each GPU its part of every layer")
    cache = arguments.get("kv_cache_config") or {}
    if not cache.get("max_tokens"):
        raise ValueError("this stand-in needs kv_cache_config.max_tokens: its cache has the planned size")
    if cache.get("dtype", "auto") not in ("auto", "bfloat16"):
        raise ValueError(f"a key/value cache of {cache['dtype']} is not in this stand-in")


def _llama(folder):
    configuration = _configuration(folder)
    architecture = configuration["architectures"][0]
    if architecture not in ARCHITECTURES or "quantization_config" in configuration:
        raise ValueError(
            f"{architecture} as in {folder} is not in this stand-in: it computes LlamaForCausalLM in 16 bit"
        )
    return configuration


def _ends(folder, configuration):
    """Returns the tokens that end an answer."""
    generation = folder / "generation_config.json"
    settings = json.loads(generation.read_text()) if generation.exists() else {}
    ends = settings.get("eos_token_id", configuration.get("eos_token_id"))
    return ends if isinstance(ends, list) else [] if ends is None else [ends]


def main():
    """Runs a further rank (network_ranks.py), which computes its part until the first process ends."""
    number, folder = int(sys.argv[1]), sys.argv[2]
    arguments = json.loads(Path(folder, "arguments.json").read_text())
    llm = LLM(**arguments, ranks=Ranks(arguments["tensor_parallel_size"], arguments, number, folder))
    llm.loop.wait()
    os._exit(0)  # exits at once: destroying process groups would hang after the end of another process


if __name__ == "__main__":
    main()
