"""Whose cores are whose: the cores of a node dealt to several programs of equal size.

The ranks of a node (``ppn``) are those of all its programs. The policies are those of the ranks of one program
(:mod:`machine.placement`), with these meanings for several:

- ``bunch``: each program on as few NUMA nodes and sockets as possible, so that it shares caches and memory with as few of the
  others as can be.
- ``scatter``: each program spread equally over the sockets, as the ``joblets`` script of the Cambridge white paper on Westmere
  and QDR InfiniBand (2011, section 3.5) does it: "scatter processes evenly between sockets".
- ``default``: each launch is unaware of the others, and the stack pins it as if it had the node for itself. ``none``: nothing
  is pinned, as the same section recommends where programs are not of equal size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...machine import placement
from ...machine.placement import UNLISTED, RankPlacement
from ...machine.topology import ProcessingUnit, Topology
from ...vocabulary import BadInput, NotMeasured

#: Policies that mean something for programs that leave no node.
POLICIES = (*UNLISTED, "bunch", "scatter")
#: Where a program is kept together, narrowest first.
_LEVELS: tuple[Callable[[ProcessingUnit], tuple[int | None, ...]], ...] = (
    lambda unit: (unit.socket, unit.numa),
    lambda unit: (unit.socket,),
    lambda unit: (),
)
_Core = tuple[ProcessingUnit, ...]


def ranks_of_program(programs: int, ppn: int) -> int:
    """Ranks of each of several programs that are all the ranks of a node.

    :raises BadInput: for less than two programs.
    :raises NotMeasured: if they cannot be of equal size.
    """
    if programs < 2:
        raise BadInput(f"programs={programs} shares a node with nobody: ask for 2 or more; each is measured alone as well.")
    if ppn % programs:
        fitting = ppn // programs * programs
        instead = f"; -P ppn={fitting} would do" if fitting else ""
        raise NotMeasured(f"{ppn} rank{'s'[: ppn != 1]} of a node are not {programs} programs of equal size{instead}")
    return ppn // programs


def deal(policy: str, programs: int, ppn: int, topology: Topology) -> tuple[RankPlacement, ...]:
    """Where the ranks of each program go; of all programs together, no two ranks on one core.

    :param ppn: ranks of all programs on the node.
    :raises BadInput: for less than two programs.
    :raises NotMeasured: for a policy without a meaning here, programs of unequal size, or more ranks than cores.
    """
    ranks = ranks_of_program(programs, ppn)
    if policy not in POLICIES:
        raise NotMeasured(f"pinning={policy} means nothing for programs that leave no node; there are {', '.join(POLICIES)}")
    if policy in UNLISTED:
        return (RankPlacement(policy, ranks, None, topology),) * programs
    if ppn > len(topology.cores):
        raise NotMeasured(
            f"{programs} programs of {ranks} ranks need {ppn} cores of their own and the node has {len(topology.cores)}"
        )
    if policy == "scatter":
        every = placement.place("scatter", ppn, topology).ranks or ()
        shares = [every[first : first + ranks] for first in range(0, ppn, ranks)]
    else:
        shares = _bunch(programs, ranks, topology.cores)
    return tuple(RankPlacement(policy, ranks, tuple(share), topology) for share in shares)


def first_equal(policy: str, policies: Sequence[str], programs: int, ppn: int, topology: Topology) -> str:
    """The first of these policies that gives each program the same cores as ``policy``; that itself if none does."""
    wanted = deal(policy, programs, ppn, topology)
    for other in policies:
        if other in POLICIES and all(map(placement.equivalent, deal(other, programs, ppn, topology), wanted)):
            return other
    return policy


def _bunch(programs: int, ranks: int, cores: Sequence[_Core]) -> list[tuple[tuple[int, ...], ...]]:
    """For each program the first NUMA node, else socket, with room for all of it; else the first cores that are left."""
    left = list(cores)
    shares: list[tuple[tuple[int, ...], ...]] = []
    for _ in range(programs):
        share = next(group[:ranks] for level in _LEVELS for group in _groups(left, level) if len(group) >= ranks)
        left = [core for core in left if core not in share]
        shares.append(tuple((core[0].cpu,) for core in share))
    return shares


def _groups(cores: Sequence[_Core], level: Callable[[ProcessingUnit], tuple[int | None, ...]]) -> list[list[_Core]]:
    groups: dict[tuple[int | None, ...], list[_Core]] = {}
    for core in cores:
        groups.setdefault(level(core[0]), []).append(core)
    return list(groups.values())
