"""Stacks: as files only, as the papers' and Debian's, as installations made of a few functions, and
with releases of suites that are really built.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from folders import DATA, write
from mpibench.stacks import probe, suite_builds, system
from mpibench.store.sessions import Case
from reframe_tests.harness.cases.job.transports import (
    Setting,
    check_proofs,
    resolve_transport,
    strip_debug,
)
from reframe_tests.harness.evidence import recorder
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import DEVICE, OF_HOST, Memory
from reframe_tests.harness.machine.transport import TRANSPORTS
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.catalogue import ROWS
from reframe_tests.harness.vocabulary import NotMeasured
from replacing import replaced

# ---- A stack that is only files: a folder with everything a valid ``stack.json`` names, for
# tests that run no MPI.


def made_stack(mpi: str, version: str, **changes: Any) -> Stack:
    """A stack as metadata describe it, of which no file is there."""
    nothing = ("binaries", "commands", "suites", "env_vars", "prepend_path")
    known = {
        "name": f"{mpi}-spack",
        "origin": "spack",
        "mpi": mpi,
        "mpi_version": version,
        "device": "",
        "abi": "openmpi" if mpi == "openmpi" else "mpich",
        "launcher_family": "hydra",
        "prefix": "/opt/mpi",
        "library": "/opt/mpi/lib/libmpi.so",
        "library_version_pattern": "",
    }
    return Stack(**{**known, **{name: {} for name in nothing}, **changes})


def configuration_of(stack: Stack, **system: Any) -> dict[str, Any]:
    """ReFrame's configuration of one partition of this machine with one stack."""
    partition = {"name": "p", "scheduler": "local", "launcher": "local", "environs": [stack.name]}
    return {
        "systems": [{"name": "s", "hostnames": [".*"], "partitions": [partition], **system}],
        "environments": [metadata.environment_of(stack)],
        "general": [{"remote_detect": False}],
    }


def sealed(document: dict[str, Any]) -> Any:
    """As it is registered; what is no valid document stays as it is."""
    try:
        return metadata.seal(document, "stack.json")
    except metadata.StackError:
        return document


def write_stack(folder: Path, **changes: Any) -> Path:
    """Make a complete stack in ``folder`` and return its metadata
    file; ``changes`` replace top-level keys.
    """
    (folder / "python").mkdir(parents=True, exist_ok=True)
    write(folder / "lib" / "libmpi.so.12", "")
    write(folder / "bin" / "IMB-MPI1", "#!/bin/sh\n", executable=True)
    return write(folder / "stack.json", json.dumps(sealed({**describe(folder), **changes})))


def describe(folder: Path) -> dict[str, Any]:
    """Valid metadata of a stack in ``folder``."""
    escaped = json.dumps(str(folder))[1:-1]
    text = (DATA / "stack.json").read_text().replace("/opt/mpich", escaped)
    document: dict[str, Any] = json.loads(text)
    return document


DOCUMENT = describe(Path("/opt/mpich"))


def change(keys: str, value: Any) -> dict[str, Any]:
    """The valid document with one key replaced or added."""
    document: dict[str, Any] = replaced(DOCUMENT, keys.split("/"), value)
    return document


# ---- A stack with every program of the suites, as metadata would describe it, and the launches
# of a group on it.

BINARIES = ("IMB-MPI1", "IMB-P2P", "IMB-NBC", "IMB-RMA", "IMB-MT", "IMB-EXT", "IMB-MPI4", "IMB-IO")
OSU = tuple(row.binary for row in ROWS if row.suite == "osu")
GPCNET = tuple(dict.fromkeys(row.binary for row in ROWS if row.suite == "gpcnet"))
APPLICATIONS = tuple(dict.fromkeys(row.binary for row in ROWS if row.suite in ("hpcc", "npb")))
NCCL = tuple(row.binary for row in ROWS if row.suite == "nccl_tests")


def memory_of(group: str) -> Memory:
    """Memory of the host, and of GPUs for what measures no other."""
    return Memory(DEVICE, "cuda") if catalogue.library_of(group) else OF_HOST


