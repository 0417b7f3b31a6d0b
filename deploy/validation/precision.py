"""Judges the formats of weights and key/value cache: support by SM and path, and the needs of the conversion."""

from collections.abc import Iterator

from deploy.catalog import KV_FIRST_SM, PRECISIONS, STORED
from deploy.catalog.formats import FORMATS
from deploy.catalog.runtimes import TRITON
from deploy.models.budget import pages_context
from deploy.models.paths import has_engine
from deploy.models.resolve import precision_of
from deploy.refusals import Refusal
from deploy.validation.formats import offer_of_vllm
from deploy.validation.placed_llm import Placed
from deploy.validation.try_lines import engine_path, or_else

PLAIN = ("float16", "bfloat16")


def precision_problems(placed: Placed) -> Iterator[Refusal]:
    """A refusal for each mistake in the number formats of one LLM's weights and cache."""
    yield from _sm(placed)
    yield from _stored(placed)
    yield from _calibration(placed)
    yield from _cache_sm(placed)
    yield from _cache_path(placed)


def _sm(placed: Placed) -> Iterator[Refusal]:
    row, gpu = PRECISIONS[precision_of(placed.served)], placed.gpu
    if gpu is None or row.first_sm <= int(gpu.sm) <= row.last_sm:
        return
    kept = placed.model.precision == "auto"
    limit = f"SM {row.first_sm}" + (f" to {row.last_sm}" if row.first_sm < row.last_sm < 999 else "")
    instead = "fp8" if int(gpu.sm) >= 89 and row.name != "fp8" else "int4_awq"
    yield placed.no(
        "wrong-sm",
        f"{row.name} weights need {limit}; the GPU has SM {gpu.sm}",
        "checkpoint" if kept else "precision",
        seen=f"{gpu.title}, SM {gpu.sm}",
        wanted=f"{limit}{' or newer' if row.last_sm == 999 else ''}{': ' + row.why if row.why else ''}",
        attempt=or_else(_vllm_instead(placed), "another GPU, or a checkpoint whose weights are stored in 16 bit")
        if kept
        else f'precision="{instead}"',
    )


def _vllm_instead(placed: Placed) -> str:
    """vLLM, whose 16-bit kernels read stored FP8, MXFP4 and NVFP4 on older cards; "" for weights it does not read."""
    shape = placed.served.shape
    rows = [row for row in FORMATS.values() if row.name == (shape.format or shape.quantisation)]
    return offer_of_vllm(placed, rows[0]) if rows else ""


def _stored(placed: Placed) -> Iterator[Refusal]:
    model, stored = placed.model, placed.served.shape.quantisation
    row = PRECISIONS[precision_of(placed.served)]
    if row.stored and row.stored != stored:
        yield placed.no(
            "stored-only",
            f"this project serves {row.name} only from weights that were published as {row.name}",
            "precision",
            seen=f'precision="{row.name}", weights stored as {STORED[stored]}',
            wanted=f'a checkpoint published as {row.name}, declared with Checkpoint(…, quantisation="{row.stored}")',
            attempt="leave precision out"
            + ("" if stored else f"; or {engine_path(placed, precision='int4_awq')}: it is made from these weights"),
        )
    elif placed.is_engine and stored not in ("", "gptq") and model.engine.checkpoint == "hub":
        yield placed.no(
            "engine-of-quantised-weights",
            f"the convert scripts read plain weights, and these are stored as {STORED[stored]}",
            "checkpoint",
            seen=f'path="engine", quantisation="{stored}"',
            wanted="the unquantised checkpoint, which quantize.py converts to the declared precision",
            attempt='the plain checkpoint and precision="fp8", or path="pytorch", which reads these weights as '
            "they are",
        )
    elif not placed.is_engine and model.precision not in ("auto", STORED[stored], *(() if stored else PLAIN)):
        yield _pytorch_quantises_nothing(placed)


def _pytorch_quantises_nothing(placed: Placed) -> Refusal:
    precision = placed.model.precision
    published = f'a checkpoint published in {precision} (Checkpoint(…, quantisation="…")) and precision left out'
    return placed.no(
        "pytorch-quantises-nothing",
        "TensorRT-LLM's PyTorch backend serves weights as they are stored and quantises nothing while loading",
        "precision",
        seen=f'precision="{precision}", weights stored as {STORED[placed.served.shape.quantisation]}',
        wanted=published,
        attempt="leave precision out"
        + (f"; or {engine_path(placed, precision=precision)}" if _quantises(placed) else ""),
    )


