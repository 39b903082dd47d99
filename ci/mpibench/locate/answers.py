"""The answer for a stored map or for ordinary sessions, with other known facts about its nodes; as
JSON, JUnit and commands.

Ordinary sessions carry less information: whatever a month of them measured, on the nodes that their
jobs got. Each job is one observation: the median over its metrics of how much slower each is than
the same metric in all jobs. A node is observed in the jobs it took part in, so nodes that always
ran together cannot be distinguished, and a job on many nodes makes all of them equally suspect.
Directions are unknown, and switches are not judged.
"""

from __future__ import annotations

import fnmatch
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from reframe_tests.harness.evidence.link_state import ERRORS, MUST_AGREE, SETTINGS
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, PairMap
from reframe_tests.harness.instruments.pairs.pair_values import QUANTITIES as PAIR_QUANTITIES
from reframe_tests.harness.machine.switch_paths import node_of
from reframe_tests.harness.printable import one_line, plural
from reframe_tests.harness.suites.catalogue import PAIRS, WIRES
from reframe_tests.harness.vocabulary import MB_PER_GBIT, QUANTITIES, BadInput

from ..store.session_values import METRIC, Selection, slowness
from ..store.sessions import Case, Session
from . import judgement, maps, search
from .findings import NODE_NAME, Flagged, MapJudgement, QuantityFindings
from .maps import BOTH, NODE, PAIR, Observations, Places, Suspect, listed

#: Share of the line rate that is not worth a note.
_NEAR_LINE_RATE = 0.8
#: Facts named of one node, at most; and nodes that must show a fact before one can be unlike them.
_MOST_FACTS = 4
_LEAST_NODES = 3
#: Messages up to this size show latency, those from the other on bandwidth (bytes).
_SMALL = 1024
_LARGE = 262144
_BANDS = {
    "bandwidth_mb_per_s": pl.col("message_bytes") >= _LARGE,
    "latency_us": pl.col("message_bytes") <= _SMALL,
}
#: A metric is compared where so many jobs have it; a quantity is judged with so many jobs.
_LEAST_JOBS = 4
_LEAST_JUDGED = 6
_HOW_TO_MEASURE = "measure a map: reframe -c reframe_tests -r -n PairMap"


@dataclass(frozen=True)
class MapOptions:
    """How a map is to be judged.

    :param rate: false positives per run, expected at most.
    :param kinds: ``NAME=PATTERN`` of nodes of another kind.
    :param oversubscribed: whether links between switches are meant to be slower
        than those below; ``None``: as the site says.
    """

    rate: float = search.RATE
    margins_percent: Mapping[str, float] = field(default_factory=lambda: judgement.MARGINS_PERCENT)
    kinds: Sequence[str] = ()
    oversubscribed: bool | None = None


USUAL = MapOptions()


def judge_map(pair_map: PairMap, asked: MapOptions = USUAL) -> MapJudgement:
    """What a map says by itself, whatever else is known of its nodes.

    :raises BadInput: it holds nothing that can be judged, or a kind fits no node.
    """
    unjudged = []
    if pair_map.shared_cores:
        unjudged = [
            f"latency was not judged: {pair_map.shared_cores}, so it would show scheduling, not "
            "links"
        ]
    judged = [BANDWIDTH] if pair_map.shared_cores else PAIR_QUANTITIES
    observed, missing, notes = maps.prepare(pair_map, judged)
    places, contradictions = maps.places_of(pair_map.tree, pair_map.nodes)
    meant = asked.oversubscribed
    if meant is None and pair_map.oversubscription is not None:
        meant = pair_map.oversubscription > 1
    kinds: dict[str, str] = {}
    for given in asked.kinds:
        name, equals, pattern = given.partition("=")
        fitting = fnmatch.filter(pair_map.nodes, pattern)
        if not (name and equals and fitting):
            raise BadInput(
                "bad-option",
                f"--kind {given!r}: expected NAME=PATTERN, the pattern fitting nodes of the map "
                f"({pair_map.nodes[0]}, ...).",
            )
        kinds = dict.fromkeys(fitting, name) | kinds
    answer = judgement.judge(
        observed,
        places,
        kinds,
        rate=asked.rate,
        margins_percent=asked.margins_percent,
        oversubscribed=meant,
    )
    return replace(
        answer,
        evident={
            node: f"{node}: stopped answering ({why})" for node, why in pair_map.silent.items()
        },
        inconclusive=(*missing, *contradictions, *answer.inconclusive),
        notes=(*unjudged, *notes, *answer.notes),
    )


