"""Poorer input: what a month of ordinary sessions happened to measure, and which nodes its jobs had.

Each job is one observation: the median over its metrics of how much slower each is than the same metric in all jobs. A node is
observed in the jobs it took part in, so that of nodes that were always together one cannot be distinguished from the other, and
of a job of many nodes all are suspected alike. There are no directions, and switches are not judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import scipy.sparse

from reframe_tests.harness.vocabulary import BadInput

from ..store.session_values import METRIC, Selection, slowness
from . import baseline, search
from .effects import Accused, Direction
from .judgement import Localisation, Part, margin_of
from .observations import Observations, Places, numbered
from .search import ALL, Accusation
from .suspects import BOTH, LEAST_MOMENTS, NODE, Suspect, Suspects

#: Messages up to this size show latency, those from the other on bandwidth (bytes).
_SMALL, _LARGE = 1024, 262144
BANDS = {"bandwidth_mb_per_s": pl.col("message_bytes") >= _LARGE, "latency_us": pl.col("message_bytes") <= _SMALL}
#: A metric is compared where so many jobs have it; a quantity is judged with so many jobs.
_LEAST_JOBS, _LEAST_JUDGED = 4, 6
HOW_TO_MEASURE = "measure a map: reframe -c reframe_tests -r -n PairMap"


@dataclass(frozen=True)
class Jobs:
    """Jobs of one band.

    :param nodes: of each job; ``excess``: log scale.
    """

    quantity: str
    case: tuple[str, ...]
    nodes: tuple[tuple[str, ...], ...]
    excess: tuple[float, ...]


def jobs_of(selection: Selection) -> list[Jobs]:
    """Jobs on two nodes and more, by what they show.

    :raises BadInput: no job says its nodes, or too few can be compared.
    """
    rows = selection.cases.filter(pl.col("nodelist").is_not_null()).select("case", "nodelist")
    nodes = {case: tuple(_short(one) for one in listed.split(",") if one) for case, listed in rows.iter_rows()}
    nodes = {case: there for case, there in nodes.items() if len(set(there)) > 1}
    if not nodes:
        raise BadInput(f"no job of {selection.selector!r} ran on two nodes and says on which: {HOW_TO_MEASURE}.")
    values = selection.values.filter(pl.col("case").is_in(list(nodes)), pl.col("value") > 0)
    found = [jobs for quantity, band in BANDS.items() if (jobs := _jobs(quantity, values.filter(band), nodes))]
    if not found:
        raise BadInput(f"{selection.selector!r} has too few jobs that measured the same on several nodes: {HOW_TO_MEASURE}.")
    return found


def _short(host: str) -> str:
    return host.strip().partition(".")[0]


def _jobs(quantity: str, values: pl.DataFrame, nodes: Mapping[str, tuple[str, ...]]) -> Jobs | None:
    """Jobs of one band; ``None`` with too few."""
    if not values.height:
        return None
    table = (
        values.with_columns(slowness(values)).group_by(*METRIC, "case", maintain_order=True).agg(pl.col("slowness").median())
    )
    many = pl.col("case").n_unique().over(METRIC) >= _LEAST_JOBS
    excess = pl.col("slowness") - pl.col("slowness").median().over(METRIC)
    table = table.filter(many).with_columns(excess=excess).group_by("case", maintain_order=True).agg(pl.col("excess").median())
    table = table.sort("case")
    if table.height < _LEAST_JUDGED:
        return None
    cases = table["case"].to_list()
    return Jobs(quantity, tuple(cases), tuple(nodes[case] for case in cases), tuple(table["excess"].to_list()))


def judge(all_jobs: Sequence[Jobs], rate: float, margins_percent: Mapping[str, float]) -> Localisation:
    """Accuse nodes whose jobs are slow."""
    parts = [_judge_one(jobs, rate / len(all_jobs), margin_of(jobs.quantity, margins_percent)) for jobs in all_jobs]
    findings = [finding for part in parts for finding in part.findings]
    nodes = {node for jobs in all_jobs for there in jobs.nodes for node in there}
    few = {node for node in nodes if all(sum(node in there for there in jobs.nodes) < LEAST_MOMENTS for jobs in all_jobs)}
    doubts = [
        f"{part.seen.quantity}: {len(part.seen)} jobs are too few to accuse a node of: measure a map (-n PairMap)"
        for part in parts
        if part.floor is None
    ]
    if few:
        shown = ", ".join(sorted(few)[:8]) + (", ..." if len(few) > 8 else "")
        doubts.append(f"{len(few)} of {len(nodes)} nodes had fewer than {LEAST_MOMENTS} jobs and are not judged: {shown}")
    counts = ", ".join(f"{len(part.seen)} jobs ({part.seen.quantity})" for part in parts)
    note = f"{counts} of ordinary sessions: no directions, cables or switches; {HOW_TO_MEASURE}"
    return Localisation(tuple(parts), Places({}), tuple(findings), tuple(doubts), (note,))


def _judge_one(jobs: Jobs, rate: float, margin: float) -> Part:
    names, numbers = numbered([node for there in jobs.nodes for node in there])
    sizes = [len(there) for there in jobs.nodes]
    at = np.repeat(np.arange(len(jobs.nodes)), sizes)
    first = np.cumsum(sizes) - sizes
    excess = np.array(jobs.excess)
    moment = np.arange(len(excess))
    seen = Observations(
        jobs.quantity,
        tuple(names),
        numbers[first],
        numbers[first + np.array(sizes) - 1],
        excess,
        moment,
        moment,
        directed=False,
    )
    level = baseline.level_of(excess)
    residuals = baseline.Residuals(
        (baseline.PairClass(0, ("", ""), 0, level, len(excess), 1),),
        np.zeros(len(excess), dtype=np.intp),
        excess - level,
        baseline.spread(excess),
        np.zeros(len(excess)),
    )
    rows = scipy.sparse.csr_matrix((np.ones(len(at), dtype=np.int32), (numbers, at)), shape=(len(names), len(excess)))
    rows.sum_duplicates()
    rows.data[:] = 1
    often = np.flatnonzero(np.diff(rows.indptr) >= LEAST_MOMENTS)
    suspects = Suspects(
        [Suspect(NODE, (names[one],), BOTH) for one in often.tolist()], rows[often], np.diff(rows.indptr)[often].astype(np.intp)
    )
    verdict = search.search(suspects, residuals.excess, residuals.stratum, moment, margin=margin, rate=rate)
    findings = tuple(_finding(one, suspects, jobs, residuals) for one in verdict.accusations)
    floor = None if verdict.floor is None else float(np.exp(verdict.floor))
    return Part(seen, residuals, Places({}), findings, verdict.tests, rate, floor, {})


def _finding(one: Accusation, suspects: Suspects, jobs: Jobs, residuals: baseline.Residuals) -> Accused:
    suspect = suspects.named[one.row]
    slow = one.observations[residuals.excess[one.observations] > one.threshold]
    judged = one.observations if one.extent == ALL else slow
    times = np.exp(residuals.excess[judged])
    alike = tuple(suspects.named[row] for row in one.alike)
    others = {node for place in one.observations.tolist() for node in jobs.nodes[place]} - set(suspect.names)
    names = " or ".join([suspect.names[0], *(other.names[0] for other in alike[:3])])
    together = ", which had all these jobs together" if alike else ""
    text = (
        f"{names}{together}: {one.slow} of {one.count} jobs are slow, and take {np.median(times):.2g} times as long "
        f"as the same on other nodes ({jobs.quantity})"
    )
    low, high = np.quantile(times, [0.025, 0.975])
    direction = Direction(
        suspect=suspect,
        extent=one.extent,
        times=float(np.median(times)),
        low=float(low),
        high=float(high),
        added_us=None,
        value=float("nan"),
        slow=one.slow,
        count=one.count,
        partners=len(others),
        pairs=one.count,
        moments=len(slow),
        all_moments=one.count,
        probability=one.probability,
        threshold=one.threshold,
        alike=alike,
    )
    return Accused(jobs.quantity, NODE, suspect.names, 0, (direction,), text)
