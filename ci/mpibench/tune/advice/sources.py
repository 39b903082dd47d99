"""Which measured curve says what a call takes.

A row of :data:`SOURCES` is a benchmark that times the call; of several the first counts that all stacks have, because two
suites do not time alike and are never compared. Message sizes mean the same in all of them
(:mod:`mpibench.tune.profiles.record`).

Point-to-point messages take the one-way time of a ping-pong, one for each send, and one more for each blocking receive, whose
rank waits as long; receives have the sizes of the sends, as profilers know the size of the buffer at best. What completes
nonblocking messages (MPI_Waitall) takes no time of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CallBenchmark:
    """A benchmark that times a call.

    :param group: of the test that measures it.
    :param quantity: the column that is the time of a call, in us.
    :param pair: it is between two ranks, however many the job has.
    :param instead: what it times where that is not the call itself, for a sentence.
    """

    suite: str
    benchmark: str
    group: str
    quantity: str = "t_avg_us"
    pair: bool = False
    instead: str = ""

    @property
    def text(self) -> str:
        """For a reader: suite and benchmark."""
        return f"{self.suite} {self.benchmark}"


#: In these, one program times a call several times, once against each mock-up: ``Bcast-vs-...``.
GUIDELINES = "guidelines"
_PAIRS = (
    CallBenchmark("imb", "PingPong", "p2p", "latency_us", True),
    CallBenchmark("osu", "osu_latency", "p2p_osu", "latency_us", True),
    CallBenchmark("mpi4py", "pingpong", "p2p_mpi4py", "latency_us", True),
)
_INSTEAD = "one message of a ping-pong"
#: Benchmarks of collective calls: those IMB and OSU both have, and whether the guidelines time the call.
_COLLECTIVES = {
    "Allgather": True,
    "Allgatherv": False,
    "Allreduce": True,
    "Alltoall": True,
    "Alltoallv": False,
    "Barrier": False,
    "Bcast": True,
    "Gather": True,
    "Gatherv": False,
    "Reduce": True,
    "Reduce_scatter": True,
    "Scatter": True,
    "Scatterv": False,
}
#: Collectives that IMB has no benchmark of, or one with another meaning of its size.
_OTHERS = {"Reduce_scatter_block": ("osu", GUIDELINES), "Scan": (GUIDELINES,)}
#: Nonblocking collectives, as IMB times the call with its completion and nothing beside it.
_NONBLOCKING = (
    *("Iallgather", "Iallgatherv", "Iallreduce", "Ialltoall", "Ialltoallv", "Ibarrier", "Ibcast", "Igather", "Igatherv"),
    *("Ireduce", "Ireduce_scatter", "Iscatter", "Iscatterv"),
)


def _guidelines(call: str) -> CallBenchmark:
    return CallBenchmark(GUIDELINES, call, GUIDELINES, "call_us")


def _osu(call: str) -> CallBenchmark:
    return CallBenchmark("osu", f"osu_{call.lower()}", "collectives_osu")


def _collective(call: str) -> tuple[CallBenchmark, ...]:
    also = (_guidelines(call),) if _COLLECTIVES[call] else ()
    return (CallBenchmark("imb", call, "collectives"), _osu(call), *also)


#: Calls that begin a message.
SENDS = ("Send", "Bsend", "Rsend", "Ssend", "Isend", "Ibsend", "Irsend", "Issend")
#: Calls between two ranks, whatever the size of their communicator.
PAIRED = (*SENDS, "Sendrecv", "Sendrecv_replace")
#: Calls in which a rank waits for a message.
RECEIVES = ("Recv", "Mrecv")
#: Calls whose time is that of messages begun elsewhere.
COMPLETIONS = (
    *("Irecv", "Imrecv", "Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall", "Testany", "Testsome"),
    *("Probe", "Iprobe", "Mprobe", "Improbe"),
)
#: What times each call.
SOURCES: Mapping[str, tuple[CallBenchmark, ...]] = {
    **dict.fromkeys(SENDS, _PAIRS),
    **{
        call: (
            CallBenchmark("imb", "Sendrecv", "transfer"),
            *(CallBenchmark(one.suite, one.benchmark, one.group, one.quantity, True, _INSTEAD) for one in _PAIRS),
        )
        for call in ("Sendrecv", "Sendrecv_replace")
    },
    **{call: _collective(call) for call in _COLLECTIVES},
    **{
        call: tuple(_osu(call) if suite == "osu" else _guidelines(call) for suite in suites) for call, suites in _OTHERS.items()
    },
    **{call: (CallBenchmark("imb", f"{call}_pure", "nonblocking_pure"),) for call in _NONBLOCKING},
}
#: Groups of tests that are asked, and quantities.
GROUPS = tuple(sorted({one.group for rows in SOURCES.values() for one in rows}))
QUANTITIES = tuple(sorted({one.quantity for rows in SOURCES.values() for one in rows}))
