/* libcuda.so.1, as far as a provisioner's probe asks it: is there a device, what is it, can its memory be had.
 *
 * rehearsal stand-in. Nothing that launches work is exported, and cuGetProcAddress knows no name: the CUDA runtime inside a
 * real program (Triton) then says "driver insufficient" and goes on without a GPU. Without that function it would say
 * "call not supported" instead, which Triton takes for a broken machine (both seen with the runtime 12.6).
 */
#include "mig.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, WRONG_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, WRONG_DEVICE = 101, OPERATING_SYSTEM = 304, NOT_FOUND = 500, DRIVER_MISMATCH = 803 };

static struct gpu gpus[MOST_GPUS];
static int gpu_count = -1;
static size_t taken[MOST_GPUS];
static int current;

static struct { size_t bytes; int device; } *blocks;
static size_t block_count;

static size_t usable(int device)
{
    return (size_t)(gpus[device].memory_mib - gpus[device].reserved_mib) << 20;
}

EXPORT int cuInit(unsigned flags)
{
    const char *loaded = loaded_version();
    if (flags)
        return WRONG_VALUE;
    if (!loaded)
        return NO_DEVICE;
    if (strcmp(loaded, USER_SPACE))
        return DRIVER_MISMATCH;
    int error = control_device_error();
    if (error)
        return error == EPERM ? OPERATING_SYSTEM : NO_DEVICE;
    gpu_count = mig_narrow(gpus, find_gpus(gpus));
    return gpu_count ? SUCCESS : NO_DEVICE;
}

EXPORT int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count)
{
    *count = gpu_count;
    return gpu_count < 0 ? NOT_INITIALIZED : SUCCESS;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal >= 0 && ordinal < gpu_count ? SUCCESS : WRONG_DEVICE;
}

EXPORT int cuDeviceGetName(char *name, int size, int device)
{
    if (device < 0 || device >= gpu_count)
        return WRONG_DEVICE;
    snprintf(name, size, "%s", gpus[device].name);
    return SUCCESS;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    if (device < 0 || device >= gpu_count)
        return WRONG_DEVICE;
    *bytes = usable(device);
    return SUCCESS;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    if (device < 0 || device >= gpu_count)
        return WRONG_DEVICE;
    *value = attribute == 75 ? gpus[device].major : attribute == 76 ? gpus[device].minor : 0;
    return attribute == 75 || attribute == 76 ? SUCCESS : WRONG_VALUE;
}

EXPORT int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
    (void)flags;
    if (device < 0 || device >= gpu_count)
        return WRONG_DEVICE;
    current = device;
    *context = &gpus[device];
    return SUCCESS;
}

EXPORT int cuCtxDestroy_v2(void *context)
{
    return context ? SUCCESS : WRONG_VALUE;
}

EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    if (gpu_count <= 0)
        return NOT_INITIALIZED;
    *total = usable(current);
    *free_bytes = *total - taken[current];
    return SUCCESS;
}

EXPORT int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    size_t total, left;
    if (cuMemGetInfo_v2(&left, &total))
        return NOT_INITIALIZED;
    void *more = realloc(blocks, (block_count + 1) * sizeof *blocks);
    if (!bytes || !more)
        return WRONG_VALUE;
    blocks = more;
    if (bytes > left)
        return OUT_OF_MEMORY;
    blocks[block_count].bytes = bytes, blocks[block_count].device = current;
    taken[current] += bytes;
    *pointer = ++block_count;
    return SUCCESS;
}

EXPORT int cuMemFree_v2(uint64_t pointer)
{
    if (!pointer || pointer > block_count || !blocks[pointer - 1].bytes)
        return WRONG_VALUE;
    taken[blocks[pointer - 1].device] -= blocks[pointer - 1].bytes;
    blocks[pointer - 1].bytes = 0;
    return SUCCESS;
}

EXPORT int cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *status)
{
    (void)name, (void)version, (void)flags;
    *address = NULL;
    if (status)
        *status = 1; /* symbol not found */
    return NOT_FOUND;
}

EXPORT int cuGetErrorString(int error, const char **text)
{
    *text = error == SUCCESS ? "no error" : error == NO_DEVICE ? "no CUDA-capable device is detected"
          : error == OUT_OF_MEMORY ? "out of memory"
          : error == OPERATING_SYSTEM ? "OS call failed or operation not supported on this OS"
          : error == DRIVER_MISMATCH ? "system has unsupported display driver / cuda driver combination"
          : "rehearsal stand-in error";
    return SUCCESS;
}
