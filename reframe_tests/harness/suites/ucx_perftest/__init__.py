"""ucx_perftest: what UCX reaches between two nodes without an MPI. Its outputs are read; no test starts it."""

from .. import pair
from ..model import Suite
from . import output

SUITE = Suite(name=output.NAME, title=output.NAME, first_line=pair.title(output.NAME), parse=output.parse, rows=())
