"""Our own MPI programs, which a stack's Python runs and which share
:mod:`common`, and the reader of what they print.
"""

from pathlib import Path

#: Where the programs are.
FOLDER = Path(__file__).parent