def answer_of(
    session: Session, case: Case, asked: MapOptions = USUAL, looked_at: Sequence[Case] = ()
) -> MapJudgement:
    """The answer of one map.

    :param looked_at: cases of the preflight that came before it.
    :raises BadInput: the map holds nothing that can be judged, or a kind fits no node.
    """
    assert case.pair_map is not None
    answer = judge_map(case.pair_map, asked)
    seen = (case, *looked_at)
    known = _known(seen)
    why_not = session.why_not(case)
    unproven = (
        [f"the case {why_not} ({one_line(case.reason) or 'no reason was stored'})"]
        if why_not
        else []
    )
    # Of what one rank a node can use: of one rail, unless messages are striped over all.
    rate = case.line_rate_gbit_per_s
    devices = case.condition.get("devices")
    line_rate = None
    if rate:
        rails = (
            len(devices)
            if isinstance(devices, (list, tuple)) and not case.condition.get("striped")
            else 1
        )
        line_rate = rate * MB_PER_GBIT / max(rails, 1)
    answer = replace(
        answer,
        title=f"{case.stack} on {case.partition}, {case.fabric}",
        line_rate_mb_per_s=line_rate,
        evident={**answer.evident, **_odd_links(case)},
        inconclusive=(*unproven, *answer.inconclusive),
    )
    hosts = {name: node_of(name) for name in answer.flagged}
    facts = {
        name: [*_unlike_others(known, node), *_link_errors(seen, node)]
        for name, node in hosts.items()
    }
    notes = answer.notes
    fastest = [
        level.slowness
        for part in answer.parts
        if part.seen.directed
        for level in part.residuals.levels
    ]
    if line_rate and fastest and (share := math.exp(-min(fastest)) / line_rate) < _NEAR_LINE_RATE:
        # Nodes are held against one another.
        only = f"reach only {100 * share:.0f} % of line rate"
        notes = (
            *notes,
            f"also pairs that are not slow {only}: a map does not show what slows all alike",
        )
    return replace(answer, facts=facts, notes=notes, wires=tuple(_wires(answer, case)))


def _wires(answer: MapJudgement, case: Case) -> list[str]:
    """A command for each flagged node and pair that measures, without MPI,
    what its link carries to a node nobody flags.
    """
    tests = [
        test
        for group, test in WIRES.items()
        if case.condition.get("transport") in PAIRS[group].transports
    ]
    # What was measured without MPI already need not be.
    if case.group in WIRES or not tests:
        return []
    flagged = {name for finding in answer.findings for name in finding.names} | set(answer.evident)
    healthy = [node for node in answer.nodes if node not in flagged]
    found: dict[tuple[str, ...], None] = {}
    for finding in answer.findings:
        if finding.kind == PAIR:
            found.setdefault(finding.names)
        for node in finding.nodes:
            # Below the same switch, so that nothing else is on the way.
            near = sorted(
                healthy, key=lambda other: answer.places.leaf(other) != answer.places.leaf(node)
            )
            found.update(dict.fromkeys((node, other) for other in near[:1]))
    # A pattern that fits any part of a name: eth1 is in eth10, too.
    name = f"^{tests[0]}%fabric={re.escape(case.fabric)}$"
    words = ("reframe", "-c", "reframe_tests/cascade.py", "-r", "-n", name)
    where = f"--system={case.system}:{case.partition}"
    return [
        shlex.join([*words, where, "-J", f"nodelist={','.join(pair)}"])
        for pair in found
        if all(map(NODE_NAME.fullmatch, pair))
    ]


# What is known of a node beside its times: settings that most other
# nodes have otherwise, and errors of its links.


def _known(cases: Iterable[Case]) -> dict[str, dict[str, Any]]:
    """Each node's facts by their names in words, from the links a case saw and from a preflight."""
    found: dict[str, dict[str, Any]] = {}
    for proof in (case.proof for case in cases if case.proof):
        for row in proof.links:
            facts = found.setdefault(_short(row["node"]), {})
            facts.update(
                {
                    f"{word} of {row['link']}": row[key]
                    for key, word in SETTINGS.items()
                    if key in row
                }
            )
        for settings in proof.kernel:
            if isinstance(settings, Mapping) and isinstance(settings.get("node"), str):
                facts = found.setdefault(_short(settings["node"]), {})
                facts.update({str(key): value for key, value in settings.items() if key != "node"})
    return found


