"""Times Barrier and small collectives on the first 2, 4, 8, ...
nodes of a job and prints percentiles of each.

``python growth.py --nodes 2,4 --ppn 1 --repetitions 1000 Barrier Allreduce:8``

One repetition is the call after an MPI_Barrier of the same ranks; its time is that of the slowest
rank, from its own return of the barrier on. Percentiles are over the repetitions, by the nearest
rank, so that each is a time that was measured. Ranks that take no part sleep, and look every
millisecond whether it is over. The interpreter adds about 1 us to each call.
"""

from __future__ import annotations

import gc
import sys
import time
from array import array
from pathlib import Path
from typing import Any

from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from reframe_tests.harness.instruments import common

#: Repetitions that are not counted: connections are made and caches filled.
WARM_UP = 10


def measure(comm: Any, operation: common.Operation, repetitions: int) -> list[float]:
    """Time of the slowest rank in each repetition, in seconds; on
    other ranks than the first, nothing.
    """
    own = array("d")
    clock = time.perf_counter
    for repetition in range(WARM_UP + repetitions):
        comm.Barrier()
        begin = clock()
        operation.run()
        if repetition >= WARM_UP:
            own.append(clock() - begin)
    return common.slowest(comm, own)


def main(words: list[str], comm: Any) -> None:
    parser = common.options(
        "Times small collectives on growing node counts.",
        nodes={"required": True, "type": common.whole_numbers},
        ppn={
            "required": True,
            "type": int,
            "help": "ranks of each node, which they fill in blocks",
        },
        repetitions={"required": True, "type": int},
    )
    parser.add_argument("rows", nargs="+", metavar="NAME[:SIZE,...]")
    asked = parser.parse_args(words)
    time.sleep(common.PAUSE_S)
    names = comm.allgather(MPI.Get_processor_name())
    for count in asked.nodes:
        there = len(set(names[: count * asked.ppn]))
        if comm.rank == 0 and (there != count or count * asked.ppn > comm.size):
            common.give_up(
                f"the first {count * asked.ppn} of {comm.size} ranks are on {there} nodes and "
                f"not on {count}"
            )
    comm.Barrier()
    lines = common.Lines(comm, "growth", ppn=asked.ppn)
    gc.disable()
    groups = [
        (nodes, comm.Split(0 if comm.rank < nodes * asked.ppn else MPI.UNDEFINED, comm.rank))
        for nodes in asked.nodes
    ]
    for row in asked.rows:
        name, _, listed = row.partition(":")
        for nodes, group in groups:
            for size in common.whole_numbers(listed) if listed else (None,):
                common.wait(comm.Ibarrier())
                if group == MPI.COMM_NULL:
                    continue
                operation = getattr(common.Collectives(group, ("d", MPI.DOUBLE)), name.lower())(
                    size or 0
                )
                operation.check(f"{name} of {size or 0} bytes on {nodes} nodes")
                if times := measure(group, operation, asked.repetitions):
                    lines.row(
                        benchmark=name,
                        nodes=nodes,
                        bytes=size,
                        repetitions=len(times),
                        **common.summary_us(times),
                    )
    common.wait(comm.Ibarrier())
    lines.end()


if __name__ == "__main__":
    main(sys.argv[1:], MPI.COMM_WORLD)
