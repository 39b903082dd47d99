"""The transport table: every row and every gap, and what a library prints on stdout; one file per MPI."""

from __future__ import annotations

import re
from collections.abc import Mapping

from . import intelmpi, mpich, mvapich2, openmpi, pempi
from .transport import Gap, TransportRow

ROWS: tuple[TransportRow, ...] = (
    *intelmpi.ROWS,
    *mpich.ROWS,
    *openmpi.ROWS,
    *mvapich2.ROWS,
    *pempi.ROWS,
)

GAPS: tuple[Gap, ...] = (
    *intelmpi.GAPS,
    *mpich.GAPS,
    *openmpi.GAPS,
    *mvapich2.GAPS,
    *pempi.GAPS,
)

#: MPI to a pattern of whole lines that it can print on stdout only, among the benchmark's.
STDOUT_LINES: Mapping[str, re.Pattern[str]] = {**intelmpi.STDOUT_LINES, **mpich.STDOUT_LINES}
