"""What the ranks' clocks say of their nodes' clocks: a node whose calendar clock is wrong loses credentials and log order.

Benchmarks time with CLOCK_MONOTONIC, so a wrong calendar clock does not change a number; but munge and Kerberos refuse
credentials that are 300 s off (``munge(7)``, time-to-live; RFC 4120, section 1.6), and then the node is lost to its cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from .rank_records import RankEvidence

#: Difference in s from which clocks are called wrong: far more than ranks of one world may be apart when MPI_Init returns to
#: them and when they call MPI_Finalize, and a tenth of what munge and Kerberos bear.
TOLERANCE_S = 30.0


def check_clocks(ranks: Sequence[RankEvidence]) -> list[str]:
    """Sentences for nodes whose clock jumped during the run, and unless all nodes' clocks agree.

    Two nodes disagree when the ranks were apart in the same sense both after MPI_Init and before MPI_Finalize, by the
    smaller of the two differences.
    """
    first: dict[str, RankEvidence] = {}
    for rank in ranks:
        if rank.finalize:
            first.setdefault(rank.host, rank)
    there = [first[host] for host in sorted(first)]
    sentences = [
        f"the clock of {rank.host} jumped by {jump:+.0f} s during the run; see its time service (NTP, chrony)."
        for rank in there
        if abs(jump := _jump_s(rank)) > TOLERANCE_S
    ]
    if len(there) < 2 or sentences:
        return sentences
    ahead, behind = max(there, key=_at_init_s), min(there, key=_at_init_s)
    apart = min(_at_init_s(ahead) - _at_init_s(behind), _at_end_s(ahead) - _at_end_s(behind))
    if apart <= TOLERANCE_S:
        return []
    return [
        f"the clocks of {ahead.host} and {behind.host} disagree by {apart:.0f} s ({ahead.host} is ahead); see their time "
        "service (NTP, chrony)."
    ]


def _at_init_s(rank: RankEvidence) -> float:
    return rank.init.realtime_ns / 1e9


def _at_end_s(rank: RankEvidence) -> float:
    return rank.finalize.realtime_ns / 1e9 if rank.finalize else _at_init_s(rank)


def _jump_s(rank: RankEvidence) -> float:
    """Calendar time that passed between the snapshots beyond the time that passed."""
    return _at_end_s(rank) - _at_init_s(rank) - (rank.seconds or 0.0)
