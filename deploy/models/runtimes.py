"""The program that serves an LLM, the reasons against the other programs, and its start line beside Triton.

A runtime beside Triton is a separate container on the GPUs of its server. Its key/value cache has an absolute size,
which does not depend on memory that Triton's encoders take or free meanwhile. `RuntimeRow.knows` guards every flag.
"""

import re
from dataclasses import dataclass

from deploy.catalog import Architecture
from deploy.catalog.runtimes import READ_BY_IDS, SERVE, TRITON, VLLM, VLLM_ARCHITECTURES, RuntimeRow, row_of, rows_of
from deploy.models.budget import Share, reuses_blocks
from deploy.models.files import adapters_of, weights_of, weights_path
from deploy.models.memory import MIB
from deploy.models.paths import Choice, choose_path, has_pytorch
from deploy.models.resolve import Layout, Served
from deploy.models.settings import llm_settings
from deploy.slices.image import ImageSlice
from deploy.slices.runtime import RuntimeSlice
from deploy.spec import LLM, Model

IMAGE = re.compile(
    r"(?P<repository>[a-z0-9][\w.-]*(:[0-9]+)?(/[\w.-]+)*):(?P<tag>[\w.-]+)(@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
OF_THE_RELEASE = "@RELEASE@"
"""Stands for the release's directory in an argument; the start script puts it in."""
SETTINGS_FILE = "llm/settings.yaml"


@dataclass(frozen=True)
class Verdict:
    """A verdict on a program and an architecture: `serves`, and a line with the reason."""

    runtime: str
    serves: bool
    reason: str


def verdicts(architecture: Architecture, trtllm: str) -> tuple[Verdict, ...]:
    """A line for each program; `trtllm` is the TensorRT-LLM of the Triton image."""
    choice = choose_path("auto", architecture, trtllm)
    newest = rows_of(SERVE)[-1].version
    serve_verdict = Verdict(SERVE, has_pytorch(architecture, newest), _serve_reason(architecture, newest))
    if architecture.name in READ_BY_IDS:
        serve_verdict = Verdict(
            SERVE, False, "its answers have no ids of tokens, by which the gateway reads this model"
        )
    return (
        Verdict(TRITON, bool(choice.path), choice.reason),
        serve_verdict,
        Verdict(VLLM, architecture.name in VLLM_ARCHITECTURES, _vllm_reason(architecture)),
    )


def suggested(architecture: Architecture, trtllm: str) -> str:
    return next((verdict.runtime for verdict in verdicts(architecture, trtllm) if verdict.serves), "")


def runtime_instead(model: Model, architecture: Architecture, trtllm: str) -> str:
    """The program beside Triton that serves an LLM which Triton cannot serve; "" without such a program.

    Empty if the inventory requests a path, because Triton may serve the model on another path.
    """
    serving = [verdict.runtime for verdict in verdicts(architecture, trtllm)[1:] if verdict.serves]
    serving.sort(key=lambda runtime: "rc" in image_for(runtime, architecture))  # releases before candidates
    return next(iter(serving), "") if isinstance(model, LLM) and model.path == "auto" else ""


def image_for(runtime: str, architecture: Architecture) -> str:
    """The image of a runtime's oldest release that serves the architecture."""
    rows = [row for row in rows_of(runtime) if row.runtime == VLLM or has_pytorch(architecture, row.version)]
    return (rows or rows_of(runtime))[0].image


def path_of(model: Model, architecture: Architecture, trtllm: str) -> Choice:
    """The path of a model: in Triton, or the program beside it that the inventory names."""
    if not isinstance(model, LLM) or model.runtime == TRITON:
        return choose_path(model.path, architecture, trtllm)
    row = row_of_image(model)
    if model.runtime == VLLM:
        serves, reason = architecture.name in VLLM_ARCHITECTURES, _vllm_reason(architecture)
    else:
        version = row.version if row else rows_of(SERVE)[0].version
        serves, reason = has_pytorch(architecture, version), _serve_reason(architecture, version)
    if serves:
        return Choice(model.runtime, reason)
    instead = suggested(architecture, trtllm)
    attempt = f'runtime="{instead}"' if instead else "serve it with another project"
    return Choice("", reason, attempt, "runtime-lacks-model")


def _serve_reason(architecture: Architecture, version: str) -> str:
    if has_pytorch(architecture, version):
        return f"{architecture.name} runs on the PyTorch backend of TensorRT-LLM {version}"
    return f"the PyTorch backend of TensorRT-LLM {version} has no {architecture.name}"


def _vllm_reason(architecture: Architecture) -> str:
    version = rows_of(VLLM)[0].version
    has = "has" if architecture.name in VLLM_ARCHITECTURES else "has no"
    return f"vLLM {version} {has} {architecture.name}"


def row_of_image(model: LLM) -> RuntimeRow | None:
    """The row of the release in the tag of the model's image; None for an image without a known tag."""
    match = IMAGE.fullmatch(model.image)
    return row_of(model.runtime, match["tag"]) if match else None


def image_of_runtime(model: LLM, row: RuntimeRow) -> ImageSlice:
    """The image of a runtime in the plan; its text has been validated."""
    match = IMAGE.fullmatch(model.image)
    assert match, "a malformed image passed the checks"
    return ImageSlice(
        reference=f"{match['repository']}:{match['tag']}",
        digest=match["digest"] or "",
        triton_core="",
        trtllm=row.version if row.runtime == SERVE else "",
        cuda="",
        repairs=(),
        size_mib=row.size_mib,
    )


def runtime_slice(
    served: Served, share: Share, layout: Layout, total_mib: int, stop_seconds: int
) -> RuntimeSlice | None:
    """The program beside Triton for an LLM; None for a model that Triton serves."""
    model = served.model
    if not isinstance(model, LLM) or model.runtime == TRITON:
        return None
    row = row_of_image(model)
    assert row, "an unknown image passed the checks"
    arguments = _vllm(served, model, share, layout, total_mib, stop_seconds)
    configuration: dict[str, object] = {}
    if model.runtime == SERVE:
        arguments, configuration = _serve(served, model, layout, row), _serve_settings(served, model, share)
    return RuntimeSlice(
        name=model.runtime,
        version=row.version,
        port=model.port,
        image=image_of_runtime(model, row),
        program=row.program,
        arguments=known_only(arguments, row),
        configuration=configuration,
        metrics_path=row.metrics.path,
        answers_metric=row.metrics.answers,
        tokens_metric=row.metrics.generated_tokens,
    )


def known_only(arguments: tuple[str, ...], row: RuntimeRow) -> tuple[str, ...]:
    """The arguments unchanged. A flag that the release lacks is a defect of this module and ends the plan."""
    unknown = [word for word in arguments if word.startswith("--") and not row.knows(word)]
    assert not unknown, f"{row.runtime} {row.version} has no {', '.join(unknown)}"
    return arguments


def memory_fraction(share_mib: int, total_mib: int) -> str:
    """vLLM's share of a card in whole percent, rounded down.

    With an absolute cache vLLM only compares it with the free memory at its start (request_memory in
    v1/worker/utils.py, 0.26.0), so rounding down does not reduce the cache.
    """
    return f"{max(1, 100 * share_mib // max(total_mib, 1)) / 100:.2f}"


def _vllm(
    served: Served, model: LLM, share: Share, layout: Layout, total_mib: int, stop_seconds: int
) -> tuple[str, ...]:
    reuse = reuses_blocks(served)
    return (
        weights_path(weights_of(served)),
        *("--served-model-name", model.name, "--host", "0.0.0.0", "--port", str(model.port)),
        *("--tensor-parallel-size", str(layout.tensor)),
        *(("--pipeline-parallel-size", str(layout.pipeline)) if layout.pipeline > 1 else ()),
        *(("--enable-expert-parallel",) if layout.expert > 1 else ()),
        *_vllm_precision(model),
        *("--max-model-len", str(model.max_seq_len), "--max-num-seqs", str(model.max_batch_size)),
        *("--max-num-batched-tokens", str(model.max_num_tokens)),
        *("--kv-cache-dtype", "fp8" if model.kv_cache.dtype == "fp8" else "auto"),
        *("--kv-cache-memory-bytes", str(share.memory.kv_cache_mib * MIB)),
        *("--gpu-memory-utilization", memory_fraction(share.memory.total_mib, total_mib)),
        "--enable-prefix-caching" if reuse else "--no-enable-prefix-caching",
        *(("--enable-chunked-prefill",) if model.chunked_prefill else ()),
        *("--load-format", "safetensors", "--generation-config", "vllm"),
        *("--enable-prompt-tokens-details", "--no-enable-log-requests", "--disable-uvicorn-access-log"),
        *("--disable-fastapi-docs", "--shutdown-timeout", str(stop_seconds)),
        *_vllm_adapters(served, model),
    )


def _vllm_adapters(served: Served, model: LLM) -> tuple[str, ...]:
    """Adapters under the names by which the gateway requests them; all of them stay on the GPU."""
    if not model.lora:
        return ()
    count, files = str(len(model.lora.adapters)), adapters_of(served)
    named = [
        f"{adapter.name}={weights_path(weights)}" for adapter, weights in zip(model.lora.adapters, files, strict=True)
    ]
    return (
        *("--enable-lora", "--max-loras", count, "--max-cpu-loras", count),
        *("--max-lora-rank", str(model.lora.max_rank), "--lora-modules", *named),
    )


def _vllm_precision(model: LLM) -> tuple[str, ...]:
    if model.precision == "fp8":
        return ("--quantization", "fp8")
    return ("--dtype", model.precision) if model.precision in ("float16", "bfloat16") else ()


def _serve(served: Served, model: LLM, layout: Layout, row: RuntimeRow) -> tuple[str, ...]:
    return (
        weights_path(weights_of(served)),
        *("--host", "0.0.0.0", "--port", str(model.port), "--backend", "pytorch"),
        *("--tp_size", str(layout.tensor), "--pp_size", str(layout.pipeline)),
        *("--max_batch_size", str(model.max_batch_size), "--max_num_tokens", str(model.max_num_tokens)),
        *("--max_seq_len", str(model.max_seq_len), "--extra_llm_api_options", f"{OF_THE_RELEASE}/{SETTINGS_FILE}"),
        *(("--served_model_name", model.name) if row.knows("--served_model_name") else ()),
        *(("--no-telemetry",) if row.knows("--no-telemetry") else ()),
    )


def _serve_settings(served: Served, model: LLM, share: Share) -> dict[str, object]:
    """The YAML file: keys of TensorRT-LLM's LLM class as in Triton's model, and counters for Prometheus."""
    settings = llm_settings(served, model, share, weights_path(weights_of(served)))
    of_the_command = ("model", "backend", "triton_config", "max_batch_size", "max_num_tokens", "max_seq_len")
    kept = {key: value for key, value in settings.items() if key not in of_the_command}
    return kept | {"return_perf_metrics": True, "enable_iter_perf_stats": True}
