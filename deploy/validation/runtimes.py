"""LLMs that a program beside Triton serves: the image, the program's settings, the gateway before it.

A wrong image is then the only refusal: without a release no other setting can be judged.
"""

from collections.abc import Iterator
from dataclasses import fields

from deploy.catalog.runtimes import SERVE, TRITON, VLLM, rows_of
from deploy.models.resolve import Served, image_of, parsers_of, release_row
from deploy.models.runtimes import IMAGE, path_of, row_of_image, runtime_instead
from deploy.refusals import Refusal, model_at, refuse, server_at
from deploy.spec import LLM, Host, KVCache, Server
from deploy.validation.gateway import gateway_beside
from deploy.validation.lora import adapter_problems
from deploy.validation.parallel import parallel_problems
from deploy.validation.placed_llm import Placed
from deploy.validation.precision import precision_problems
from deploy.validation.replay import replay_problems
from deploy.validation.try_lines import beside_triton, on_triton, or_else

DEFAULTS = {field.name: field.default for field in fields(LLM)}
OF_TRITON = (
    *("path", "speculative", "calibration", "engine", "decoupled"),
    *("max_queue_size", "cancellation_check_period_ms"),
)
"""Fields that only models of Triton have."""
OF_TENSORRT_LLM = ("moe_backend", "scheduler")
OF_OTHERS = {VLLM: (*OF_TRITON, *OF_TENSORRT_LLM), SERVE: (*OF_TRITON, "lora")}
"""Fields that a program does not support. Completions of trtllm-serve name no adapter."""
RANKS = (1, 8, 16, 32, 64, 128, 256)
"""Highest ranks that vLLM 0.26.0 takes, among the ranks that any runtime here serves."""
VLLM_PRECISIONS = ("auto", "float16", "bfloat16", "fp8")


def beside_problems(server: Server, host: Host) -> Iterator[Refusal]:
    """A refusal for each mistake in a server's program beside Triton."""
    beside = [model for model in server.models if isinstance(model, LLM) and model.runtime != TRITON]
    for model in server.models:
        if isinstance(model, LLM) and model.runtime == TRITON and (model.image or model.port != DEFAULTS["port"]):
            yield refuse(
                "image-of-triton-model",
                f"{model.name}: a model that Triton serves takes no image and no port",
                where=model_at(server.name, model.name, "image" if model.image else "port"),
                seen=f"image={model.image!r}, port={model.port}, runtime={model.runtime!r}",
                wanted="both left out, or a runtime beside Triton",
                attempt="leave image and port out" + _or_vllm(model, host),
            )
    if len(beside) > 1:
        yield refuse(
            "two-runtimes",
            f"server {server.name} has {len(beside)} LLMs with their own program beside Triton; a server may have one",
            where=server_at(server.name, "models"),
            seen=", ".join(f"{model.name} ({model.runtime})" for model in beside),
            wanted="one LLM with its own program, which takes the memory that the others leave",
            attempt=f'a second Server(name="{server.name}-2", gpus=(…)) for {beside[1].name}',
        )
    if beside and host.gateway is None:
        yield refuse(
            "runtime-without-gateway",
            f"{beside[0].name}: clients could not reach it: {beside[0].runtime} listens on loopback and asks for "
            "no key",
            where=model_at(server.name, beside[0].name, "runtime"),
            seen=f'runtime="{beside[0].runtime}" and no gateway on this host',
            wanted="a gateway on this host, to which clients connect",
            attempt=f'"gateway": {gateway_beside(host)} in the data of the host',
        )


def _or_vllm(model: LLM, host: Host) -> str:
    """The advice to use vLLM instead; empty if the model has fields that vLLM lacks."""
    if any(getattr(model, name) != DEFAULTS[name] for name in OF_OTHERS[VLLM]):
        return ""
    return f'; or runtime="{VLLM}"' + ("" if host.gateway else ', "gateway": Gateway()')


def path_problems(host: Host, server: Server, served: Served) -> Iterator[Refusal]:
    """A refusal for a model that neither Triton on the requested path nor the requested program can serve."""
    row = release_row(host.release)
    if row is None or not row.offered:
        return
    image = image_of(host, row)
    choice = path_of(served.model, served.architecture, image.trtllm)
    if not choice.path and isinstance(served.model, LLM) and served.model.runtime != TRITON:
        yield refuse(
            choice.kind,
            f"{served.model.name}: {choice.reason}",
            where=model_at(server.name, served.model.name, "runtime"),
            seen=f'runtime="{served.model.runtime}", {served.architecture.name}',
            wanted="a program that serves this architecture",
            attempt=choice.attempt,
        )
    elif not choice.path:
        release = host.release if isinstance(host.release, str) else host.release.name
        instead = runtime_instead(served.model, served.architecture, image.trtllm)
        yield refuse(
            choice.kind,
            f"{served.model.name}: {choice.reason}",
            where=model_at(server.name, served.model.name, "path"),
            seen=f'path="{served.model.path}", release {release} with TensorRT-LLM {image.trtllm or "(none)"}',
            wanted="a path this architecture and this release both have",
            attempt=or_else(choice.attempt, beside_triton(instead, served.architecture, host)),
        )


def runtime_notices(host: Host) -> Iterator[str]:
    for server in host.servers:
        for model in server.standalone_llms:
            match = IMAGE.fullmatch(model.image)
            if match and not match["digest"]:
                yield (
                    f"the image of {model.name} is not pinned: `enginehouse pin INVENTORY` asks the registry and "
                    "writes its digest"
                )


