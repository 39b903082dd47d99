"""A program of ours whose ranks believe that each is on a node of
its own: ``named_ranks.py PROGRAM WORD...``.
"""

import runpy
import sys

from mpi4py import MPI

MPI.Get_processor_name = lambda: f"n{MPI.COMM_WORLD.rank}"
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
