"""Finds the cause of a failed build in the end of its log, with a remedy for the operator.

The first row of CAUSES whose pattern is in the log decides. More specific rows come first.
"""

from __future__ import annotations

import re
from pathlib import Path

LAST_LINES = 20
GPU_MEMORY = (
    r"torch\.(cuda\.)?OutOfMemoryError|CUDA out of memory|Error Code 2: Out ?Of ?Memory|CUDA_ERROR_OUT_OF_MEMORY|"
    r"cudaErrorMemoryAllocation|Requested amount of GPU memory|CUDA error: out of memory"
)
CALIBRATION = (
    r"cnn_dailymail|Couldn't (find|reach)[^\n]*(dataset|hub|Hub)|LocalEntryNotFoundError|OfflineModeIsEnabled|"
    r"DatasetNotFoundError|datasets/load\.py"
)
# (pattern, cause, remedy); {0} is what the pattern's first group found.
CAUSES = [
    (
        GPU_MEMORY,
        "the GPU ran out of memory",
        "lower limits.max_num_tokens or limits.max_batch_size, stop what else uses the GPU, or spread the model over "
        "more GPUs (parallel.tensor)",
    ),
    (
        r"No space left on device|Errno 28|ENOSPC|Disk quota exceeded",
        "the disk is full",
        "free space under /var/lib/enginehouse (df -h), or declare a larger data disk; the plan says how many MiB",
    ),
    (
        r"unrecognized arguments?: ([^\n]*)",
        "the program in the image has no flag `{0}`",
        "take it out of the inventory, or choose a release that has it (enginehouse check '<the command>')",
    ),
    (
        r"invalid choice: ([^\n]*)|argument (--\S+: Invalid value [^\n]*)",
        "the program in the image does not accept the value {0}",
        "enginehouse check '<the command>' names the choices of this release",
    ),
    (
        r"no kernel image is available for execution|[Uu]nsupported (?:SM|GPU arch|compute capability)|"
        r"requires? (?:SM|compute capability) ?[\d.]+|not supported on (?:SM|sm_?)\s*\d+|FP8 is (?:not|un)supported|"
        r"Target GPU SM \d+ is not supported",
        "this GPU's SM cannot run the requested build",
        "choose a precision this GPU has (FP8 from SM 89, NVFP4 from SM 100), or a host with another GPU",
    ),
    (
        r"(?:[Uu]nsupported|[Uu]nknown|[Uu]nrecognized) (?:model )?(?:architecture|model type|model_type)"
        r"[^\n\w]*([\w.-]*)|KeyError: '(?:\w+For\w+)'|does not recognize this architecture",
        "this release has no engine for the checkpoint's architecture",
        "path='pytorch' for this model, or a release whose engine path supports it",
    ),
    (
        CALIBRATION,
        "the texts for calibration are missing: a build has no network, and the default texts come from a hub",
        "name a directory of the control machine with texts (Calibration), or a precision that needs none",
    ),
    (
        r"unresolvable CDI devices? ([^\s:]*)|failed to inject CDI|could not select device driver",
        "Docker does not know the requested GPU",
        "systemctl start nvidia-cdi-refresh.service, then nvidia-ctk cdi list on the host",
    ),
    (
        r"No such image: ([^\s]*)|Unable to find image",
        "the release's image is not on this host",
        "run deploy.py again: it pulls the image before it builds",
    ),
    (
        r"CUDA driver version is insufficient|cudaErrorInsufficientDriver|forward compatibility was attempted",
        "the driver is older than the image requires",
        "let the nvidia_driver role manage it, or pin a release this driver runs",
    ),
    (
        r"MPI_INIT failed|(?:opal|orte|ompi_mpi)_init failed|PML add procs failed",
        "MPI did not start inside the container",
        "build.log names the device; UCX and mlx5 are InfiniBand devices, which the container does not have "
        "(TensorRT-LLM#3112)",
    ),
    (
        r"[Bb]us error",
        "shared memory was too small for the ranks of this build",
        "raise shm_mib of the server; NCCL and MPI talk through it",
    ),
    (
        r"MemoryError|std::bad_alloc|Cannot allocate memory",
        "the host ran out of memory",
        "a host with more memory, or fewer `--workers`: each loads its rank's weights",
    ),
    (
        r"FileNotFoundError: [^\n]*'([^'\n]+)'|can't open file '([^'\n]+)'",
        "the build looked for {0}, which is not in the container",
        "enginehouse plan --json prints the commands; only the weights and the calibration texts are mounted",
    ),
]
KILLED = "the host ran out of memory: the kernel killed the build"
ENDED = "the build was killed by another process, or by the kernel because the host ran out of memory"
MORE = "a host with more memory, or fewer `--workers`: each loads its rank's weights"
UNKNOWN = "its cause is unknown; the log's last lines follow"
READ = "read build.log on the host; the commands are in `enginehouse plan --json`"


def cause_of(exit_status: int, log: str, oom_kills: int = 0) -> tuple[str, str]:
    """Cause and remedy. `oom_kills`: number of processes that the kernel killed meanwhile for lack of memory."""
    if exit_status == 137:
        return (KILLED if oom_kills else ENDED), MORE
    for pattern, cause, remedy in CAUSES:
        if match := re.search(pattern, log):
            named = next((group for group in match.groups() if group), "")
            return cause.format(named.strip()), remedy
    return f"it ended with status {exit_status}; {UNKNOWN}", READ


def oom_kills(table: Path = Path("/proc/vmstat")) -> int:
    """Number of processes that this kernel has killed for lack of memory since it started."""
    try:
        rows = dict(line.split() for line in table.read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return int(rows.get("oom_kill", 0))


def last_lines(log: str, count: int = LAST_LINES) -> list[str]:
    """The end of a log, without blank lines and progress bars that overwrote themselves."""
    lines = [line.rsplit("\r", 1)[-1].rstrip() for line in log.replace("\r\n", "\n").split("\n")]
    return [line[:300] for line in lines if line.strip()][-count:]