def stack_of(
    binaries: Iterable[str] = BINARIES + OSU + GPCNET + APPLICATIONS + NCCL,
    osu: str = "7.5",
    gpu: str = "",
) -> Stack:
    """A stack as metadata would describe it.

    :param gpu: platform that OSU was built for.
    """
    return made_stack(
        "intelmpi",
        "2021.18.1",
        **{"name": "intelmpi-wheels", "origin": "wheels", "launcher_family": "hydra-intel"},
        binaries={name: f"/opt/mpi/bin/{name}" for name in binaries},
        commands={"mpi4py.bench": ("/opt/mpi/bin/python", "-m", "mpi4py.bench")},
        suites={
            "imb": {"version": "2021.11"},
            "mpi4py": {"version": "4.1.2"},
            "osu": {"version": osu, **({"gpu": gpu} if gpu else {})},
            "nccl_tests": {"version": "2.18.2", "gpu": "cuda"},
        },
    )


def launches(group: str, ranks: int = 2, level: str = "nightly", **more: Any) -> Any:
    more = {
        "nodes": max((row.min_nodes for row in catalogue.rows(group)), default=1),
        "memory": memory_of(group),
        **more,
    }
    return catalogue.launches(group, more.pop("stack", stack_of()), ranks, level, **more)


# ---- The MPI stacks of the papers and of other machines, as metadata: nobody can build them
# here, but their job scripts can be written and read.

_PUBLISHED = yaml.safe_load((DATA / "published_stacks.yaml").read_text())
#: Those of the papers, and those of the machines that site_configs/template has, by name.
STACKS: dict[str, list[str]] = _PUBLISHED["papers"]
TODAY: dict[str, list[str]] = _PUBLISHED["today"]
#: Launchers that are not called mpirun.
PUBLISHED_LAUNCHERS: dict[str, str] = _PUBLISHED["launchers"]


def write_all(
    folder: Path, *, mpi4py: bool = False, rows: Mapping[str, Sequence[str]] = STACKS
) -> str:
    """Write every stack below ``folder`` and return the value of
    ``MPIBENCH_STACKS`` that registers them.

    :param mpi4py: with the one instrument of today that needs no compiling.
    :param rows: the stacks, as :data:`STACKS` has them.
    """
    return ":".join(
        str(_write(folder / name, name, row, mpi4py=mpi4py)) for name, row in rows.items()
    )


def _write(folder: Path, name: str, row: Sequence[str], *, mpi4py: bool) -> Path:
    mpi, version, device, abi, family, library, imb = row
    built = {"built_with": f"{mpi} {version}"}
    commands = {"mpi4py.bench": ["/bin/true", "-m", "mpi4py.bench"]} if mpi4py else {}
    if family in PUBLISHED_LAUNCHERS:
        launcher = folder / "bin" / PUBLISHED_LAUNCHERS[family]
        commands["mpirun"] = [str(write(launcher, "#!/bin/sh\n", executable=True))]
        write(folder / "lib" / library, "")
    changes: dict[str, Any] = {
        "name": name,
        "mpi": {"name": mpi, "version": version, "device": device},
        "abi": abi,
        "launcher_family": family,
        "library": f"{folder}/lib/{library}",
        "library_version_pattern": version.replace(".", "[.]"),
        "commands": commands,
        "suites": {
            "imb": {"version": imb, **built},
            **({"mpi4py": {"version": "4.1.2", **built}} if mpi4py else {}),
        },
        "env_vars": {},
        "prepend_path": {"LD_LIBRARY_PATH": [f"{folder}/lib"]},
    }
    path = write_stack(folder, **changes)
    # Afterwards: golden job scripts have no checksum of it where the launcher is mpirun.
    write(folder / "lib" / library, "")
    return path


# ---- Debian's Open MPI and MPICH, registered as stacks of origin ``system`` as a site would do
# it.

