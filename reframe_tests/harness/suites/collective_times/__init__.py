"""One collective under one algorithm: its time by message size, or the messages it sends. An instrument of the tests."""

import re
from pathlib import Path

from ..model import Script, Suite
from . import output, rows

SUITE = Suite(
    name=rows.NAME,
    title="the instrument of collective algorithms",
    first_line=re.compile(rf"^{re.escape(output.TITLE)}\r?$", re.MULTILINE),
    parse=output.parse,
    rows=rows.ROWS,
    groups=rows.GROUPS,
    arguments=rows.arguments,
    sizes=rows.sizes,
    script=Script(Path(__file__).with_name("instrument.py"), "mpi4py.bench", "mpi4py"),
)
