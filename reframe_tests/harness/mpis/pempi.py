"""IBM Parallel Environment MPI on AIX: POE's MP_* variables choose protocol and links.

At its highest message level POE reports what it uses: "D1<L4>: mp_euilib = ip" (PE for AIX,
Hitchhiker's Guide, Appendix A, "A Sample Program to Illustrate Messages"). It has no line for
links; only their own counters would distinguish them.

It could not be run here: everything below is from IBM's manuals and paper.
"""

from __future__ import annotations

from ..machine.gpu import KINDS
from .model import Mpi
from .transport import MANY_RAILS, ONE_RAIL, Gap, Proof, Range, TransportRow, gaps

_VERSIONS = Range((4, 2))
_MANUAL = (
    "Parallel Environment for AIX, Operation and Use, 'POE environment variables' (MP_EUILIB, "
    "MP_EUIDEVICE, MP_SHARED_MEMORY); 'High Performance Computing for AIX Using InfiniBand' "
    "(2007), Appendix A and B"
)
_DEBUG = {"MP_INFOLEVEL": "6"}


def _protocol(name: str) -> Proof:
    return Proof("POE protocol", r"mp_euilib = (\w+)", (name,))


_ROWS: tuple[TransportRow, ...] = (
    TransportRow(
        "verbs",
        _VERSIONS,
        _MANUAL,
        # User space over InfiniBand: MPI over LAPI over the HAL, which loads the verbs library.
        env={"MP_EUILIB": "us"},
        debug_env=_DEBUG,
        by_scope={"node": {"MP_SHARED_MEMORY": "no"}, "cluster": {"MP_SHARED_MEMORY": "yes"}},
        # sn_single gives each task one link, of several in turn; sn_all gives each task all
        # (appendix B). The paper measured one link with the first and two or four with the second
        # (appendix A).
        by_rails={ONE_RAIL: {"MP_EUIDEVICE": "sn_single"}, MANY_RAILS: {"MP_EUIDEVICE": "sn_all"}},
        proofs=(_protocol("us"),),
    ),
    TransportRow(
        "tcp",
        _VERSIONS,
        _MANUAL,
        env={"MP_EUILIB": "ip", "MP_EUIDEVICE": "{device}"},
        debug_env=_DEBUG,
        by_scope={"node": {"MP_SHARED_MEMORY": "no"}, "cluster": {"MP_SHARED_MEMORY": "yes"}},
        proofs=(_protocol("ip"),),
    ),
    TransportRow(
        "shm",
        _VERSIONS,
        _MANUAL,
        env={"MP_SHARED_MEMORY": "yes", "MP_EUILIB": "ip"},
        debug_env=_DEBUG,
        proofs=(_protocol("ip"),),
        note="That messages stay in shared memory is not said: only counters that stand still "
        "show it.",
    ),
)

MPI = Mpi(
    name="pempi",
    title="IBM PE MPI",
    abi="pempi",
    launchers=("poe",),
    settings=("MP_",),
    rows=_ROWS,
    gaps=(
        *gaps(
            _ROWS,
            (4, 2),
            "IBM PE MPI before 4.2 has no row here: use 4.2 or newer.",
            "IBM PE MPI for AIX cannot use {transport}: use transport verbs or tcp.",
        ),
        *(
            Gap(
                row.transport,
                Range((0,)),
                "IBM PE MPI for AIX knows no GPUs: use host memory.",
                tuple(KINDS),
            )
            for row in _ROWS
        ),
    ),
    untested="it comes with IBM's AIX only",
)
