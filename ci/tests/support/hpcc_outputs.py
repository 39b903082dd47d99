"""Outputs of HPCC on other grids of ranks than the recorded one: it prints the same lines for all of two ranks and more."""

import re

from studies.output_damage import golden

#: On a grid of 1 x 2 ranks.
TEXT = golden("hpcc-1.5.0-n2.txt")


def on_grid(rows: int, columns: int) -> str:
    """The recorded output with the counts of another grid in its summary; the transform takes a power of two."""
    ranks = rows * columns
    counts = {"CommWorldProcs": ranks, "HPL_nprow": rows, "HPL_npcol": columns, "PTRANS_nprow": rows, "PTRANS_npcol": columns}
    counts["MPIFFT_Procs"] = 1 << (ranks.bit_length() - 1)
    return re.sub(rf"(?m)^({'|'.join(counts)})=\d+$", lambda found: f"{found[1]}={counts[found[1]]}", TEXT)
