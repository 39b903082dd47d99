"""Programs that stand for osu_init and osu_hello of OMB 7.5: they print
what those do, and start ranks of a real MPI.
"""

from __future__ import annotations

import json
from pathlib import Path

from reframe_tests.harness.stacks.stack import Stack
from synthetic_stack import sealed

#: Title, and the line of rank 0 in a program's words; whole milliseconds, as osu_init.c has them.
INIT = ("# OSU MPI Init Test v7.5", "nprocs: {size}, min: {low} ms, max: {high} ms, avg: {mean} ms")
HELLO = ("# OSU MPI Hello World Test v7.5", "This is a test with {size} processes")
_PROGRAM = """#!{python}
import time
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
begun = time.monotonic()
MPI.Init()
spent, world = int(1e3 * (time.monotonic() - begun)), MPI.COMM_WORLD
low, high, total = (world.reduce(spent, each) for each in (MPI.MIN, MPI.MAX, MPI.SUM))
if world.rank == 0:
    for line in {lines!r}:
        print(line.format(size=world.size, low=low, high=high, mean=total // world.size))
MPI.Finalize()
"""


def add_to(
    stack: Stack, folder: Path, init: tuple[str, ...] = INIT, hello: tuple[str, ...] = HELLO
) -> str:
    """A stack ``NAME-startup`` in a folder of its own: a stack with
    mpi4py, and these two programs. Returns its name.

    :param init: lines that osu_init prints; ``hello``: those of osu_hello.
    """
    document = json.loads(Path(stack.source).read_text())
    python = document["commands"]["mpi4py.bench"][0]
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in (("osu_init", init), ("osu_hello", hello)):
        program = folder / name
        program.write_text(_PROGRAM.format(python=python, lines=lines))
        program.chmod(0o755)
        document["binaries"][name] = str(program)
    document["suites"]["osu"] = {"version": "7.5", "built_with": "these tests"}
    document["name"] = f"{stack.mpi}-startup"
    (folder / "stack.json").write_text(json.dumps(sealed(document)))
    return str(document["name"])
