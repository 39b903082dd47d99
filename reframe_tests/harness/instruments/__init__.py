"""Our MPI programs, run by a stack's Python with :mod:`common`, and a reader of their output."""

from pathlib import Path

#: Where the programs are.
FOLDER = Path(__file__).parent
