"""The rows of four public guides' troubleshooting tables, and the finding for each; data.

Read 2026-11-22: three models on one H100 (6 rows), a pipeline for H200 and B200 (4), TensorRT-LLM in production (12).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OUT_OF_MEMORY = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


@dataclass(frozen=True)
class Row:
    """A symptom, and its finding: by a line of a log, by a host's answers, or `elsewhere`."""

    symptom: str
    finds: tuple[str, ...] = ()
    log: str = ""
    """A line that a server or a build of the host logs."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """The host's answers to the doctor, for faults that no log shows."""
    elsewhere: str = ""
    """The place that names it if no finding can; no host is broken then."""


def _units(state: str) -> dict[str, str]:
    return {"units": f"Id=triton@main.service\nLoadState=loaded\nActiveState={state}\nResult=success\nNRestarts=0"}


def _metric(which: str, value: str) -> dict[str, str]:
    return {"metrics": f'main nv_trt_llm_metrics{{kv_cache_block_type="{which}",model="llm",version="1"}} {value}'}


ROWS = (
    Row("the server runs out of GPU memory", ("cause-memory",), OUT_OF_MEMORY),
    Row("an engine's file is not there", ("cause-engine",), "Error opening engine file: /engines/rank0.engine"),
    Row("an engine is of another kind of GPU", ("cause-gpu",), "unsupported SM version"),
    Row("a Python model cannot import", ("cause-module",), "ModuleNotFoundError: No module named 'transformers'"),
    Row("the image has no Triton", ("cause-image",), "bash: tritonserver: not found"),
    Row("slow answers at the 99th percentile, the cache evicts", ("cache-full",), answers=_metric("fraction", "0.98")),
    Row("a build runs out of GPU memory", ("cause-memory",), "[TRT] Engine build failed. Out of GPU memory."),
    Row("the LLM runs out of GPU memory while it serves", ("cause-memory",), OUT_OF_MEMORY),
    Row("a kernel does not start", ("cause-gpu",), "CudaException(cuLaunchKernel) failed: invalid device function"),
    Row(
        "engines are built again and again, for another TensorRT",
        ("cause-version",),
        "The engine plan file is not compatible with this version of TensorRT, expecting library version 10.11",
    ),
    Row("an engine does not load after a new driver", ("cause-version",), "Plugin not found"),
    Row("the first request runs out of GPU memory", ("cause-memory",), OUT_OF_MEMORY),
    Row(
        "several GPUs hang at the start",
        ("cause-nccl",),
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Ubz",
    ),
    Row("the first token is slow after a start", ("unit-starting",), answers=_units("activating")),
    Row(
        "an FP8 engine answers worse than its checkpoint",
        elsewhere="`pyinfra INVENTORY build.py` asks a new engine, and does not sign one that answers differently",
    ),
    Row("requests are paused all the time", ("cache-full",), answers=_metric("paused_requests", "4")),
    Row(
        "the first token waits for other prompts",
        elsewhere="the alert on the first token; `chunked_prefill=True` of the LLM lets others in between",
    ),
    Row(
        "a new TensorRT-LLM is slower",
        elsewhere="`benchmarks/`, or the fleet's own gate: it stops a rollout whose hosts answer more slowly",
    ),
    Row("EAGLE is slower than no speculation", elsewhere="`benchmarks/`: nothing is wrong on a host"),
    Row(
        "several nodes never come to a steady state",
        elsewhere="`enginehouse plan`: Triton never spans hosts; vLLM and trtllm-serve do, by `Parallel(hosts=…)`",
    ),
    Row(
        "adapters are slow to begin",
        elsewhere="the latency metrics; `LoRA(max_rank=…, gpu_mib=…)` of the LLM is what there is to turn",
    ),
    Row(
        "an engine does not load on another card",
        ("cause-gpu",),
        "no kernel image is available for execution on the device",
    ),
)

ON_MACHINES = {
    "nothing-deployed": "test_bare",
    "run-at-work": "test_crashes",
    "swap-refused": "test_crashes",
    "release-differs": "test_crashes",
    "docker-down": "test_traffic",
    "unit-failed": "test_traffic",
}
"""Further findings that a test of tests/faults sees on a machine without a fault of the table."""
