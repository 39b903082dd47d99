"""Figures of stored sessions in the columns that claims select by, and the fabrics that scale the claims.

A figure is the median over jobs of the medians over each job's repeats, for each partition, stack, fabric, pinning, node count,
ranks per node, benchmark, message size and quantity with its direction. Only eligible cases count
(:mod:`mpibench.results.eligibility`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from reframe_tests.harness.machine.fabric import Fabric
from reframe_tests.harness.sites import site
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import SCOPE_CLUSTER, BadInput

from ..results import eligibility
from ..results.dataset_layout import read_condition
from ..results.session_values import Selection
from .relative_claims import NODES, LinkedFabric

#: Where something was measured.
PLACE = ("partition", "stack", "fabric", "pinning")
#: What makes a figure another one.
FIGURE = (*PLACE, "nodes", "ppn", "group", "suite", "benchmark", "variant", "quantity", "direction", "message_bytes")
#: Of a stack one build is judged at a time.
_BUILD = ("mpi_version", "lock_hash")
#: A bandwidth of one message at a time is its size over this: bytes per us are MB/s.
_TIME, _BANDWIDTH = "latency_us", "bandwidth_mb_per_s"

#: Partition, stack, fabric and pinning.
Place = tuple[str, str, str, str]


def linked_fabrics(partitions: Iterable[Mapping[str, Any]]) -> tuple[list[LinkedFabric], list[str]]:
    """Fabrics of a system that claims can be asked of, and a sentence on each other fabric between nodes.

    :param partitions: as ``site.read_system`` gives them.
    """
    found, left_out = list[LinkedFabric](), list[str]()
    for partition in partitions:
        extras = partition["extras"]
        for fabric in (one for one in site.fabrics_of(extras).values() if one.scope == SCOPE_CLUSTER):
            if why := _why_not_linked(fabric, site.node_counts_of(extras)):
                left_out.append(f"no claim is asked of {fabric.name} on {partition['name']}: {why}")
            else:
                found.append(LinkedFabric(partition["name"], fabric, extras.get("most_timed_ranks")))
    return found, left_out


def _why_not_linked(fabric: Fabric, node_counts: tuple[int, ...]) -> str:
    if fabric.line_rate_gbit_per_s is None:
        return "it has no line rate (line_rate_gbit_per_s of each rail)"
    if len({rail.line_rate_gbit_per_s for rail in fabric.rails}) > 1:
        return "its rails have different line rates"
    return "" if NODES in node_counts else f"its partition measures nothing on {NODES} nodes (node_counts)"


@dataclass(frozen=True)
class Figures:
    """What sessions measured, ready to be asked.

    :param selection: the sessions' values and cases.
    """

    selection: Selection

    @cached_property
    def by_place(self) -> dict[Place, list[dict[str, Any]]]:
        """Figures of each place, as rows of the columns :data:`FIGURE` and ``value``."""
        found: dict[Place, list[dict[str, Any]]] = {}
        for row in _medians(self.selection).to_dicts():
            rows = found.setdefault((row["partition"], row["stack"], row["fabric"], row["pinning"]), [])
            rows += [row, *_bandwidth_of(row)]
        return found

    @cached_property
    def _measured(self) -> pl.DataFrame:
        """Cases of MPI tests that were to be measured."""
        groups = [group for group in catalogue.GROUPS if group not in (*catalogue.PAIRS, catalogue.MEMORY)]
        cases = self.selection.planned.filter(pl.col("group").is_in(groups))
        # A case that failed before its ranks were counted says how many were asked for.
        return cases.with_columns(pl.coalesce("ppn", pl.col("ppn_symbol").cast(pl.Int32, strict=False)))

    @cached_property
    def _pinnings(self) -> dict[tuple[str, str, str], list[tuple[int | None, str]]]:
        found: dict[tuple[str, str, str], list[tuple[int | None, str]]] = {}
        rows = (
            self._measured.select("partition", "fabric", "stack", "ppn", "pinning")
            .drop_nulls("pinning")
            .unique()
            .sort(pl.all())
        )
        for partition, fabric, stack, ppn, pinning in rows.iter_rows():
            found.setdefault((partition, fabric, stack), []).append((ppn, pinning))
        return found

    def stacks(self, partition: str, fabric: str) -> list[str]:
        """Stacks that something was to be measured with."""
        return [stack for *where, stack in self._pinnings if where == [partition, fabric]]

    def pinnings(self, partition: str, fabric: str, stack: str, ppn: int) -> list[str]:
        """Policies that something was to be measured under with so many ranks on a node; where nothing was, with any number."""
        there = self._pinnings[partition, fabric, stack]
        return list(dict.fromkeys([policy for number, policy in there if number == ppn] or [policy for _, policy in there]))

    @cached_property
    def _unusable(self) -> dict[tuple[Any, ...], str]:
        """Cases whose numbers may not be used, with the reason."""
        left_out = eligibility.split_cases(self._measured).left_out.filter(pl.col("why") != eligibility.NO_MEASUREMENT)
        return {tuple(row[:-1]): row[-1] for row in left_out.select(*PLACE, "nodes", "ppn", "group", "why").iter_rows()}

    def why_unusable(self, place: Place, ppn: int, group: str) -> str:
        """Why what a case measured may not be used; empty where there was no such case, or it may."""
        return self._unusable.get((*place, NODES, ppn, group), "")

    def check_fabrics(self, described: Mapping[str, Mapping[str, Fabric]], system: str) -> list[str]:
        """Make sure that fabrics are today what they were when they were measured.

        :param described: fabrics by partition and name.
        :returns: a sentence on each that the system no longer describes.
        :raises BadInput: if one has other rails or another rate now.
        """
        gone = set[str]()
        measured = self.selection.cases.join(self._measured, on="case", how="semi")
        rows = measured.select("session", "partition", "fabric", "condition").unique(maintain_order=True)
        for session, partition, name, text in rows.iter_rows():
            condition = {"striped": False, **read_condition(text)}
            fabric = described.get(partition, {}).get(name)
            if fabric is None:
                gone.add(f"no claim is asked of {name} on {partition}, which site_configs/{system} does not describe")
                continue
            today: dict[str, Any] = {
                "line_rate_gbit_per_s": fabric.line_rate_gbit_per_s,
                "devices": [*fabric.devices],
                "striped": fabric.striped,
            }
            for key, value in today.items() if "devices" in condition else ():
                if condition.get(key) != value:
                    raise BadInput(
                        f"session {session[:8]} measured {name} on {partition} with {key} {condition.get(key)}, where "
                        f"site_configs/{system} has {value}: ask a session measured since, or use --where."
                    )
        return sorted(gone)

    def check_builds(self) -> None:
        """Make sure that each stack is one build: figures of two are no figure.

        :raises BadInput: if one is not.
        """
        builds = self.selection.cases.group_by("stack").agg(pl.struct(_BUILD).unique().alias("builds")).sort("stack")
        for stack, found in builds.iter_rows():
            if len(found) > 1:
                raise BadInput(
                    f"{self.selection.selector!r} has {stack} in {len(found)} builds "
                    f"(MPI {', '.join(sorted({str(one['mpi_version']) for one in found}))}): give sessions of one."
                )


def _medians(selection: Selection) -> pl.DataFrame:
    groups = selection.cases.select("case", "group").unique()
    values = selection.measured.join(groups, on="case").filter(pl.col("groups").fill_null(1) == 1)
    jobs = values.group_by(*FIGURE, "case").agg(pl.col("value").median())
    return jobs.group_by(FIGURE).agg(pl.col("value").median()).with_columns(pl.col("variant").fill_null("")).sort(FIGURE)


def _bandwidth_of(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The bandwidth that a time of one message at a time stands for.

    As IMB prints beside the time of PingPong (``src_c/IMB_output.c``), and as IMB-P2P does for one pair of ranks; elsewhere a
    time is no such thing, and nothing asks for it.
    """
    if row["quantity"] == _TIME and row["message_bytes"] and row["value"] and row["nodes"] * row["ppn"] == 2:
        yield {**row, "quantity": _BANDWIDTH, "direction": "higher", "value": row["message_bytes"] / row["value"]}