def _quantises(placed: Placed) -> bool:
    """True if this release could make an engine from the model's weights, which are plain."""
    if placed.is_engine or placed.model.runtime != TRITON or placed.served.shape.quantisation:
        return False
    return has_engine(placed.served.architecture, placed.trtllm)


def needs_calibration(placed: Placed) -> bool:
    """True if quantize.py needs calibration texts for this model: for its weights, or for scales of its cache."""
    if not placed.is_engine or placed.model.engine.checkpoint == "trtllm" or placed.served.shape.quantisation:
        return False
    return PRECISIONS[precision_of(placed.served)].calibrated or placed.model.kv_cache.dtype in ("fp8", "int8")


def _calibration(placed: Placed) -> Iterator[Refusal]:
    model, needed = placed.model, needs_calibration(placed)
    cache = f", kv_cache.dtype={model.kv_cache.dtype!r}" if model.kv_cache.dtype in ("fp8", "int8") else ""
    if needed and (model.calibration is None or not model.calibration.directory):
        yield placed.no(
            "no-calibration",
            f"{precision_of(placed.served)} needs calibration, and quantize.py's own texts come from the model hub",
            "calibration",
            seen=f"calibration=None, precision={precision_of(placed.served)!r}{cache}",
            wanted="texts similar to your users' in a local directory: the build container has no network",
            attempt='calibration=Calibration(directory="calibration/cnn_dailymail", samples=512)',
        )
    elif model.calibration and not needed:
        yield placed.no(
            "calibration-unused",
            "Calibration(…) is read only when an engine is quantised, and this model is not",
            "calibration",
            seen=f"Calibration for path {placed.path}, precision={precision_of(placed.served)!r}",
            wanted="no calibration",
            attempt="leave calibration out"
            + (f"; or {engine_path(placed, precision='fp8')} to quantise it" if _quantises(placed) else ""),
        )


def _cache_sm(placed: Placed) -> Iterator[Refusal]:
    dtype, gpu = placed.model.kv_cache.dtype, placed.gpu
    if gpu is None:
        return
    gpt_oss = dtype == "fp8" and placed.served.architecture.name == "GptOssForCausalLM" and int(gpu.sm) < 100
    if int(gpu.sm) >= KV_FIRST_SM[dtype] and not gpt_oss:
        return
    why = "TensorRT-LLM lists as unsupported for gpt-oss on Hopper" if gpt_oss else f"needs SM {KV_FIRST_SM[dtype]}"
    yield placed.no(
        f"{dtype}-cache",
        f"SM {gpu.sm} cannot have an {dtype} key/value cache, which {why}",
        "kv_cache.dtype",
        seen=f'"{dtype}" on {gpu.title}',
        wanted='"auto", which is 16 bit here',
        attempt="KVCache(), and half as many tokens",
    )


def _cache_path(placed: Placed) -> Iterator[Refusal]:
    model, dtype = placed.model, placed.model.kv_cache.dtype
    if dtype == "int8" and not placed.is_engine:
        yield placed.no(
            "int8-cache-path",
            "the PyTorch backend has no int8 key/value cache",
            "kv_cache.dtype",
            seen=f'"int8" on path {placed.path}',
            wanted='"auto" or "fp8"; only the engine path has int8',
            attempt=or_else(
                'KVCache(dtype="fp8")' if placed.gpu and int(placed.gpu.sm) >= KV_FIRST_SM["fp8"] else "KVCache()",
                engine_path(placed) if _quantises(placed) else "",
            ),
        )
    elif placed.is_engine and not pages_context(placed.served):
        settings = [
            name for name, on in (("chunked_prefill", model.chunked_prefill), ("reuse", model.kv_cache.reuse)) if on
        ]
        if settings:
            yield placed.no(
                "cache-without-paged-context",
                f"{' and '.join(settings)} cannot work without paged context FMHA, which does not support this "
                f"{dtype} cache",
                "kv_cache.dtype",
                seen=f"{dtype!r} with precision={precision_of(placed.served)!r}, {', '.join(settings)}",
                wanted="a 16-bit cache, or an fp8 cache with per-tensor fp8 weights",
                attempt=f'KVCache(dtype="fp8") with precision="fp8", or leave {" and ".join(settings)} out',
            )
