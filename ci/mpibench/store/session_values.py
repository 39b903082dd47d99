"""From sessions in the dataset to two sides of the same metrics; metrics without a counterpart are
kept and named.

A **curve** is one quantity of one benchmark under one condition over its message sizes; a
**metric** is one point of it. A **unit** is one repeat of one job. Nothing is dropped silently:
each case, value or metric that is not used appears in :attr:`Selection.notes` or in a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from reframe_tests.harness.printable import plural
from reframe_tests.harness.vocabulary import LOWER

from .dataset_layout import read_condition

#: What makes two conditions the same.
CONDITION = ("partition", "stack", "fabric", "nodes", "ppn", "pinning")
#: What makes two benchmarks the same, under one condition.
BENCHMARK = ("suite", "benchmark", "variant", "ranks", "groups", "quantity")
CURVE = (*CONDITION, *BENCHMARK)
METRIC = (*CURVE, "message_bytes")
#: What makes a band of a curve.
BAND = (*CURVE, "band")
#: What ``--rename`` gives another name.
RENAMED = ("stack", "benchmark", "fabric", "partition")
#: Says in a condition that ranks shared cores. Such numbers are compared with nothing but their
#: like: variants end in it here, so that they are other metrics for whoever compares.
OVERSUBSCRIBED = "oversubscribed"
#: Whether a row of ``cases`` is such a case.
SHARED_CORES = pl.col("condition").str.json_path_match(f"$.{OVERSUBSCRIBED}").is_not_null()
#: One unit: a repeat of a job.
UNIT = ("session", "case", "repeat")
#: Columns of a table of values.
VALUES = (*METRIC, *UNIT, "unit", "direction", "value", "started")


@dataclass(frozen=True)
class Selection:
    """Eligible values of some sessions on one system.

    :param values: columns :data:`VALUES`; only judged quantities and positive, finite values.
    :param planned: rows of ``cases`` of these sessions that should be measured, used or not.
    :param notes: what was not used and why, one sentence each.
    :param zeros: columns as ``values``: bandwidths and rates of nothing,
        which have no ratio and are no loss either.
    :param unproven: rows of ``cases`` that were to prove their condition and did not
        (:func:`eligibility.owed_proof`).
    :param where: the condition that cases were chosen by; ``None``: all of these sessions.
    :param outside: rows of ``cases`` that owe a proof and do not meet it.
    """

    system: str
    sessions: tuple[str, ...]
    values: pl.DataFrame
    cases: pl.DataFrame
    planned: pl.DataFrame
    notes: tuple[str, ...]
    zeros: pl.DataFrame
    unproven: pl.DataFrame
    selector: str
    where: str | None = None
    outside: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def measured(self) -> pl.DataFrame:
        return pl.concat([self.values, self.zeros])

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs behind the values: session, start (ISO), job id, nodes,
        condition, folder of script, outputs, evidence.
        """
        columns = ("session", "started", "job_id", "nodelist", *CONDITION, "outputdir")
        rows = (
            self.cases.select(columns)
            .unique(maintain_order=True)
            .sort("started", "job_id")
            .to_dicts()
        )
        return [{**row, "started": row["started"].isoformat(sep=" ")} for row in rows]


def describe_condition(row: Mapping[str, object]) -> str:
    return (
        f"{row['stack']} on {row['partition']}, {row['fabric']}, {row['nodes']} x {row['ppn']}, "
        f"{row['pinning']}"
    )


def among(rows: pl.DataFrame, others: pl.DataFrame, on: str | Sequence[str]) -> pl.DataFrame:
    """The rows that are alike some of the others in some columns; null is like null."""
    return rows.join(others, on=on, how="semi", nulls_equal=True, maintain_order="left")


def not_among(rows: pl.DataFrame, others: pl.DataFrame, on: str | Sequence[str]) -> pl.DataFrame:
    """The rest of them."""
    return rows.join(others, on=on, how="anti", nulls_equal=True, maintain_order="left")


def beside(rows: pl.DataFrame, more: pl.DataFrame, on: str | Sequence[str]) -> pl.DataFrame:
    """All rows, each with what those have that are alike it in some columns."""
    return rows.join(more, on=on, how="left", nulls_equal=True, maintain_order="left")


def slowness(values: pl.DataFrame) -> pl.Series:
    """Natural logarithm of each value, turned so that more is worse."""
    sign = pl.when(pl.col("direction") == LOWER).then(1.0).otherwise(-1.0)
    return values.select((sign * pl.col("value").log()).alias("slowness"))["slowness"]


#: How a stack says that a suite of its was built (``suites`` of
#: ``stack.json``), beside the version.
BUILD_FACTS = ("compiler", "target", "flags")


