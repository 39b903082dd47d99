"""Times one MPI collective at several sizes, or counts the messages that one call of it sends.

``python collective_times.py --algorithm 3 --sizes 8,1024 --repetitions
200 --volume-mib 64 --budget-s 2 Allreduce``

One repetition is the call after an MPI_Barrier; its time is that of the slowest rank, from its own
return of the barrier on. Printed is the median over the repetitions, as many as fit the size's
share of the budget. The label of the algorithm is only printed: what sets it is the environment.
The program asks for MPI_THREAD_SINGLE, because libraries choose other algorithms for programs of
several threads (MPICH's release-gather). The interpreter adds about 1 us to each call.

``--count`` times nothing: it reads, before and after one call, how many messages and bytes each
rank has sent to each other, from the MPI_T performance variables ``pml_monitoring_messages_count``
and ``_size`` of Open MPI (ompi/mca/common/monitoring, ``OMPI_MCA_pml_monitoring_enable=1``), and
prints both sums and a checksum over who sent what to whom.

``--call`` calls the collective once at each size, compares the data, and calls nothing but
MPI_Barrier beside it, for libraries that are made to end if any call is not done as it was set.

Sizes: bytes of one rank's block; of reductions and Bcast, of the whole
vector (of Reduce_scatter, that of all ranks together).
"""

from __future__ import annotations

import ctypes
import gc
import re
import statistics
import sys
import time
import zlib
from array import array
from pathlib import Path
from typing import Any

import mpi4py

mpi4py.rc(thread_level="single")

from mpi4py import MPI  # noqa: E402  (MPI_Init happens in this line)

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from reframe_tests.harness.instruments import common  # noqa: E402
from reframe_tests.harness.instruments.common import ROOT  # noqa: E402

#: Repetitions that are not counted, those that are in any case, and
#: those between two looks at the clock.
WARM_UP = 2
FEWEST = 3
AT_ONCE = 16
#: Position of MPI_T_PVAR_CLASS_SIZE in Open MPI's enumeration (ompi/include/mpi.h.in).
SIZE_CLASS = 2


def measure(comm: Any, operation: common.Operation, most: int, budget_s: float) -> list[float]:
    """Time of the slowest rank in each repetition, in seconds; on
    other ranks than the root, nothing.
    """
    own = array("d")
    clock = time.perf_counter
    more = array("i", [WARM_UP + FEWEST])
    started = clock()
    while more[0]:
        for _each in range(more[0]):
            comm.Barrier()
            begin = clock()
            operation.run()
            own.append(clock() - begin)
        # The root alone knows how many more there is time for.
        spent = clock() - started
        done = len(own)
        fitting = int((budget_s - spent) / (spent / done)) if spent else AT_ONCE
        more[0] = max(min(fitting, most + WARM_UP - done, max(AT_ONCE, done)), 0)
        comm.Bcast([more, MPI.INT], ROOT)
    return common.slowest(comm, own[WARM_UP:])


class Counters:
    """What a rank has sent to each other one, as the library counts it."""

    NAMES = (b"pml_monitoring_messages_count", b"pml_monitoring_messages_size")

    def __init__(self, comm: Any) -> None:
        paths = re.findall(r"(/\S*/libmpi\.so\S*)$", Path("/proc/self/maps").read_text(), re.M)
        if not paths:
            raise OSError("no libmpi.so is loaded")
        self.library = ctypes.CDLL(paths[0])
        self.comm = comm
        level = ctypes.c_int()
        self._do("MPI_T_init_thread", 0, ctypes.byref(level))
        self.session = ctypes.c_void_p()
        self._do("MPI_T_pvar_session_create", ctypes.byref(self.session))
        self.handles = [self._open(name) for name in self.NAMES]

    def _do(self, name: str, *arguments: Any) -> None:
        if status := getattr(self.library, name)(*arguments):
            raise OSError(f"{name} failed with {status}: the library does not count messages")

    def _open(self, name: bytes) -> Any:
        index = ctypes.c_int()
        count = ctypes.c_int()
        handle = ctypes.c_void_p()
        self._do("MPI_T_pvar_get_index", name, SIZE_CLASS, ctypes.byref(index))
        place = ctypes.c_void_p(MPI._addressof(self.comm))
        self._do(
            "MPI_T_pvar_handle_alloc",
            self.session,
            index,
            place,
            ctypes.byref(handle),
            ctypes.byref(count),
        )
        self._do("MPI_T_pvar_start", self.session, handle)
        return handle

    def read(self) -> list[int]:
        counts: list[int] = []
        for handle in self.handles:
            values = (ctypes.c_uint64 * self.comm.size)()
            self._do("MPI_T_pvar_read", self.session, handle, values)
            counts += list(values)
        return counts


