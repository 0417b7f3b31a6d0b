"""Fixed phrases of the logs of servers and builds, as extended regular expressions for grep, by their finding.

Sources, in part read in stored copies on 2026-11-27, in part known from reports: TensorRT-LLM (cudaUtils,
kvCacheManager, worldConfig, executorImpl, runtime/generation.py), Triton core and its Python backend, TensorRT's error
texts, NCCL's result strings, CUDA's names of errors, Docker, nvidia-container-toolkit, and threads that quote them.
The first phrases are of 2026-11-23.

A phrase holds no word of a prompt: what varies in it is bounded to signs of a path, a number or a name. The sign for
"greater" is written as a part of a range, so that a test can see that no question of the doctor redirects.
"""

from __future__ import annotations

from collections.abc import Mapping

_NAME = "[A-Za-z0-9_.-]{1,60}"
_CALL = r"\([A-Za-z0-9_:.,&()*=-? -]{0,120}\)"

WITHOUT_CUDA = r"(pinned_memory_manager|ensemble_scheduler)\.cc"
"""Lines of a Triton that serves on without CUDA, as on a host of embedders that has no GPU; models that need it say so.

Seen on 2026-11-27 in the journal of a server on a CPU, and in no log of one with a driver that works. DCGM, inside such a
Triton, says "Failed to initialize NVML" without the colon that nvidia-smi puts before its reason.
"""