#: What is said of a launch of MPICH that measured everything and hung, as UCX 1.13 over TCP does
#: now and then when it closes its connections (openucx/ucx, issue 8738, open; seen here once in
#: some hundred launches, beside a load of 10 on two cores). A test that is not about that runs
#: again.
HUNG = "2 of its ranks had called MPI_Finalize by then"
#: Times that it is run at most; twice in a row was seen once.
MOST_STARTS = 4
#: Launchers of Debian's packages openmpi-bin and mpich, which
#: ``ci/setup test`` installs where it may.
DEBIAN_LAUNCHERS = {"openmpi": "/usr/bin/mpirun.openmpi", "mpich": "/usr/bin/mpirun.mpich"}


def missing() -> str:
    """Why there are none here; empty where both are installed."""
    lacking = [launcher for launcher in DEBIAN_LAUNCHERS.values() if not shutil.which(launcher)]
    return (
        f"no {' and no '.join(lacking)} here (Debian packages openmpi-bin and mpich)"
        if lacking
        else ""
    )


def register_debian(place: Path, binaries: Mapping[str, Sequence[Path]]) -> dict[str, Stack]:
    """Both, by MPI, as ``openmpi-debian`` and ``mpich-debian``.

    :param place: folder the metadata goes to, one folder per MPI.
    :param binaries: folders with benchmarks, by MPI.
    """
    return {
        mpi: system.add(
            launcher, name=f"{mpi}-debian", binaries=binaries.get(mpi, ()), into=place / mpi
        )
        for mpi, launcher in DEBIAN_LAUNCHERS.items()
    }


def named(place: Path) -> str:
    """Value of ``MPIBENCH_STACKS`` that makes them known."""
    return ":".join(str(place / mpi) for mpi in DEBIAN_LAUNCHERS)


# ---- An MPI installation made of a few functions: a real shared library and programs linked with
# it, for tests without an MPI.

