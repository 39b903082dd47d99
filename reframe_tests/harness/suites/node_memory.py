"""STREAM in the catalogue: what is measured of a node's memory, in which variants. It belongs to no
stack; ``memory`` runs it.
"""

from __future__ import annotations

from .model import Group

#: Name of the suite and of its group. The memory of a node stands where others have their fabric.
NAME = "stream"
GROUP_NAME = "memory"
FABRIC = "memory"
#: STREAM's four kernels, as it prints them; their best rate over the repetitions.
KERNELS = ("Copy", "Scale", "Add", "Triad")
QUANTITY = "bandwidth_mb_per_s"
#: Where a thread's memory is.
PLACEMENTS = ("local", "remote", "interleaved")
#: Page cache before the arrays are made: what the node happens
#: to have, or all memory that was free.
AS_IS = "as_is"
FILLED = "filled"
PAGE_CACHES = (AS_IS, FILLED)

GROUP = Group(
    "Bandwidth of a node's memory, one pinned thread a core, local, remote or interleaved (STREAM)"
)


def variant(memory: str, page_cache: str) -> str:
    """What keeps the numbers of two placements apart: ``local,cache_filled``."""
    return f"{memory},cache_{page_cache}"


#: Every variant.
VARIANTS = tuple(variant(memory, page_cache) for memory in PLACEMENTS for page_cache in PAGE_CACHES)
