"""Collectives with their algorithms, as named in records and tests."""

#: What the variant of every record begins with; the label of the algorithm follows.
VARIANT = "algorithm="
#: The group that measures them, and what it measures: the median over the
#: repetitions, each the time of its slowest rank.
GROUP = "algorithms"
QUANTITY = "call_us"
#: All that can be measured; those with a buffer of one block for each rank.
IN_BLOCKS = (
    "Alltoall",
    "Alltoallv",
    "Allgather",
    "Allgatherv",
    "Gather",
    "Gatherv",
    "Scatter",
    "Scatterv",
)
COLLECTIVES = (
    "Allreduce",
    "Bcast",
    "Reduce",
    *IN_BLOCKS,
    "Reduce_scatter_block",
    "Reduce_scatter",
    "Scan",
)
