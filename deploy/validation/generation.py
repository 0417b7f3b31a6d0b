"""An LLM's own limits: sequence lengths, key/value cache in tokens, features of its family.

Other modules judge its precision, split, speculation and compilation.
"""

from collections.abc import Iterator

from deploy.catalog.number_ranges import RANGES
from deploy.catalog.runtimes import TRITON, VLLM
from deploy.models.memory import TOKENS_PER_BLOCK, kv_tokens_useful
from deploy.models.resolve import Served
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import LLM, Host, Server
from deploy.validation.engine_flags import flag_problems
from deploy.validation.engine_limits import engine_problems
from deploy.validation.formats import format_problems
from deploy.validation.lora import lora_problems
from deploy.validation.parallel import parallel_problems
from deploy.validation.placed_llm import Placed
from deploy.validation.precision import precision_problems
from deploy.validation.runtimes import runtime_problems
from deploy.validation.speculation import speculation_problems


def llm_problems(host: Host, server: Server, served: Served, model: LLM) -> Iterator[Refusal]:
    """A refusal for each mistake in one LLM that does not depend on its neighbours."""
    yield from _lengths(server, served, model)
    yield from _cache(server, served, model)
    if model.runtime != VLLM:
        yield from _features(server, served, model)
    placed = Placed.of(host, server, served, model)
    if not placed.path:  # refused already; without a path its further checks make no sense
        return
    if model.runtime != TRITON:
        runtime = list(runtime_problems(placed))
        yield from runtime or format_problems(placed)
        return
    checks = (parallel_problems, precision_problems, speculation_problems, lora_problems, engine_problems)
    formats = list(format_problems(placed))
    refusals = formats or [problem for problems in checks for problem in problems(placed)]
    yield from refusals or flag_problems(placed)  # commands are written last, for models without other mistakes


def _lengths(server: Server, served: Served, model: LLM) -> Iterator[Refusal]:
    if not 1 <= model.max_seq_len <= served.shape.positions:
        yield refuse(
            "beyond-positions",
            f"{model.name}: sequences of {model.max_seq_len} tokens exceed its {served.shape.positions} positions",
            where=model_at(server.name, model.name, "max_seq_len"),
            seen=str(model.max_seq_len),
            wanted=f"1 to {served.shape.positions}, prompt and answer together",
            attempt=f"max_seq_len={served.shape.positions}",
        )
    if model.max_num_tokens < model.max_batch_size and RANGES["LLM"]["max_batch_size"].takes(model.max_batch_size):
        yield refuse(
            "iteration-below-batch",
            f"{model.name}: {model.max_num_tokens} tokens an iteration are fewer than its {model.max_batch_size} "
            "sequences",
            where=model_at(server.name, model.name, "max_num_tokens"),
            seen=str(model.max_num_tokens),
            wanted=f"at least max_batch_size, {model.max_batch_size}",
            attempt=f"max_num_tokens={max(8192, model.max_batch_size)}",
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
    settings = (
        ("kv_cache.reuse", model.kv_cache.reuse is True, architecture.block_reuse, "block reuse"),
        ("chunked_prefill", model.chunked_prefill, architecture.chunked_prefill, "chunked prefill"),
    )
    for field, wanted, supported, name in settings:
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
            f"{model.name} has no experts, so moe_backend has no effect",
            where=model_at(server.name, model.name, "moe_backend"),
            seen=repr(model.moe_backend),
            wanted='"auto"',
            attempt="leave moe_backend out",
        )