PHRASES: Mapping[str, tuple[str, ...]] = {
    "cause-cache": (
        "must be large enough to process at least 1 sequence",
        "Impossible to fit in any sequence in kvCache",
        "No available memory for the cache blocks",
        "max seq len [0-9]{1,9} is larger than the maximum number of tokens that can be stored in KV cache",
    ),
    "cause-ranks": (
        r"mpiSize == tp \* pp",
        r"MPI worldSize is expected to be equal to tp\*pp(\*cp)?",
        r"Engine world size \([0-9]{1,5}\) != Runtime world size \([0-9]{1,5}\)",
        r"MPI size \([0-9]{1,5}\) ?!= TP size",
        "invalid device ordinal",
        "CUDA_ERROR_INVALID_DEVICE",
        "There are not enough slots available in the system",
        "[Rr]ank [0-9]{1,4} is out of range of the engine",
    ),
    "cause-memory": (
        "CUDA out of memory",
        "OutOfMemoryError",
        "Out of GPU memory",
        "CUDA error: out of memory",
        f"(::)?cuda[A-Za-z]{{1,40}}{_CALL}: out of memory",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "cudaErrorMemoryAllocation",
        r"Cuda Runtime \(out of memory\)",
        r"OutOfMemory \(Requested size was [0-9]{1,20} bytes",
        "Requested amount of GPU memory",
        "CNMEM_STATUS_OUT_OF_MEMORY",
        "(CUBLAS|CUDNN|CUSOLVER)_STATUS_ALLOC_FAILED",
        "Cuda failure ([0-9]{1,4} )?'out of memory'",
        "insufficient GPU memory",
        "Error Code:? 2: OutOfMemory",
        r"Cuda Error in [a-z]{1,20}: 2 \(out of memory\)",
        r"[Cc]uda[A-Za-z ]{0,30}[(:] ?out of memory",
    ),
    "cause-engine": (
        "Error opening engine file",
        "engine file not found",
        "[Ee]ngine directory does not exist",
        r"json\.exception\.parse_error\.101",
        r"rank[0-9]{1,4}\.engine'? does not exist",
    ),
    "cause-gpu": (
        "invalid device function",
        "no kernel image is available for execution on the device",
        "unsupported SM version",
        "engine plan file is generated on an incompatible device",
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        "cudaErrorNoKernelImageForDevice",
        "is not compatible with the current PyTorch installation",
        "[Uu]nsupported (GPU )?architecture",
        "is not supported on SM ?[0-9]{2,3}",
    ),
    "cause-version": (
        "not compatible with this version of TensorRT",
        "could not find plugin",
        "Plugin not found",
        "stdVersionRead == (kSERIALIZATION_VERSION|serializationVersion)",
        "Version tag does not match",
        "Failed to deserialize cuda engine",
        r"sizeof\(T\) <= remaining_buffer_size",
        "key '[a-z_]{1,40}' not found",
        "getPluginCreator could not find",
        "Cannot deserialize plugin",
    ),
    "cause-module": (
        "No module named '[A-Za-z0-9_.]{1,60}'",
        "cannot import name '[A-Za-z0-9_.]{1,60}'",
        "undefined symbol: [A-Za-z0-9_]{1,60}",
    ),
    "cause-image": (
        "tritonserver: (command )?not found",
        '"tritonserver": executable file not found',
        "unable to find backend library for backend '[A-Za-z0-9_]{1,40}'",
        "exec format error",
    ),
    "cause-shm": (
        "Bus error",
        "Failed to increase the shared memory pool size",
        "Unable to create shared memory region",
        r"boost::interprocess::[a-z_]{1,40}",
        "unable to (open|mmap|write to) (shared memory object|file)",
    ),
    "cause-nccl": (
        "Error while creating shared memory segment",
        "nccl(SystemError|UnhandledCudaError|InternalError|InvalidUsage|InvalidArgument|RemoteError)",
        "[Uu]nhandled (system|cuda) error",
        "NCCL WARN (Cuda failure|Call to [a-z_]{1,20}|Bootstrap)",
        "Watchdog caught collective operation timeout",
        f"NCCL error:? ({_NAME}(:[0-9]{{1,6}})? )?'?(internal|unhandled|remote|system|invalid) [a-z]{{1,10}}",
    ),
    "cause-mpi": (
        "It looks like MPI_INIT failed",
        "MPI_Init_thread",
        "PMIX ERROR",
        "MPI_ABORT was invoked",
        "Failed: MPI error",
        "MPI_ERR_[A-Z]{1,20}",
    ),
    "cause-host-memory": (
        "std::bad_alloc",
        "Cannot allocate memory",
        "DefaultCPUAllocator: (can't|not enough)",
        "killed by the OOM killer",
        "result 'oom-kill'",
        "cudaErrorHostMemory[A-Za-z]{1,20}",
    ),
    "cause-fabric": (
        "system not yet initialized",
        "CUDA_ERROR_SYSTEM_NOT_READY",
        "cudaErrorSystemNotReady",
    ),
    "cause-driver": (
        "driver version is insufficient for CUDA runtime version",
        "forward compatibility was attempted on non supported HW",
        "The NVIDIA driver on your system is too old",
        "unsatisfied condition: cuda[=-?]{1,2}[0-9.]{1,8}",
        "This container was built for NVIDIA Driver Release",
        "unsupported display driver / cuda driver combination",
        "PTX was compiled with an unsupported toolchain",
        "CUDA_ERROR_(UNSUPPORTED_PTX_VERSION|COMPAT_NOT_SUPPORTED_ON_DEVICE|SYSTEM_DRIVER_MISMATCH)",
        "[Dd]river/library version mismatch",
    ),
    "cause-no-gpu": (
        "could not select device driver",
        "unknown or invalid runtime name",
        "unresolvable CDI devices",
        "Failed to initialize NVML: ",
        "no CUDA-capable device is detected",
        "CUDA_ERROR_NO_DEVICE",
        "NVIDIA Driver was not detected",
        "No CUDA GPUs are available",
        f"nvidia-container-cli[a-z.]{{0,5}}: ({_NAME} )?(initialization|device|mount|ldcache|driver|container) error",
        '"?nvidia-container-runtime(-hook)?"?: (executable file not found|no such file)',
        r"lib(cuda|nvidia-ml)\.so\.1: cannot open shared object file",
        "Unknown runtime specified nvidia",
        "invoking the NVIDIA Container Runtime Hook directly",
        "failed to (stat|inject) CDI (host )?devices?",
    ),
    "cause-gpu-fault": (
        "an illegal memory access was encountered",
        "uncorrectable ECC error encountered",
        "unspecified launch failure",
        "device-side assert triggered",
        "misaligned address",
        "CUDA_ERROR_(ILLEGAL_ADDRESS|ECC_UNCORRECTABLE|LAUNCH_FAILED|UNKNOWN)",
        "CUBLAS_STATUS_(EXECUTION_FAILED|INTERNAL_ERROR)",
        "GPU is lost",
        "cuda(ErrorIllegalAddress|ErrorECCUncorrectable|ErrorLaunchFailure)",
    ),
    "cause-files": (
        "at least one version must be available under the version policy",
        "does not appear to have a file named",
        "is not a local folder and is not a valid model identifier",
        "Can't load tokenizer for",
        "Error no file named",
        "unable to find '[A-Za-z0-9_./-]{1,120}' for model",
        "Couldn't instantiate the backend tokenizer",
        "Error while deserializing header",
        "Incorrect path_or_model_id",
        r"No such file or directory: '[A-Za-z0-9_./-]{1,120}'",
        "model.py does not exist",
        "model repository path is not a directory",
        "Python model file not found in '[A-Za-z0-9_./-]{1,120}'",
        "model not found in any model repository",
        "no version is available",
        "failed to stat file",
    ),
    "cause-pool": (r"cudaDeviceGetDefaultMemPool\([A-Za-z&, ]{1,40}\): operation not supported",),
    "cause-config": (
        "failed to read text proto",
        r"Expected integer, got: [$]",
        "Error parsing text-format",
        "model configuration must specify",
        "unexpected (platform|inference|data) type",
        "the model expects [0-9]{1,3} (dimensions|inputs|outputs)",
        "configuration expects [0-9]{1,3} (inputs|outputs), model provides",
        "unexpected dimension in model configuration",
    ),
    "cause-program": (
        r"(SyntaxError|IndentationError): [a-z ]{1,60} \(model\.py, line [0-9]{1,6}\)",
        "Failed to initialize Python stub",
        "must implement .{0,1}(execute|initialize).{0,1} (function|method)",
    ),
    "cause-hub": (
        "GatedRepoError",
        "RepositoryNotFoundError",
        "LocalEntryNotFoundError",
        "OfflineModeIsEnabled",
        "401 Client Error",
        "Cannot access gated repo",
        "We couldn't connect to",
        "outgoing traffic has been disabled",
    ),
    "cause-port": (
        "[Aa]ddress already in use",
        "port is already allocated",
        "already in use by container",
        "Socket '[0-9.:]{1,40}' already in use",
    ),
    "cause-pull": (
        "Unable to find image",
        "manifest unknown",
        "pull access denied",
        "unauthorized: authentication required",
    ),
    "cause-disk": ("No space left on device", "[Dd]isk quota exceeded"),
    "cause-permission": (r"PermissionError: \[Errno 13\]", "[Pp]ermission denied: '[A-Za-z0-9_./-]{1,120}'"),
    "cause-crash": (
        r"Signal \([0-9]{1,2}\) received",
        "Segmentation fault",
        "Stub process '[A-Za-z0-9_]{1,60}' is not healthy",
        "terminate called after throwing an instance",
        "Fatal Python error",
        "exited on signal [0-9]{1,2}",
        "stub process exited unexpectedly",
        "Executor loop crashed",
        "worker process [0-9]{0,9} ?died",
        "MPI worker died",
    ),
}