def _unlike_others(facts: Mapping[str, Mapping[str, Any]], node: str) -> list[str]:
    """Sentences on the facts of a node that more than half of all others have otherwise."""
    rows = []
    for name, value in facts.get(node, {}).items():
        others = [str(own[name]) for other, own in facts.items() if other != node and name in own]
        if len(others) + 1 < _LEAST_NODES:
            continue
        usual, count = Counter(others).most_common(1)[0]
        if usual != str(value) and 2 * count > len(others):
            rows.append(
                (
                    count / len(others),
                    f"its {name} is {value}, {count} of {len(others)} others have {usual}",
                )
            )
    # What nearly all others have tells most; stable, so that facts of a session come in its order.
    return [one_line(text) for _, text in sorted(rows, key=lambda row: -row[0])][:_MOST_FACTS]


def _odd_links(case: Case) -> dict[str, str]:
    """Nodes whose link is set otherwise than those of most others, each with
    a sentence: that is wrong whatever it reaches.
    """
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for row in case.proof.links if case.proof else ():
        for key in MUST_AGREE:
            if key in row:
                rows.setdefault((str(row["link"]), key), {})[_short(row["node"])] = str(row[key])
    found: dict[str, list[str]] = {}
    for (link, key), values in rows.items():
        usual, count = Counter(values.values()).most_common(1)[0]
        # Of two nodes neither is the majority.
        for node in [
            node
            for node, value in values.items()
            if value != usual and 3 * count >= 2 * len(values)
        ]:
            said = (
                f"its {MUST_AGREE[key]} of {link} is {values[node]}, {count} of {len(values)} "
                f"nodes have {usual}"
            )
            found.setdefault(node, []).append(one_line(said))
    return {node: f"{node}: {'; '.join(said)}" for node, said in found.items()}


def _link_errors(cases: Iterable[Case], node: str) -> list[str]:
    """Sentences on errors that the links of a node counted while it was measured."""
    counted: Counter[tuple[str, str]] = Counter()
    for row in (row for case in cases if case.proof for row in case.proof.link_errors):
        if (
            row.get("reported")
            and _short(str(row.get("node"))) == node
            and isinstance(row.get("new"), int)
        ):
            counted[str(row.get("link")), str(row.get("counter"))] += row["new"]
    found = [
        (link, new, ERRORS.get(counter, counter))
        for (link, counter), new in counted.items()
        if new > 0
    ]
    return [one_line(f"its {link} counted {new} {what}") for link, new, what in found][:_MOST_FACTS]


def _short(host: str) -> str:
    """A host name without its domain, as maps have it."""
    return host.strip().partition(".")[0]


def of_ordinary_sessions(
    selection: Selection, rate: float, margins_percent: Mapping[str, float]
) -> MapJudgement:
    """Flag nodes with slow jobs, among jobs on at least two nodes.

    :raises BadInput: no job says its nodes, or too few can be compared.
    """
    rows = selection.cases.filter(pl.col("nodelist").is_not_null()).select("case", "nodelist")
    nodes = {
        case: tuple(_short(host) for host in hosts.split(",") if host)
        for case, hosts in rows.iter_rows()
    }
    nodes = {case: there for case, there in nodes.items() if len(set(there)) > 1}
    if not nodes:
        raise BadInput(
            "nothing-measured",
            f"no job of {selection.selector!r} names the two nodes that it ran on: "
            f"{_HOW_TO_MEASURE}.",
        )
    values = selection.values.filter(pl.col("case").is_in(list(nodes)), pl.col("value") > 0)
    tables = {quantity: _jobs(values.filter(band)) for quantity, band in _BANDS.items()}
    jobs = {quantity: table for quantity, table in tables.items() if len(table) >= _LEAST_JUDGED}
    if not jobs:
        raise BadInput(
            "nothing-measured",
            f"{selection.selector!r} has too few jobs that measured the same thing on several "
            f"nodes: {_HOW_TO_MEASURE}.",
        )
    parts = [
        _judge_jobs(
            quantity, table, nodes, rate / len(jobs), judgement.margin_of(quantity, margins_percent)
        )
        for quantity, table in jobs.items()
    ]
    counts = [
        Counter(node for case in table for node in set(nodes[case])) for table in jobs.values()
    ]
    measured = {node for count in counts for node in count}
    few = sorted(
        node for node in measured if all(count[node] < search.LEAST_MOMENTS for count in counts)
    )
    doubts = [
        f"{QUANTITIES[part.seen.quantity].title}: {plural(len(part.seen), 'job')} cannot tell "
        "which node is slow: measure a map (-n PairMap)"
        for part in parts
        if part.floor is None
    ]
    if few:
        which = f"{len(few)} of {len(measured)} nodes had fewer than {search.LEAST_MOMENTS} jobs"
        doubts.append(f"{which} and were not judged: {listed(few)}")
    shown = ", ".join(f"{plural(len(part.seen), 'job')} ({part.seen.quantity})" for part in parts)
    note = f"{shown} of ordinary sessions (no directions, cables or switches); {_HOW_TO_MEASURE}"
    findings = tuple(finding for part in parts for finding in part.findings)
    title = f"ordinary sessions {selection.selector}"
    return MapJudgement(tuple(parts), Places({}), findings, tuple(doubts), (note,), title=title)


