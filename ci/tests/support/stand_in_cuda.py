"""A toolkit of CUDA or ROCm for tests, as far as OMB asks for it: memory of
the host stands behind it, so numbers mean nothing.

``make`` leaves what OMB's configure looks for below ``--with-cuda`` and ``--with-rocm``: headers,
libraries, and an ``nvcc`` that puts plain C++ in the place of kernels. ROCm has all of it under the
names of CUDA but for the first letters.
"""

from __future__ import annotations

from pathlib import Path

from synthetic_installation import compile_c

#: Functions that always succeed and do nothing, with what they take.
NOTHING = """
cudaSetDevice(int device)
cudaDeviceReset(void)
cudaDeviceSynchronize(void)
cudaMemPrefetchAsync(const void *memory, size_t size, int device, cudaStream_t stream)
cudaStreamCreate(cudaStream_t *stream)
cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
cudaStreamDestroy(cudaStream_t stream)
cudaStreamQuery(cudaStream_t stream)
cudaStreamSynchronize(cudaStream_t stream)
cudaEventSynchronize(cudaEvent_t event)
""".strip().splitlines()
HEADER = """
#pragma once
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef enum { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE } CUresult;
typedef enum { cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaErrorNotReady = 600 } cudaError_t;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum { cudaMemAttachGlobal = 1, cudaStreamNonBlocking = 1, cudaCpuDeviceId = -1 };
CUresult cuInit(unsigned), cuDeviceGet(CUdevice *, int), cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuPointerGetAttribute(void *, int, unsigned long long);
const char *cudaGetErrorString(cudaError_t);
cudaError_t cudaGetDeviceCount(int *), cudaFree(void *), cudaMemset(void *, int, size_t);
cudaError_t cudaMalloc(void **, size_t), cudaMallocManaged(void **, size_t, unsigned);
cudaError_t cudaMemcpy(void *, const void *, size_t, enum cudaMemcpyKind);
cudaError_t cudaEventCreate(cudaEvent_t *), cudaEventDestroy(cudaEvent_t), cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventElapsedTime(float *, cudaEvent_t, cudaEvent_t);
@NOTHING@
#ifdef __cplusplus
}
#endif
""".replace("@NOTHING@", "\n".join(f"cudaError_t {function};" for function in NOTHING))
SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <time.h>
struct CUevent_st { struct timespec at; };
const char *cudaGetErrorString(cudaError_t error) { return "an error of the stand-in"; }
cudaError_t cudaGetDeviceCount(int *count) { *count = 1; return cudaSuccess; }
cudaError_t cudaMalloc(void **to, size_t size) { return posix_memalign(to, 4096, size) ? 2 : cudaSuccess; }
cudaError_t cudaMallocManaged(void **to, size_t size, unsigned flags) { return cudaMalloc(to, size); }
cudaError_t cudaFree(void *memory) { free(memory); return cudaSuccess; }
cudaError_t cudaMemset(void *to, int value, size_t size) { memset(to, value, size); return cudaSuccess; }
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) {
    memcpy(to, from, size);
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return (*event = calloc(1, sizeof **event)) ? cudaSuccess : 2; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { free(event); return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    *ms = (to->at.tv_sec - from->at.tv_sec) * 1e3f + (to->at.tv_nsec - from->at.tv_nsec) * 1e-6f;
    return cudaSuccess;
}
@NOTHING@
""".replace(
    "@NOTHING@",
    "\n".join(f"cudaError_t {function} {{ return cudaSuccess; }}" for function in NOTHING),
)
NVCC = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --output-file ] && made=$2; shift; done
cat >"$made" <<'END'
#include <cuda_runtime.h>
static void add(char *to, size_t size, int by) { for (size_t at = 0; at < size; at++) to[at] += by; }
extern "C" void call_kernel(float a, float *x, float *y, int n, cudaStream_t *) { while (n--) y[n] += a * x[n]; }
extern "C" void call_touch_managed_kernel(char *to, size_t size, cudaStream_t *) { add(to, size, 1); }
extern "C" void call_touch_managed_kernel_add(char *to, size_t size, cudaStream_t *) { add(to, size, 1); }
extern "C" void call_touch_managed_kernel_sub(char *to, size_t size, cudaStream_t *) { add(to, size, -1); }
extern "C" void call_empty_kernel(char *, size_t, cudaStream_t *) {}
END
"""
#: A driver, as far as recorder and OMB ask it. ``STAND_IN_DEVICES`` has the GPUs of the node
#: (``address/model/letter of UUID``, commas between), of which ``CUDA_VISIBLE_DEVICES`` leaves
#: some; ``STAND_IN_CURRENT`` and ``STAND_IN_ACTIVE`` say on which of these the process works and
#: has a context. With ``-DPRELOADED`` it begins by itself.
DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int ready;
static const char *text(const char *name) { const char *value = getenv(name); return value ? value : ""; }
static int field(int device, int place, char *to, int size)
{
    char all[1024], *state, *inner, *entry;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    for (int at = device; visible && at--; visible = *visible ? visible + 1 : NULL) visible += strcspn(visible, ",");
    if (getenv("CUDA_VISIBLE_DEVICES") && (!visible || *visible < '0' || *visible > '9')) return 101;
    if (visible) device = atoi(visible);
    snprintf(all, sizeof all, "%s", text("STAND_IN_DEVICES"));
    entry = strtok_r(all, ",", &state);
    while (entry && device--) entry = strtok_r(NULL, ",", &state);
    entry = entry ? strtok_r(entry, "/", &inner) : NULL;
    while (entry && place--) entry = strtok_r(NULL, "/", &inner);
    if (!ready || !entry) return 3;
    snprintf(to, (size_t)size, "%s", entry);
    return 0;
}
int cuInit(unsigned flags) { (void)flags; ready = 1; return 0; }
#ifdef PRELOADED
__attribute__((constructor)) static void begin(void) { cuInit(0); }
#endif
int cuDeviceGet(int *device, int number) { *device = number; return ready ? 0 : 3; }
int cuDeviceGetCount(int *count) { char any[64]; for (*count = 0; !field(*count, 0, any, 64); ++*count); return ready ? 0 : 3; }
int cuCtxGetCurrent(void **context) { *context = *text("STAND_IN_CURRENT") ? &ready : NULL; return ready ? 0 : 3; }
int cuCtxGetDevice(int *device) { *device = atoi(text("STAND_IN_CURRENT")); return ready ? 0 : 201; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    *flags = 0;
    *active = strchr(text("STAND_IN_ACTIVE"), '0' + device) != NULL;
    return ready ? 0 : 3;
}
int cuDeviceGetPCIBusId(char *to, int size, int device) { return field(device, 0, to, size); }
int cuDeviceGetName(char *to, int size, int device) { return field(device, 1, to, size); }
int cuDeviceGetUuid_v2(char *to, int device)
{
    char letter[2];
    int code = field(device, 2, letter, 2);
    memset(to, letter[0], 16);
    return code;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = NULL; return 0; }
int cuPointerGetAttribute(void *to, int which, unsigned long long at) { (void)to; (void)which; (void)at; return 1; }
"""


#: Platform to the prefix of its names, its headers and the names of its libraries.
KINDS = {
    "cuda": ("cuda", ("cuda.h", "cuda_runtime.h"), ("libcuda.so.1", "libcudart.so.12")),
    "rocm": ("hip", ("hip/hip_runtime.h", "hip/hip_runtime_api.h"), ("libamdhip64.so.6",)),
}


def make(folder: Path, kind: str) -> Path:
    """A toolkit in a folder; the folder."""
    prefix, headers, libraries = KINDS[kind]
    for name in headers:
        (folder / "include" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "include" / name).write_text(HEADER.replace("cuda", prefix))
    if kind == "cuda":
        (folder / "bin").mkdir()
        (folder / "bin/nvcc").write_text(NVCC)
        (folder / "bin/nvcc").chmod(0o755)
    for soname in libraries:
        made = folder / "lib64" / soname
        code = DRIVER if soname.startswith("libcuda.") else HEADER + SOURCE
        compile_c(
            code.replace("cuda", prefix), made, "-shared", "-fPIC", "-w", f"-Wl,-soname,{soname}"
        )
        made.with_suffix("").symlink_to(soname)
    return folder
