"""Latency between nodes alone and while other ranks of the same nodes stream. An instrument of the tests, from two nodes on."""

import re
from pathlib import Path

from ..model import Script, Suite
from . import output, rows

SUITE = Suite(
    name=rows.NAME,
    title="the instrument of latency under load",
    first_line=re.compile(rf"^{re.escape(output.TITLE)}\r?$", re.MULTILINE),
    parse=output.parse,
    rows=rows.ROWS,
    groups=rows.GROUPS,
    arguments=rows.arguments,
    sizes=rows.sizes,
    script=Script(Path(__file__).with_name("instrument.py"), "mpi4py.bench", "mpi4py"),
)
