"""An LLM's own limits: sequence lengths, key/value cache, parallelism, and what this GPU's SM can do."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.catalog import GPU, GPUS
from deploy.errors import Refusal
from deploy.memory import TOKENS_PER_BLOCK, kv_heads, kv_tokens_useful
from deploy.refuse import model_at, refuse
from deploy.resolve import Served
from deploy.spec import LLM, Host, Server

QUANTISATION_SMS = {"": 80, "fp8": 89, "mxfp4": 90, "nvfp4": 100}
"""The first SM whose kernels TensorRT-LLM has for weights stored like this (gpt_oss README, 1.1 release notes)."""

FP8_SM = 89


def llm_problems(host: Host, server: Server, served: Served, model: LLM) -> Iterator[Refusal]:
    """Everything wrong with one LLM that needs no other model to see."""
    yield from _lengths(server, served, model)
    yield from _cache(server, served, model)
    yield from _features(server, served, model)
    yield from _parallel(server, served)
    gpu = GPUS.get(host.machine.gpu)
    if gpu:
        yield from _sm(server, served, model, gpu)


def _lengths(server: Server, served: Served, model: LLM) -> Iterator[Refusal]:
    if not 1 <= model.max_seq_len <= served.shape.positions:
        yield refuse(
            "beyond-positions",
            f"{model.name}: sequences of {model.max_seq_len} tokens are beyond its {served.shape.positions} positions",
            where=model_at(server.name, model.name, "max_seq_len"),
            seen=str(model.max_seq_len),
            wanted=f"1 to {served.shape.positions}, prompt and answer together",
            attempt=f"max_seq_len={served.shape.positions}",
        )
    if model.max_num_tokens < model.max_batch_size:
        yield refuse(
            "iteration-below-batch",
            f"{model.name}: {model.max_num_tokens} tokens an iteration cannot advance {model.max_batch_size} sequences",
            where=model_at(server.name, model.name, "max_num_tokens"),
            seen=str(model.max_num_tokens),
            wanted=f"at least max_batch_size, {model.max_batch_size}",
            attempt="max_num_tokens=8192",
        )
    if not model.chunked_prefill and model.max_num_tokens < model.max_seq_len <= served.shape.positions:
        longer = (
            "or chunked_prefill=True" if served.architecture.chunked_prefill else "this family has no chunked prefill"
        )
        yield refuse(
            "prompt-beyond-iteration",
            f"{model.name}: a prompt of {model.max_seq_len} tokens does not fit an iteration of {model.max_num_tokens}",
            where=model_at(server.name, model.name, "max_num_tokens"),
            seen=f"max_num_tokens={model.max_num_tokens}, max_seq_len={model.max_seq_len}, chunked_prefill=False",
            wanted=f"max_num_tokens of at least {model.max_seq_len}; {longer}",
            attempt=f"max_num_tokens={model.max_seq_len}",
        )


def _cache(server: Server, served: Served, model: LLM) -> Iterator[Refusal]:
    tokens, place = model.kv_cache.tokens, model_at(server.name, model.name, "kv_cache", "tokens")
    if tokens is None or model.max_seq_len < 1:
        return
    if tokens < model.max_seq_len:
        blocks = -(-model.max_seq_len // TOKENS_PER_BLOCK) * TOKENS_PER_BLOCK
        yield refuse(
            "cache-below-one-sequence",
            f"{model.name}: a cache of {tokens} tokens does not hold one sequence of {model.max_seq_len}",
            where=place,
            seen=str(tokens),
            wanted=f"at least max_seq_len, in blocks of {TOKENS_PER_BLOCK}: {blocks}",
            attempt=f"KVCache(tokens={blocks}), or a smaller max_seq_len",
        )
    useful = kv_tokens_useful(model.max_batch_size, model.max_seq_len)
    reuse = model.kv_cache.reuse if model.kv_cache.reuse is not None else served.architecture.block_reuse
    if tokens > useful and not reuse:
        yield refuse(
            "cache-beyond-context",
            f"{model.name}: {model.max_batch_size} sequences of {model.max_seq_len} tokens never fill {tokens}",
            where=place,
            seen=str(tokens),
            wanted=f"at most {useful}: max_batch_size x max_seq_len, as finished sequences are not kept",
            attempt=f"KVCache(tokens={useful}), or KVCache() for what is left up to that",
        )


def _features(server: Server, served: Served, model: LLM) -> Iterator[Refusal]:
    architecture = served.architecture
    asked = (
        ("kv_cache.reuse", model.kv_cache.reuse is True, architecture.block_reuse, "block reuse"),
        ("chunked_prefill", model.chunked_prefill, architecture.chunked_prefill, "chunked prefill"),
    )
    for field, wanted, supported, name in asked:
        if wanted and not supported:
            yield refuse(
                "unsupported-feature",
                f"{model.name}: TensorRT-LLM lists no {name} for {architecture.name}",
                where=model_at(server.name, model.name, field),
                seen="True",
                wanted="False",
                attempt=f"leave {field} out",
            )
    if model.moe_backend != "auto" and not served.shape.experts:
        yield refuse(
            "moe-backend-without-experts",
            f"{model.name} has no experts to choose a backend for",
            where=model_at(server.name, model.name, "moe_backend"),
            seen=repr(model.moe_backend),
            wanted='"auto"',
            attempt="leave moe_backend out",
        )


def _parallel(server: Server, served: Served) -> Iterator[Refusal]:
    ways = len(server.gpus)
    for count, what in ((served.shape.heads, "attention heads"), (kv_heads(served.shape), "key/value heads")):
        if ways > 1 and count % ways:
            fitting = [number for number in range(1, count + 1) if count % number == 0 and number <= 8]
            yield refuse(
                "uneven-split",
                f"{served.model.name}: {count} {what} do not split over {ways} GPUs",
                where=f'servers["{server.name}"].gpus',
                seen=f"{server.gpus}, so tensor parallel {ways}",
                wanted=f"{', '.join(str(number) for number in fitting)} GPUs",
                attempt=f"gpus={server.gpus[: max(number for number in fitting if number <= ways)]}",
            )
            return


def _sm(server: Server, served: Served, model: LLM, gpu: GPU) -> Iterator[Refusal]:
    stored, sm = served.shape.quantisation, int(gpu.sm)
    first = QUANTISATION_SMS[stored]
    if sm < first:
        yield refuse(
            "wrong-sm",
            f"{model.name}: {stored or '16-bit'} weights need SM {first}; this is SM {gpu.sm}",
            where=model_at(server.name, model.name, "checkpoint"),
            seen=f"{gpu.title}, SM {gpu.sm}",
            wanted=f"SM {first} or newer",
            attempt="another GPU, or a checkpoint whose weights are stored in 16 bit",
        )
    if model.kv_cache.dtype != "fp8":
        return
    hopper_gpt_oss = served.architecture.name == "GptOssForCausalLM" and sm < QUANTISATION_SMS["nvfp4"]
    if sm < FP8_SM or hopper_gpt_oss:
        why = "TensorRT-LLM lists it as unsupported for gpt-oss on Hopper" if hopper_gpt_oss else "it needs SM 89"
        yield refuse(
            "fp8-cache",
            f"{model.name}: no fp8 key/value cache on SM {gpu.sm}: {why}",
            where=model_at(server.name, model.name, "kv_cache", "dtype"),
            seen=f'"fp8" on {gpu.title}',
            wanted='"auto", which is 16 bit here',
            attempt="KVCache(), and half as many tokens",
        )
