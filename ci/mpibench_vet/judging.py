"""What a session says of each node: reasons, from the answers of the core.

Detections are those of :mod:`mpibench.locate`, at its rate of false positives for each map; a
node's memory is held against the others' by an exact test (:func:`of_memory`). Bandwidth is held
against what earlier maps of the partition reached, or, if there are none, against the least that
the site's description wants of the line rate; that has no rate of its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb

import msgspec
import polars as pl

from mpibench.locate.findings import MapJudgement
from mpibench.locate.maps import NODE
from mpibench.store.sessions import Case
from reframe_tests.harness.cases.preflight import node_judgement
from reframe_tests.harness.cases.preflight.node_judgement import OddNodes
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, PairMap
from reframe_tests.harness.printable import first_line

from .reasons import FACTS, MEMORY, NodeReason, Why

#: Share of the bandwidth of earlier maps below which a node is too slow.
LEAST_OF_LEARNED = 0.85
#: Loss of memory bandwidth from which on a node is called slow, as a share; and false
#: positives that the test may give in a run.
MEMORY_LOSS = 0.15
MEMORY_RATE = 0.05


@dataclass(frozen=True)
class PartitionLevel:
    """What a link of the partition gives.

    :param mb_per_s: bandwidth of one direction of a pair.
    :param least: share of it that a node must reach.
    :param what: it is, as text.
    """

    mb_per_s: float
    least: float
    what: str


def not_measured(nodes: Iterable[str], check: str, why: str) -> list[NodeReason]:
    said = first_line(why)
    return [NodeReason(node, check, Why.NOT_MEASURED, {"said": said}) for node in nodes]


def of_facts(case: Case | None, nodes: Sequence[str]) -> list[NodeReason]:
    """What a preflight says of the nodes."""
    if case is None or case.proof is None:
        return not_measured(nodes, FACTS, case.reason if case else "")
    silent = [str(node) for node in case.entry.get("silent_nodes") or ()]
    seen = {str(row["node"]) for row in case.proof.kernel if isinstance(row, Mapping)}
    # What the job and Slurm said of it, behind the sentence on who was silent.
    said = " ".join(case.proof.sentences[1:])
    found = [
        NodeReason(node, FACTS, Why.SILENT, {"said": said})
        for node in nodes
        if node in silent or node not in seen
    ]
    try:
        rows = msgspec.convert(case.entry.get("odd_nodes") or [], list[OddNodes])
    except msgspec.ValidationError:
        return not_measured(nodes, FACTS, "written by another release")
    for odd, instances in node_judgement.group(row for row in rows if not row.note):
        shared = odd.fact == "addresses"
        # Two values and more on all nodes: nobody knows which is right.
        split = len(odd.values) > 1 and set(odd.nodes) >= seen
        why = Why.SHARED_ADDRESS if shared else Why.NO_MAJORITY if split else Why.ODD_FACT
        for value in odd.values:
            own = OddNodes(odd.fact, "", (value,), odd.wanted, odd.why, odd.fix).text(instances)
            found += [
                NodeReason(node, FACTS, why, {"said": own, "fact": odd.fact})
                for node in value.nodes
                if node in nodes
            ]
    return found


def of_map(
    answer: MapJudgement,
    pair_map: PairMap,
    nodes: Sequence[str],
    check: str,
    level: PartitionLevel | None,
    unproven: str = "",
) -> list[NodeReason]:
    """What a map says of the nodes.

    :param unproven: why its case proves nothing; empty: it does.
    """
    found: dict[str, NodeReason] = {}

    def add(node: str, why: Why, **numbers: float | int | str) -> None:
        if node in nodes:
            found.setdefault(node, NodeReason(node, check, why, numbers))

    # A job that breaks leaves good nodes without a record, too: Slurm may have lost another one.
    for node, said in answer.evident.items():
        add(node, Why.STOPPED, said=said)
    if unproven:
        rest = [node for node in nodes if node not in found]
        return [*found.values(), *not_measured(rest, check, unproven)]
    for finding in answer.findings:
        said = answer.say(finding)
        for node in finding.nodes:
            add(node, Why.MAP_FLAGS, said=said)
        alike = [other for one in finding.directions for other in one.alike]
        for kind, names in [
            (finding.kind, finding.names),
            *((other.kind, other.names) for other in alike),
        ]:
            below = [
                node
                for node in answer.nodes
                if node in names or (kind != NODE and answer.places.leaf(node) in names)
            ]
            for node in below:
                add(node, Why.PATH_FLAGGED, said=said)
    rates = bandwidths(pair_map)
    slow = {
        node: (way, value)
        for node, ways in rates.items()
        for way, value in [min(ways.items(), key=lambda item: item[1])]
        if level and value < level.least * level.mb_per_s
    }
    many = 2 * len(slow) > len(rates)
    for node, (way, value) in slow.items():
        if level:
            add(
                node,
                Why.ALL_BELOW_LEVEL if many else Why.BELOW_LEVEL,
                way=way,
                value=value,
                percent=100 * value / level.mb_per_s,
                least=100 * level.least,
                what=level.what,
            )
    for node in nodes:
        if len(rates.get(node, {})) < 2:  # what it sends, and what it receives
            add(node, Why.NOT_MEASURED)
        elif answer.inconclusive and level is None:
            add(node, Why.UNCLEAR_MAP, said=answer.inconclusive[0])
    return list(found.values())


def bandwidths(pair_map: PairMap) -> dict[str, dict[str, float]]:
    """Median of what each node sends and receives, in MB/s; nodes without a value are left out."""
    rows = pair_map.table().filter(pl.col("quantity") == BANDWIDTH, pl.col("value").is_not_null())
    found: dict[str, dict[str, float]] = {}
    for end, way in (("source", "sends"), ("target", "receives")):
        medians = rows.group_by(end).agg(pl.col("value").median()).sort(end).collect()
        for node, value in medians.iter_rows():
            found.setdefault(pair_map.nodes[node], {})[way] = value
    return found


def learned_level(maps: Iterable[PairMap]) -> PartitionLevel | None:
    """What the nodes of earlier maps reached, at the median; ``None`` without any."""
    reached = [
        value for one in maps for ways in bandwidths(one).values() for value in ways.values()
    ]
    if not reached:
        return None
    what = "what this partition reached in earlier maps"
    return PartitionLevel(statistics.median(reached), LEAST_OF_LEARNED, what)


def of_memory(
    rates: Mapping[str, Sequence[float]], problems: Mapping[str, str], nodes: Sequence[str]
) -> list[NodeReason]:
    """What the runs of STREAM say of the nodes, in MB/s.

    A node with fewer whole runs than another one was not measured, and a single one where a run
    went wrong.

    A node is slow where its best run is :data:`MEMORY_LOSS` below the median of the nodes that are
    not, and below each of their runs. Of healthy nodes with ``R`` runs each that is so by chance
    once in ``comb((n + 1) R, R)`` draws for each node, with ``n`` nodes that are not slow (all
    orders of runs are equally likely); where that makes more than :data:`MEMORY_RATE` false
    positives a run, the node is undecided.
    """
    wanted = max(map(len, rates.values()), default=1)
    found = [
        reason
        for node in nodes
        if len(rates.get(node, ())) < wanted or nodes == [node] == list(problems)
        for reason in not_measured([node], MEMORY, problems.get(node, ""))
    ]
    there = {node: list(rates[node]) for node in nodes if rates.get(node)}
    if len(there) < 2:
        return found
    middle = {node: statistics.median(values) for node, values in there.items()}
    usual = statistics.median_high(middle.values())
    slow = [node for node, value in middle.items() if value < (1 - MEMORY_LOSS) * usual]
    others = [value for node, values in there.items() if node not in slow for value in values]
    for node in slow:
        best = max(there[node])
        if best >= min(others) or best >= (1 - MEMORY_LOSS) * statistics.median(others):
            continue
        runs = len(there[node])
        chance = len(there) / comb(len(others) + runs, runs)
        numbers: dict[str, float | int | str] = {
            "value": best,
            "percent": 100 * best / statistics.median(others),
            "runs": runs,
            "nodes": len(there),
        }
        why = Why.SLOW_MEMORY if chance <= MEMORY_RATE else Why.FEW_FOR_MEMORY
        found.append(NodeReason(node, MEMORY, why, numbers))
    return found
