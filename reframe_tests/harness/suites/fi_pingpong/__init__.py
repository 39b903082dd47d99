"""fi_pingpong: what libfabric reaches between two nodes without an MPI."""

from .. import pair
from ..model import Suite
from . import output, rows

SUITE = Suite(
    name=output.NAME,
    title=output.NAME,
    first_line=pair.title(output.NAME),
    parse=output.parse,
    rows=rows.ROWS,
    pairs=rows.PAIRS,
)