#: A launcher that runs its program as many times as ranks are asked for, one after the other.
MPIRUN = """#!/bin/sh
[ "$1" = --version ] && {{ echo '{version}'; exit 0; }}
while [ $# -gt 0 ]; do
    case $1 in -n | -np) ranks=$2; shift 2 ;; --oversubscribe) shift ;; *) break ;; esac
done
export SYNTHETIC_SIZE={size}
for rank in $(seq "$ranks"); do "$@" || exit $?; done
"""
LIBRARY = """
#include <stdlib.h>
#include <string.h>
%s
int MPI_Get_library_version(char *text, int *length) { strcpy(text, ANSWER); *length = (int)strlen(text); return 0; }
int MPI_Init(int *argc, char ***argv) { (void)argc; (void)argv; return 0; }
int MPI_Comm_size(void *world, int *size) { (void)world; *size = atoi(getenv("SYNTHETIC_SIZE")); return 0; }
int MPI_Finalize(void) { return 0; }
"""
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
int MPI_Init(int *, char ***);
int MPI_Finalize(void);
%s
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    CALL;
    if (atoi(getenv("SYNTHETIC_SIZE")) < RANKS) return puts("Error: more ranks") < 0 ? 2 : 1;
    puts(BANNER);
    return MPI_Finalize();
}
"""
OPEN_MPI = "Open MPI v4.1.4, package: Synthetic, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022"
OPEN_RTE = "mpirun (Open MPI) 4.1.4"
MPICH_SOURCE = "MPICH Version:\\t4.0.2\\nMPICH Device:\\tch4:ucx\\n"
HYDRA = "HYDRA build details:"
IMB = "#    Intel(R) MPI Benchmarks 2021.11"
OSU_SOURCE = "# OSU MPI Latency Test v7.4"


def compile_c(source: str, made: Path, *options: str) -> Path:
    """Compile C text; the test is skipped where there is no compiler."""
    compilers = recorder.compilers()
    if not compilers:
        pytest.skip("[compiler] no C compiler here")
    text = write(made.with_name(f".{made.name}.c"), source)
    subprocess.run(
        [*compilers[0], "-o", str(made), str(text), *options],
        check=True,
        capture_output=True,
        timeout=120,
    )
    text.unlink()
    return made


def make_library(made: Path, answer: str, soname: str, extra: str = "") -> Path:
    """A libmpi that answers ``answer``; ``extra`` is C text."""
    source = LIBRARY % f'#define ANSWER "{answer}"\n{extra}'
    return compile_c(source, made, "-shared", "-fPIC", f"-Wl,-soname,{soname}")


def make_open_mpi(prefix: Path, size: str = "$ranks") -> Path:
    """An Open MPI 4.1.4 below a prefix; its launcher. ``size`` is the world its ranks see."""
    make_library(
        prefix / "lib/libmpi.so.40", OPEN_MPI, "libmpi.so.40", "char ompi_mpi_comm_world[8];"
    )
    return make_launcher(prefix, OPEN_RTE, size)


def make_mpich(prefix: Path) -> Path:
    """An MPICH 4.0.2 below a prefix, with its library named as Debian does; its launcher."""
    make_library(prefix / "lib/libmpich.so.12", MPICH_SOURCE, "libmpich.so.12")
    return make_launcher(prefix, HYDRA)


def make_launcher(prefix: Path, version: str, size: str = "$ranks") -> Path:
    """The launcher alone."""
    return write(
        prefix / "bin/mpirun",
        MPIRUN.format(version=version, size=size),
        executable=True,
    )


def make_program(
    made: Path, soname: str, banner: str = IMB, call: str = "", ranks: int = 1
) -> Path:
    """A benchmark linked with a libmpi of that SONAME; it calls the function
    ``call``, which the libmpis here do not have.

    :param ranks: with fewer it says nothing but an error.
    """
    declared = f"void {call}(void)" if call else ""
    stub = make_library(
        made.parent.parent / "stub" / soname, "stub", soname, f"{declared} {{}}" if call else ""
    )
    head = f"#define RANKS {ranks}\n"
    head += f'#define BANNER "{banner}"\n' + (
        f"#define CALL {call}()\n{declared};" if call else "#define CALL (void)0"
    )
    return compile_c(PROGRAM % head, made, str(stub))


# ---- A toolkit of CUDA or ROCm for tests, as far as OMB asks for it: memory of the host stands
# behind it, so numbers mean nothing. ``make`` leaves what OMB's configure looks for below
# ``--with-cuda`` and ``--with-rocm``: headers, libraries, and an ``nvcc`` that puts plain C++ in
# the place of kernels. ROCm has all of it under the names of CUDA but for the first letters.

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
        write(folder / "include" / name, HEADER.replace("cuda", prefix))
    if kind == "cuda":
        write(folder / "bin/nvcc", NVCC, executable=True)
    for soname in libraries:
        made = folder / "lib64" / soname
        code = DRIVER if soname.startswith("libcuda.") else HEADER + SOURCE
        compile_c(
            code.replace("cuda", prefix), made, "-shared", "-fPIC", "-w", f"-Wl,-soname,{soname}"
        )
        made.with_suffix("").symlink_to(soname)
    return folder


# ---- Stacks and fabrics as the transport table meets them: every MPI around every boundary of
# its versions.

#: Real output: two ranks on one machine (lo, eth0, no RDMA adapter), or two on each of two
#: namespaces joined by a veth pair (two-nodes), of IMB-MPI1 2021.11 and mpi4py.bench 4.1; names and
#: prefixes of the machine replaced. What the benchmark printed is kept with lo and two-nodes only.
GOLDEN = DATA / "golden_transports"

#: Tables of MPIs, suites and systems that these stacks are made of.
_KNOWN = yaml.safe_load((DATA / "synthetic_stacks.yaml").read_text())
#: Versions around every boundary of the table, per MPI; of an MPI that
#: is not here those of :func:`boundaries`.
VERSIONS: dict[str, list[str]] = _KNOWN["versions"]
DEVICES: dict[str, list[str]] = _KNOWN["devices"]
#: Transports that an MPI is made to use, each with a rail.
FORCED = tuple(name for name, row in TRANSPORTS.items() if row.forced and not row.gpus_only)
#: Those for memory of GPUs.
OF_GPUS = (*FORCED, *(name for name, row in TRANSPORTS.items() if row.gpus_only))
RAILS = {
    "shm": (),
    "gpu_ipc": (),
    "tcp": (Rail("eth1"),),
    "verbs": (Rail("mlx5_0", port=2),),
    "ucx": (Rail("mlx5_0", port=2),),
    "psm2": (Rail("hfi1_1"),),
    "opx": (Rail("hfi1_1"),),
    "efa": (Rail("rdmap0s6"),),
    "cxi": (Rail("cxi0"),),
}

SHM = Fabric("shm", "shm", "node")
LO = Fabric("lo", "tcp", "node", (Rail("lo"),))
ETH = Fabric("eth1g", "tcp", "cluster", (Rail("eth1"),))
EDR = Fabric("edr", "ucx", "cluster", (Rail("mlx5_0"),))


def make_stack(mpi: str, version: str, device: str = "") -> Stack:
    """As :func:`made_stack`, of one communication device."""
    return made_stack(mpi, version, device=device)


INTEL = make_stack("intelmpi", "2021.18.1")
MPICH = make_stack("mpich", "5.0.2", "ch4:ucx,ofi")
MPICH_UCX = make_stack("mpich", "5.0.2", "ch4:ucx")
MPICH_4 = make_stack("mpich", "4.0.2", "ch4:ucx")
OPENMPI = make_stack("openmpi", "5.0.11")
OPENMPI_4 = make_stack("openmpi", "4.1.4")
MVAPICH2 = make_stack("mvapich2", "2.3.7", "ch3:mrail")


setting_of = resolve_transport


def attempt(stack: Stack, fabric: Fabric) -> Setting | NotMeasured:
    """The setting, or the reason why there is none."""
    try:
        return resolve_transport(stack, fabric)
    except NotMeasured as reason:
        return reason


def fabric_of(transport: str, scope: str, kind: str = "") -> Fabric:
    """A fabric of a transport, of device memory of a platform of GPUs where one is named."""
    memory = Memory(DEVICE, kind) if kind else OF_HOST
    return Fabric(f"the_{transport}", transport, scope, RAILS[transport], memory=memory)


def knowing(stack: Stack, kind: str) -> Stack:
    """The stack, built for a platform of GPUs."""
    return replace(stack, gpu=kind)


def boundaries(mpi: str) -> tuple[str, ...]:
    """First and first excluded versions of its rows and gaps."""
    record: Any = registry.find(mpi)
    ends = {
        version
        for row in (*record.rows, *record.gaps)
        for version in (row.versions.since, row.versions.until)
        if version
    }
    return tuple(".".join(map(str, version)) for version in sorted(ends))


def every_stack() -> list[Stack]:
    """Each MPI there is, in all versions and with all communication devices that matter."""
    return [
        make_stack(name, version, device)
        for name, record in registry.known().items()
        for version in VERSIONS.get(name) or boundaries(name)
        for device in DEVICES.get(name) or tuple(dict.fromkeys(row.device for row in record.rows))
    ]


def golden(name: str) -> tuple[str, str]:
    """Recorded stdout and stderr; at least one was not empty."""
    texts = [
        path.read_text() if path.exists() else ""
        for path in (GOLDEN / f"{name}.out.txt", GOLDEN / f"{name}.err.txt")
    ]
    assert any(texts), f"no recording {name}"
    return texts[0], texts[1]


def judge(stack: Stack, fabric: Fabric, name: str, libraries: tuple[str, ...] = ()) -> list[str]:
    """Proofs of (stack, fabric) against a recording, as a test reads
    it: debug lines of stdout, and stderr.
    """
    out, err = golden(name)
    _, debug = strip_debug(stack, out)
    return check_proofs(setting_of(stack, fabric), debug + err, libraries)


# ---- Releases of OSU and IMB on the wheel of MPICH: built by ``stacks add --build``, kept in the
# cache, run by one ReFrame.

#: Suite to its releases whose tarballs are looked for in the sources folder.
RELEASES: dict[str, list[str]] = _KNOWN["releases"]
#: This machine with a few repetitions: nobody looks at the numbers.
SYSTEM: dict[str, Any] = _KNOWN["system"]
#: Most repetitions of any size.
REPETITIONS: int = SYSTEM["partitions"][0]["extras"]["most_repetitions"]


@dataclass(frozen=True)
class Release:
    """A release whose tarball is here."""

    suite: str
    version: str
    tarball: Path

    @property
    def name(self) -> str:
        """Name of its stack."""
        return f"{self.suite}_{re.sub(r'[^0-9]', '_', self.version)}"


def path_of(suite: str, version: str) -> Path:
    """Where the tarball of a release is, if it is here."""
    return suite_builds.sources_folder() / suite_builds.url_of(suite, version).rpartition("/")[2]


def here(suite: str) -> list[Release]:
    """Releases of a suite whose tarballs are here."""
    releases = [Release(suite, version, path_of(suite, version)) for version in RELEASES[suite]]
    return [release for release in releases if release.tarball.is_file()]


def register_release(
    release: Release, mpi: Stack, into: Path, gpu: str = "", toolkit: str = ""
) -> Stack:
    """A stack with the programs of a release: built with the MPI's
    own wrappers, or kept from an earlier run.

    :param gpu: platform of GPUs to build it for, and the folder of its toolkit.

    What is kept depends on the tarball, the MPI and the compiler; empty
    the folder where the way to build has changed.
    """
    compilers = suite_builds.find_compilers(Path(mpi.mpirun[0]), Path(mpi.prefix), dict(os.environ))
    inputs = [suite_builds.digest_of(release.tarball), mpi.lock_hash, compilers.says]
    inputs += [gpu, HEADER, SOURCE, DRIVER, NVCC] if gpu else []
    more: dict[str, Any] = {}
    if gpu:
        home = {"cuda": "CUDA_HOME", "rocm": "ROCM_PATH"}[gpu]
        more = {
            "gpu": gpu,
            "env": {home: toolkit},
            "prepend_path": {"LD_LIBRARY_PATH": [f"{toolkit}/lib64"]},
        }
    key = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]
    kept = (
        suite_builds.sources_folder().parent / "builds" / f"{release.suite}-{release.version}-{key}"
    )
    folder = into / release.name
    built = kept.is_dir()
    more |= {"binaries": [kept]} if built else {"builds": [f"{release.suite}={release.tarball}"]}
    stack = system.add(
        mpi.mpirun[0],
        name=release.name,
        into=folder,
        say=lambda text: None,
        **more,
    )
    if built:
        return stack
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_name(f".{kept.name}.{os.getpid()}")
    shutil.copytree(folder / release.suite, partial)
    try:
        partial.rename(kept)
    except OSError:  # somebody else was faster
        shutil.rmtree(partial)
    return stack


def offered(release: Release) -> set[str]:
    """Programs for MPI in C that a tarball has the sources of, but for
    IMB-HALO, which upstream has no target for.
    """
    names: set[str] = set()
    with tarfile.open(release.tarball) as archive:
        for member in archive:
            inside = member.name.partition("/")[2]
            if release.suite == "imb":
                part = re.fullmatch(
                    r"src_cpp/([A-Z0-9]+)/Makefile.*\.mk|src_c/(P2P)/Makefile"
                    r"|src/IMB_parse_name_(\w+)\.c",
                    inside,
                )
                names |= {f"IMB-{name.upper()}" for name in (part.groups() if part else ()) if name}
            elif re.fullmatch(r"(c/)?mpi/.*/Makefile\.am", inside):
                source = archive.extractfile(member)
                assert source is not None
                text = source.read().decode().replace("\\\n", " ")
                for line in re.findall(r"^\s*\w*_PROGRAMS *\+?= *(.*)$", text, re.M):
                    names |= {
                        word for word in line.split() if probe.suite_of(word) == release.suite
                    }
    return names - {"IMB-HALO"}


def write_site(top: Path, system: dict[str, Any]) -> Path:
    """A system in a copy of the project; its settings file, for ReFrame."""
    write(top / "site_configs" / str(system["name"]) / "system.py", f"system = {system!r}\n")
    return top / "site_configs" / "settings.py"


def table(cases: Iterable[Case]) -> str:
    """Cases a line: stack, leaf, ranks, result, and why it was not measured or failed."""
    rows = sorted(
        f"{case.stack:12} {case.name:26} ppn={case.ppn_symbol} {case.result:5} {case.reason[:160]}"
        for case in cases
    )
    return "\n".join(rows)
