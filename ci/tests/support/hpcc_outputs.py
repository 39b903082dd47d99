"""Outputs of HPCC with other numbers than the recorded one, in its sections and in its summary."""

import re

from studies.output_damage import golden

#: On a grid of 1 x 2 ranks.
TEXT = golden("hpcc-1.5.0-n2.txt")


def on_grid(rows: int, columns: int) -> str:
    """The recorded output on another grid; the transform takes a power of two."""
    ranks = rows * columns
    counts = {
        "CommWorldProcs": ranks,
        "HPL_nprow": rows,
        "HPL_npcol": columns,
        "PTRANS_nprow": rows,
        "PTRANS_npcol": columns,
    }
    counts["MPIFFT_Procs"] = 1 << (ranks.bit_length() - 1)
    text = TEXT.replace("Number of nodes: 2\n", f"Number of nodes: {counts['MPIFFT_Procs']}\n")
    text = text.replace("Running on 2 processors", f"Running on {ranks} processors")
    text = re.sub(
        r"(?m)^((?:W\w+ +640|(?:WALL|CPU ) +320 +320  80)  +80 +)1 +2 ",
        rf"\g<1>{rows} {columns} ",
        text,
    )
    return re.sub(
        rf"(?m)^({'|'.join(counts)})=\d+$", lambda match: f"{match[1]}={counts[match[1]]}", text
    )
