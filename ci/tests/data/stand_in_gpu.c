/* Stands in for the libraries of GPUs: their calls, with memory of the host behind them.
 * STAND_IN_GPU: a call that fails; or "wrong": what is copied back has another byte. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int fails(const char *name)
{
    const char *asked = getenv("STAND_IN_GPU");
    return asked && !strcmp(asked, name) ? 100 : 0;
}

static int copy(void *to, const void *from, size_t size, const char *name)
{
    memcpy(to, from, size);
    return fails(name);
}

static int copy_back(void *to, const void *from, size_t size)
{
    memcpy(to, from, size);
    if (fails("wrong"))
        ((char *)to)[size - 1] ^= 1;
    return fails("copy_back");
}

static int allocate(uint64_t *there, size_t size)
{
    *there = (uint64_t)(uintptr_t)malloc(size);
    return fails("allocate");
}

int cuInit(unsigned flags) { return flags ? 1 : fails("cuInit"); }
int cuDeviceGet(int *device, int number) { *device = 7 + number; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = malloc(1); return device != 7; }
int cuCtxSetCurrent(void *context) { return !context; }
int cuCtxSynchronize(void) { return 0; }
int cuMemAlloc_v2(uint64_t *there, size_t size) { return allocate(there, size); }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { return copy((void *)(uintptr_t)to, from, size, "copy"); }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { return copy_back(to, (const void *)(uintptr_t)from, size); }

int hipSetDevice(int number) { return number; }
int hipDeviceSynchronize(void) { return 0; }
int hipMalloc(uint64_t *there, size_t size) { return allocate(there, size); }
int hipMemcpyHtoD(uint64_t to, const void *from, size_t size) { return copy((void *)(uintptr_t)to, from, size, "copy"); }
int hipMemcpyDtoH(void *to, uint64_t from, size_t size) { return copy_back(to, (const void *)(uintptr_t)from, size); }
