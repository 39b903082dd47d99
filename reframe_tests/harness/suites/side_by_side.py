"""Programs side by side on one node: how their numbers are kept apart, for the suite and its test.

A node shared by independent programs of one job is section 3.5 of the Cambridge white paper on
Westmere and QDR InfiniBand (2011), which calls such a program a joblet.
"""

from __future__ import annotations

#: Name of the suite, and of its group.
NAME = "sharing"
#: How a program was measured: by itself, on the cores it has beside the
#: others; or at the same time as the others.
ALONE = "alone"
SHARED = "shared"
#: Throughput of a program beside the others, as a share of what it reaches alone.
RATIO = "shared_over_alone"


def variant(programs: int | str, program: int | str, how: str = "") -> str:
    """What keeps the numbers of one program apart from those of the
    others, and of other numbers of programs.
    """
    return ",".join(filter(None, (f"programs={programs}", f"program={program}", how)))