def _jobs(values: pl.DataFrame) -> dict[str, float]:
    """How much slower each job is than others that measured the same, log scale."""
    if not values.height:
        return {}
    by_case = values.with_columns(slowness(values)).group_by(*METRIC, "case", maintain_order=True)
    table = by_case.agg(pl.col("slowness").median())
    many = pl.col("case").n_unique().over(METRIC) >= _LEAST_JOBS
    excess = pl.col("slowness") - pl.col("slowness").median().over(METRIC)
    table = (
        table.filter(many)
        .with_columns(excess=excess)
        .group_by("case", maintain_order=True)
        .agg(pl.col("excess").median())
    )
    return dict(table.sort("case").iter_rows())


def _judge_jobs(
    quantity: str,
    jobs: Mapping[str, float],
    nodes_of: Mapping[str, Sequence[str]],
    rate: float,
    margin: float,
) -> QuantityFindings:
    nodes = [nodes_of[case] for case in jobs]
    names, number = maps.numbered([node for there in nodes for node in there])
    job = np.repeat(np.arange(len(nodes)), [len(there) for there in nodes])
    ends = np.flatnonzero(np.diff(job, prepend=-1)), np.flatnonzero(np.diff(job, append=len(nodes)))
    moment = np.arange(len(nodes))
    slow = np.array(list(jobs.values()))
    seen = Observations(
        quantity,
        tuple(names),
        number[ends[0]],
        number[ends[1]],
        slow,
        moment,
        moment,
        directed=False,
    )
    level = search.level_of(slow)
    excess = slow - level
    nothing = np.zeros(len(slow))
    classes = (search.PairClass(0, ("", ""), 0, level, len(slow), 1),)
    found = search.Residuals(
        classes, nothing.astype(np.intp), excess, search.spread(excess), nothing
    )
    # The nodes of each job, each once.
    there = [list(dict.fromkeys(number[job == each].tolist())) for each in moment.tolist()]
    labels = np.full((max(map(len, there)), len(there)), -1, dtype=np.intp)
    for each, own in enumerate(there):
        labels[: len(own), each] = own
    group = search.SuspectGroup(
        NODE,
        len(names),
        lambda label: Suspect(NODE, (names[label],), BOTH),
        lambda at: list(labels if at is None else labels[:, at]),
    )
    suspects = search.Suspects([group], moment)
    verdict = search.Search(suspects, excess, found.stratum, moment, margin=margin, rate=rate).run()
    findings = []
    for detection in verdict.detections:
        direction = judgement.direction_of(seen, excess, detection)
        mine = detection.observations
        times = np.exp(
            excess[
                mine if detection.extent == search.ALL else mine[excess[mine] > detection.threshold]
            ]
        )
        low, high = np.quantile(times, [0.025, 0.975]).tolist()
        partners = len({node for at in mine.tolist() for node in nodes[at]}) - 1
        direction = replace(
            direction,
            times=float(np.median(times)),
            low=low,
            high=high,
            added_us=None,
            value=math.nan,
            partners=partners,
            pairs=detection.count,
        )
        which = " or ".join(
            [*direction.suspect.names, *(other.names[0] for other in direction.alike[:3])]
        )
        together = ", which ran all these jobs together" if direction.alike else ""
        said = f"take {direction.times:.2g} times as long as on other nodes ({quantity})"
        text = f"{which}{together}: {direction.slow} of {direction.count} jobs are slow, and {said}"
        findings.append(Flagged(quantity, NODE, direction.suspect.names, 0, (direction,), text))
    floor = None if verdict.floor is None else float(np.exp(verdict.floor))
    return QuantityFindings(seen, found, Places({}), tuple(findings), verdict.tests, rate, floor)
