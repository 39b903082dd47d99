"""Latency and bandwidth of all pairs of nodes, or of a sample of them, in rounds. An instrument of the tests."""

import re

from ...pairs import instrument_path
from ...pairs.output import TITLE
from ..model import Script, Suite
from . import output, rows

SUITE = Suite(
    name=rows.NAME,
    title="the instrument of pair maps",
    first_line=re.compile(rf"^{re.escape(TITLE)}\r?$", re.MULTILINE),
    parse=output.parse,
    rows=rows.ROWS,
    groups=rows.GROUPS,
    arguments=rows.arguments,
    sizes=rows.sizes,
    script=Script(instrument_path.PATH, "mpi4py.bench", "mpi4py"),
    said=output.said,
    compares_data=True,
)
