"""Whether striping took place: of large messages, each rail of a striped fabric carried its share.

That a fabric as a whole carried the bytes is shown by :mod:`.counters`; it would hold as well if all had taken one rail.
What no counter shows is whether each message was split: whole messages that take the rails in turn leave the same sums. Only
time tells: a message that is sent alone, after the one before has arrived, and stays whole cannot be faster than its rail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..machine.fabric import Fabric
from ..printable import format_bytes
from .counters import OTHER_FLOOR_BYTES, Finding, NodeTraffic, chosen_by, counter_names, node_traffic, total_sent
from .rank_records import RankEvidence

#: Part of its fair share that each rail must have carried of messages that are striped: MPIs split by rates they estimate, and
#: send heads, tails and small fragments over one rail; a rail that is not in use carries nothing.
LEAST_FAIR_SHARE = 0.5
#: Messages from this size on are striped by every MPI (thresholds in their manuals: MVAPICH2 16 KiB, ob1's tcp BTL 128 KiB of
#: eager and first fragment; UCX by its own estimate of the links).
STRIPED_FROM_BYTES = 1 << 20


def check_stripes(
    ranks: Sequence[RankEvidence], fabric: Fabric, striped_bytes: float, alone_mb_per_s: float | None = None
) -> Finding:
    """Whether each rail of a striped fabric carried its share; nothing is said of any other.

    :param striped_bytes: lower bound of the payload that all nodes together sent in messages of at least
        :data:`STRIPED_FROM_BYTES`.
    :param alone_mb_per_s: bandwidth of such messages one at a time; ``None`` where all were sent several at a time.
    """
    if not fabric.striped:
        return Finding()
    nodes = node_traffic(ranks)
    if striped_bytes <= OTHER_FLOOR_BYTES * len(nodes):
        size = format_bytes(STRIPED_FROM_BYTES)
        said = f"that {fabric.name} was striped is not shown: no pairs of ranks exchanged enough messages of {size} and more"
        return Finding(notes=[said])
    sentences = _uneven(nodes, fabric, striped_bytes, chosen_by(ranks))
    return Finding(sentences, [] if sentences else [describe_splitting(fabric, alone_mb_per_s)])


def describe_splitting(fabric: Fabric, alone_mb_per_s: float | None) -> str:
    """Note on whether messages were split, or whole ones took the rails in turn, as far as their times tell.

    :param alone_mb_per_s: as of :func:`check_stripes`.
    """
    rates = [rail.line_rate_gbit_per_s for rail in fabric.rails]
    fastest = None if None in rates else max(rate or 0.0 for rate in rates)
    gbit_per_s = (alone_mb_per_s or 0.0) * 8 / 1000
    if fastest is not None and gbit_per_s > fastest:
        return (
            f"each message was split over the rails of {fabric.name}: one at a time took {gbit_per_s:.3g} Gbit/s, and its "
            f"fastest rail has {fastest:g}"
        )
    return (
        f"all rails of {fabric.name} carried their share; whether each message was split, or whole messages took the rails in "
        "turn, no counter tells, and no message that was sent alone was faster than one rail"
    )


def _uneven(nodes: Sequence[NodeTraffic], fabric: Fabric, striped_bytes: float, settings: str) -> list[str]:
    """Sentences on rails that did not carry their share.

    :param settings: what was set to choose the network.
    """
    names, carried = counter_names(fabric), total_sent(nodes)
    if any(name not in carried for name in names):
        return []  # which node lacks a rail is said elsewhere
    rates = [rail.line_rate_gbit_per_s for rail in fabric.rails]
    weights = [1.0 if None in rates or rate is None else rate for rate in rates]
    fair = {name: striped_bytes * weight / sum(weights) for name, weight in zip(names, weights, strict=True)}
    listed = ", ".join(f"{name} carried {format_bytes(carried[name])}" for name in names)
    said = [
        f"asked for {fabric.name} striped over {len(names)} rails, but {name} carried less than half of the "
        f"{format_bytes(fair[name])} that are its share of large messages: {listed}{settings}."
        for name in names
        if carried[name] < LEAST_FAIR_SHARE * fair[name]
    ]
    return said or [sentence for node in nodes for sentence in _idle_rails(node, fabric, fair, len(nodes), settings)]


def _idle_rails(node: NodeTraffic, fabric: Fabric, fair: Mapping[str, float], nodes: int, settings: str) -> Iterator[str]:
    """Rails that one node left idle: two nodes that each use one rail, but not the same, carry equal sums.

    A node that sent less than half of an even part is not judged: where data goes one way, it only acknowledges.
    """
    sent = {name: node.counted[name].tx or 0 if name in node.counted else 0 for name in fair}
    if sum(sent.values()) < LEAST_FAIR_SHARE * sum(fair.values()) / nodes:
        return
    for name, count in sent.items():
        if count < LEAST_FAIR_SHARE * fair[name] / nodes:
            listed = ", ".join(f"{each} carried {format_bytes(of)}" for each, of in sent.items())
            yield f"asked for {fabric.name} striped over {len(fair)} rails, but on {node.host} {listed}{settings}."
