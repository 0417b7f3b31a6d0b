"""Asks the driver, from inside the image, if CUDA works: the joint test of driver, toolkit and image.

    cuda_probe.py GPUS    as many GPUs must be visible, and each must allocate memory

It uses ctypes, because the driver's own library is in every image. Exit 1 prints the remedy.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

# cuda.h: CUresult
MEANINGS = {
    3: "the driver could not be initialised; is /dev/nvidia-uvm in the container?",
    100: "no GPU is visible in the container; look at `nvidia-ctk cdi list` on the host",
    35: "the driver is too old for this image: install the driver branch the plan names",
    803: "kernel module and driver library are of different versions: reload the module or reboot the host",
    804: "the image's CUDA is newer than this driver serves: install the driver branch the plan names",
    802: "the GPU is not ready yet: with NVSwitch, nvidia-fabricmanager must run in the driver's own version",
    999: "unknown error: see `dmesg | grep -i xid` on the host",
}
BYTES = 64 << 20


def main() -> int:
    wanted = int(sys.argv[1])
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return fail("libcuda.so.1 is not in the container: the CDI specification does not bring the driver's libraries")
    call(cuda, "cuInit", 0)
    version, count = ctypes.c_int(), ctypes.c_int()
    call(cuda, "cuDriverGetVersion", ctypes.byref(version))
    call(cuda, "cuDeviceGetCount", ctypes.byref(count))
    if count.value != wanted:
        return fail(f"{count.value} GPUs are visible in the container; the server was given {wanted}")
    for ordinal in range(count.value):
        print(
            f"GPU {ordinal}: {try_gpu(cuda, ordinal)}, CUDA driver {version.value // 1000}.{version.value % 1000 // 10}"
        )
    return 0


def try_gpu(cuda: Any, ordinal: int) -> str:
    """Name and size of a GPU after a successful allocation."""
    device, name, size = ctypes.c_int(), ctypes.create_string_buffer(96), ctypes.c_size_t()
    context, block = ctypes.c_void_p(), ctypes.c_uint64()
    call(cuda, "cuDeviceGet", ctypes.byref(device), ordinal)
    call(cuda, "cuDeviceGetName", name, len(name), device)
    call(cuda, "cuDeviceTotalMem_v2", ctypes.byref(size), device)
    call(cuda, "cuCtxCreate_v2", ctypes.byref(context), 0, device)
    call(cuda, "cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(BYTES))
    call(cuda, "cuMemFree_v2", block)
    call(cuda, "cuCtxDestroy_v2", context)
    return f"{name.value.decode()}, {size.value >> 20:,} MiB"


def call(cuda: Any, function: str, *arguments: Any) -> None:
    """Calls a CUDA function; on an error, ends this program with its meaning."""
    code = getattr(cuda, function)(*arguments)
    if code:
        sys.exit(fail(f"{function} answers {code}: {MEANINGS.get(code, 'see CUresult in cuda.h')}"))


def fail(text: str) -> int:
    """The exit status 1, after printing the reason."""
    print(f"CUDA does not work inside this image: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