def count(comm: Any, counters: Counters, operation: common.Operation) -> tuple[int, int, int]:
    """Messages and bytes that all ranks send in one call, and a checksum of
    who sends what to whom; zeros beside the root.
    """
    operation.run()
    comm.Barrier()
    before = counters.read()
    operation.run()
    sent = array("q", [after - was for after, was in zip(counters.read(), before, strict=True)])
    everyone = array("q", bytes(8 * len(sent) * comm.size)) if comm.rank == ROOT else None
    comm.Gather(
        [sent, MPI.LONG_LONG], [everyone, MPI.LONG_LONG] if everyone is not None else None, ROOT
    )
    if everyone is None:
        return 0, 0, 0
    rows = [everyone[at : at + len(sent)] for at in range(0, len(everyone), len(sent))]
    messages, volume = (
        sum(sum(row[part]) for row in rows) for part in (slice(comm.size), slice(comm.size, None))
    )
    return messages, volume, zlib.crc32(everyone.tobytes())


def main(words: list[str], comm: Any) -> None:
    parser = common.options(
        "Times a collective, or counts its messages.",
        algorithm={"required": True, "help": "label of what the environment sets"},
        sizes={"required": True, "type": common.whole_numbers},
        repetitions={"type": int, "default": 200, "help": "most repetitions of a size"},
        volume_mib={
            "type": int,
            "default": 64,
            "help": "MiB of a size after which fewer repetitions are made",
        },
        budget_s={"type": float, "default": 2.0, "help": "seconds for all sizes together"},
        count={"action": "store_true", "help": "count messages and time nothing"},
        call={"action": "store_true", "help": "call it once, and nothing else but MPI_Barrier"},
    )
    parser.add_argument("collective")
    asked = parser.parse_args(words)
    time.sleep(common.PAUSE_S)
    make = getattr(common.Collectives(comm), asked.collective.lower())
    counters = Counters(comm) if asked.count else None
    kind = (
        "collective_calls" if asked.call else "message_counts" if counters else "collective_times"
    )
    lines = common.Lines(comm, kind, benchmark=asked.collective, algorithm=asked.algorithm)
    gc.disable()
    clock = time.perf_counter
    ends = time.perf_counter() + asked.budget_s
    for done, size in enumerate(asked.sizes):
        operation = make(size)
        operation.check(f"{asked.collective} of {size} bytes")
        if asked.call:
            comm.Barrier()
            lines.row(bytes=size)
        elif counters:
            messages, volume, pattern = count(comm, counters, operation)
            lines.row(bytes=size, messages=messages, sent_bytes=volume, pattern=f"{pattern:x}")
        else:
            most = max(FEWEST, min(asked.repetitions, (asked.volume_mib << 20) // size))
            times = measure(
                comm, operation, most, max(0.0, ends - clock()) / (len(asked.sizes) - done)
            )
            lines.row(
                bytes=size,
                repetitions=len(times),
                p50_us=common.microseconds(statistics.median(times or [0.0])),
            )
        del operation
        gc.collect()
    lines.end()


if __name__ == "__main__":
    main(sys.argv[1:], MPI.COMM_WORLD)
