"""Memory of a rank's GPU, from the library of its driver (CUDA Driver
API) or runtime (HIP), without a further package.

mpi4py takes it by ``__cuda_array_interface__``, that of ROCm too. The GPU is the first that the
rank may see. It is chosen before MPI starts, as some MPIs want it (Open MPI's smcuda and psm2, Cray
MPICH).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

#: Option that asks for it, and the libraries of each platform, newest first.
OPTION = "--memory"
LIBRARIES = {
    "cuda": ("libcuda.so.1",),
    "rocm": ("libamdhip64.so", *(f"libamdhip64.so.{major}" for major in (7, 6, 5))),
}
#: Calls that allocate, write, read and wait; words of both platforms are
#: alike (CUDA Driver API, HIP: "Memory Management").
CALLS = {
    "cuda": ("cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuCtxSynchronize"),
    "rocm": ("hipMalloc", "hipMemcpyHtoD", "hipMemcpyDtoH", "hipDeviceSynchronize"),
}


class DeviceError(Exception):
    """An error of the GPU's library, or its absence."""


class BufferStart:
    """The beginning of a buffer, for mpi4py."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 2,
        }


class Buffer:
    def __init__(self, device: Device, content: bytes) -> None:
        self.device = device
        self.address = device.allocate(len(content))
        self.fill(content)

    def fill(self, content: bytes) -> None:
        self.device.write(self.address, content)

    def part(self, size: int) -> BufferStart:
        return BufferStart(self.address, size)

    def read(self, size: int) -> bytes:
        return self.device.read(self.address, size)


class Device:
    """The first GPU that this process may see.

    :raises DeviceError: there is no library of it, or it says that something failed.
    """

    def __init__(self, kind: str) -> None:
        (self.allocating, self.writing, self.reading, self.waiting), faults = CALLS[kind], []
        for name in LIBRARIES[kind]:
            try:
                self.library = ctypes.CDLL(name)
                break
            except OSError as error:
                faults.append(str(error))
        else:
            raise DeviceError(faults[0])
        if kind == "rocm":
            self.call("hipSetDevice", 0)
            return
        device = ctypes.c_int()
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        # The context that the CUDA runtime, and so an MPI, uses too.
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *words: Any) -> None:
        try:
            status = getattr(self.library, name)(*words)
        except AttributeError:
            raise DeviceError(f"{self.library._name} has no {name}") from None
        if status:
            raise DeviceError(f"{name} failed with {status}")

    def allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self.call(self.allocating, ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def write(self, address: int, content: bytes) -> None:
        self.call(
            self.writing,
            ctypes.c_uint64(address),
            ctypes.c_char_p(content),
            ctypes.c_size_t(len(content)),
        )
        self.call(self.waiting)  # the copy of few bytes may still be under way

    def read(self, address: int, size: int) -> bytes:
        content = ctypes.create_string_buffer(size)
        self.call(self.reading, content, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return content.raw


def choose(words: Sequence[str]) -> Device | None:
    """The GPU that a command line asks for; ``None``: the host's memory.

    :raises SystemExit: it cannot be had.
    """
    if OPTION not in words:
        return None
    kind = "".join(words[words.index(OPTION) + 1 :][:1])
    if kind not in LIBRARIES:
        sys.exit(f"error: {OPTION} {kind}: choose {' or '.join(LIBRARIES)}")
    try:
        return Device(kind)
    except DeviceError as error:
        sys.exit(f"error: {OPTION} {kind}: {error}")