def facts(cases: pl.DataFrame) -> dict[str, list[str]]:
    """What the sessions of a selection say about the machine and its
    software, each fact with all its values, sorted.
    """

    def mapping(value: object) -> Mapping[str, Any]:
        return value if isinstance(value, Mapping) else {}

    def listed(value: object) -> object:
        return ", ".join(map(str, value)) if isinstance(value, list) else value

    found: dict[str, set[str]] = {}
    for row in (
        cases.select("stack", "mpi", "mpi_version", "lock_hash", "library_version", "condition")
        .unique()
        .to_dicts()
    ):
        condition = read_condition(row["condition"])
        stack = row["stack"]
        fabric = condition.get("fabric")
        measured_with = mapping(condition.get("measured_with"))
        said: dict[str, object] = {
            f"MPI of {stack}": f"{row['mpi']} {row['mpi_version']}" if row["mpi"] else None,
            f"library of {stack}": row["library_version"],
            f"lock hash of {stack}": row["lock_hash"],
            f"suite options of {stack}": condition.get("suite_options"),
            f"tuned settings of {stack} on {fabric}": condition.get("tuned"),
            f"striping of {fabric}": "over all rails" if condition.get("striped") else None,
            f"quality of service of {fabric}": condition.get("quality_of_service"),
            f"network of {stack} on {fabric}": condition.get("network"),
            f"oversubscription on {fabric}": condition.get("oversubscribed"),
            **{
                f"{name}{what and ' '}{what} of {stack}": suite.get(what or "version")
                for name, suite in mapping(condition.get("suites")).items()
                if isinstance(suite, Mapping)
                for what in ("", *BUILD_FACTS)
            },
            # Of nodes (kernel, driver, firmware, ...), then the settings the test chose.
            **{
                str(name): listed(value)
                for name, value in mapping(condition.get("machine")).items()
            },
            **{
                f"{name} of {stack}, SHA-256": digest
                for name, digest in mapping(condition.get("programs")).items()
            },
            **{
                f"{name} of {stack}": value
                for name, value in mapping(condition.get("stack_environment")).items()
            },
            **{
                f"setting {name}": value
                for name, value in mapping(condition.get("environment")).items()
            },
            **{name: condition.get(name) for name in ("line_rate_gbit_per_s", "transport")},
            # Commit and versions of what ran and judged the tests (``sites.session.provenance``).
            "commit of the tests": measured_with.get("commit"),
            "tests changed since that commit": {"True": "yes", "False": "no"}.get(
                str(measured_with.get("modified"))
            ),
            "python": measured_with.get("python"),
            "requirements.lock": measured_with.get("lock"),
            "installed unlike requirements.lock": listed(measured_with.get("unlike_lock")),
            "the site's own extensions": listed(measured_with.get("extensions")),
            **{
                f"package {name}": version
                for name, version in mapping(measured_with.get("packages")).items()
            },
        }
        for name, value in said.items():
            if value:
                found.setdefault(name, set()).add(str(value))
    return {name: sorted(values) for name, values in sorted(found.items())}


#: Of a condition: its ranks often lost their core to other programs (:func:`dataset.lost_cores`).
LOST_CORES = (pl.col("condition").str.json_path_match("$.lost_cores") == "true").fill_null(False)

#: By how much waiting for a core stretched the ranks of a condition: the time of those that waited
#: longest by the time they did not wait.
STRETCH = 1 / (
    1 - pl.col("condition").str.json_path_match("$.core_wait").cast(pl.Float64).clip(0, 0.99)
)


def busy_sentence(busy: int, timed: int) -> str:
    """Sentence on so many of so many timed cases whose ranks shared their
    cores with other programs; empty for none.
    """
    return (
        f"In {busy} of {plural(timed, 'case')} ranks often lost their core to other programs: "
        "the machine was busy"
        if busy
        else ""
    )


def busy(cases: pl.DataFrame) -> str:
    """The same of rows of the table ``cases``, of those that measured."""
    timed = cases.filter(pl.col("samples") > 0)
    return busy_sentence(timed.filter(LOST_CORES).height, timed.height)


def changes(
    before: Mapping[str, list[str]], after: Mapping[str, list[str]]
) -> list[tuple[str, str, str]]:
    """Facts that differ between two sides: name, before, after;
    ``-`` where a side does not know.
    """
    names = sorted(set(before) | set(after))
    pairs = [
        (name, ", ".join(before.get(name, ["-"])), ", ".join(after.get(name, ["-"])))
        for name in names
    ]
    return [pair for pair in pairs if pair[1] != pair[2]]