def runtime_problems(placed: Placed) -> Iterator[Refusal]:
    """A refusal for each mistake in one LLM with a runtime beside Triton."""
    wrong_image = list(_image(placed))
    if wrong_image:
        yield from wrong_image
        return
    yield from _fields(placed)
    yield from _cache(placed)
    yield from _answers(placed)
    yield from parallel_problems(placed)
    yield from replay_problems(placed)
    if placed.model.runtime == SERVE:
        yield from precision_problems(placed)
    else:
        yield from _vllm_only(placed)
        yield from _adapters(placed)


def _image(placed: Placed) -> Iterator[Refusal]:
    model, rows = placed.model, rows_of(placed.model.runtime)
    match = IMAGE.fullmatch(model.image)
    releases = ", ".join(row.version for row in rows)
    if match is None:
        yield placed.no(
            "runtime-image",
            f"{model.runtime} needs its own image, and `image` does not name one of {model.runtime}",
            "image",
            seen=repr(model.image),
            wanted=f"name:tag or name:tag@sha256:…, the tag a release of {model.runtime} in the catalog: {releases}",
            attempt=f'image="{rows[0].image}", then `enginehouse pin INVENTORY`',
        )
    elif row_of_image(model) is None:
        yield placed.no(
            "unknown-runtime-release",
            f"the flags of {model.runtime} {match['tag']} are not in the catalog",
            "image",
            seen=repr(model.image),
            wanted=f"a tag of {releases}, with a suffix of your own if you built it",
            attempt=f'image="{rows[0].image}"',
        )


def _fields(placed: Placed) -> Iterator[Refusal]:
    model = placed.model
    for name in OF_OTHERS[model.runtime]:
        value = getattr(model, name)
        if value != DEFAULTS[name]:
            shown = repr(value) if isinstance(value, (str, int, float)) else f"{type(value).__name__}(…)"
            whose = "TensorRT-LLM alone" if name in OF_TENSORRT_LLM else "another runtime"
            yield placed.no(
                "field-of-another-runtime",
                f"`{name}` has no effect with {model.runtime}: it is a setting of {whose}",
                name,
                seen=f'{name}={shown}, runtime="{model.runtime}"',
                wanted=f"{name} left out",
                attempt=or_else(f"leave {name} out", on_triton(placed)),
            )


def _answers(placed: Placed) -> Iterator[Refusal]:
    """A refusal of gpt-oss on trtllm-serve, because the gateway needs token ids to parse the answers, and trtllm-serve
    returns no ids."""
    tool_parser, _ = parsers_of(placed.model)
    if placed.model.runtime == SERVE and tool_parser == "harmony":
        yield placed.no(
            "answers-without-ids",
            f"the gateway needs the token ids of answers of {placed.served.architecture.name}",
            "runtime",
            seen=f'runtime="{SERVE}", whose answers have no ids',
            wanted="a runtime whose answers have token ids",
            attempt=or_else(beside_triton(VLLM, placed.served.architecture, placed.host), on_triton(placed)),
        )


def _cache(placed: Placed) -> Iterator[Refusal]:
    cache: KVCache = placed.model.kv_cache
    if cache.dtype not in ("auto", "fp8"):
        yield placed.no(
            "cache-of-another-runtime",
            f"{placed.model.runtime} does not support a key/value cache of {cache.dtype} here",
            "kv_cache.dtype",
            seen=repr(cache.dtype),
            wanted='"auto", or "fp8" from SM 89 on',
            attempt="KVCache(), without dtype",
        )
    if cache.host_mib > 0 and placed.model.runtime == VLLM:
        yield placed.no(
            "cache-of-another-runtime",
            "blocks of vLLM's cache are not offloaded to host memory here",
            "kv_cache.host_mib",
            seen=str(cache.host_mib),
            wanted="0",
            attempt="leave host_mib out",
        )


def _adapters(placed: Placed) -> Iterator[Refusal]:
    """A refusal for each mistake in adapters; their own adapter_config.json names their modules."""
    lora = placed.model.lora
    if lora is None:
        return
    yield from adapter_problems(placed, lora)
    if lora.max_rank not in RANKS:
        yield placed.no(
            "rank-of-another-runtime",
            f"vLLM does not accept max_rank={lora.max_rank}",
            "lora.max_rank",
            seen=str(lora.max_rank),
            wanted=f"one of {', '.join(map(str, RANKS))}, and at least that of every adapter",
            attempt=f"max_rank={next((rank for rank in RANKS if rank >= lora.max_rank), RANKS[-1])}",
        )


def _vllm_only(placed: Placed) -> Iterator[Refusal]:
    model, stored = placed.model, placed.served.shape.quantisation
    known = VLLM_PRECISIONS if not stored else ("auto",)
    if model.precision not in known:
        yield placed.no(
            "precision-of-another-runtime",
            f"vLLM cannot quantise these weights to {model.precision}",
            "precision",
            seen=f'precision="{model.precision}", weights stored as {stored or "16 bit"}',
            wanted=" or ".join(f'"{name}"' for name in known),
            attempt="leave precision out",
        )
    if model.kv_cache.dtype == "fp8" and placed.gpu and int(placed.gpu.sm) < 89:
        yield placed.no(
            "fp8-cache",
            f"SM {placed.gpu.sm} cannot have an fp8 key/value cache, which needs SM 89",
            "kv_cache.dtype",
            seen=f'"fp8" on {placed.gpu.title}',
            wanted='"auto", which is 16 bit here',
            attempt="KVCache(), and half as many tokens",
        )
    if model.parallel.expert > 1 and model.parallel.expert != placed.layout.tensor:
        yield placed.no(
            "field-of-another-runtime",
            "vLLM either gives each GPU whole experts, or splits every expert over all GPUs",
            "parallel.expert",
            seen=f"expert={model.parallel.expert}, tensor={placed.layout.tensor}",
            wanted=f"{placed.layout.tensor}, or 0",
            attempt="leave expert out",
        )
