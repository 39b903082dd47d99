"""The transport table: every row and every gap, and what a library prints on stdout; one file per MPI."""

from __future__ import annotations

import re
from collections.abc import Mapping

from . import (
    transport_rows_intelmpi,
    transport_rows_mpich,
    transport_rows_mvapich2,
    transport_rows_openmpi,
    transport_rows_pempi,
)
from .transport_rows import Gap, TransportRow

ROWS: tuple[TransportRow, ...] = (
    *transport_rows_intelmpi.ROWS,
    *transport_rows_mpich.ROWS,
    *transport_rows_openmpi.ROWS,
    *transport_rows_mvapich2.ROWS,
    *transport_rows_pempi.ROWS,
)

GAPS: tuple[Gap, ...] = (
    *transport_rows_intelmpi.GAPS,
    *transport_rows_mpich.GAPS,
    *transport_rows_openmpi.GAPS,
    *transport_rows_mvapich2.GAPS,
    *transport_rows_pempi.GAPS,
)

#: MPI to a pattern of whole lines that it can print on stdout only, among the benchmark's.
STDOUT_LINES: Mapping[str, re.Pattern[str]] = {**transport_rows_intelmpi.STDOUT_LINES, **transport_rows_mpich.STDOUT_LINES}
