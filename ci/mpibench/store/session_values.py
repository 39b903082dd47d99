"""From sessions in the dataset to two sides of the same metrics; what has no counterpart is kept and named.

A **curve** is one quantity of one benchmark under one condition over its message sizes; a **metric** is one point of it. A
**unit** is one repeat of one job. Nothing is dropped silently: each case, value or metric that is not used ends in
:attr:`Selection.notes` or in a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

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
#: Says in a condition that ranks shared cores. Such numbers are held against nothing but their like: variants end in it here,
#: so that they are other metrics for whoever compares.
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
    :param cases: rows of ``cases`` that were used.
    :param planned: rows of ``cases`` of these sessions that were to be measured, used or not.
    :param notes: what was not used and why, one sentence each.
    :param zeros: columns as ``values``: bandwidths and rates of nothing, which have no ratio and are no loss either.
    :param unproven: rows of ``cases`` that were to prove their condition and did not (:func:`eligibility.owed_proof`).
    :param selector: as given.
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

    @property
    def measured(self) -> pl.DataFrame:
        return pl.concat([self.values, self.zeros])

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs behind the values: session, start (ISO), job id, nodes, condition, folder of script, outputs, evidence."""
        columns = ("session", "started", "job_id", "nodelist", *CONDITION, "outputdir")
        rows = self.cases.select(columns).unique(maintain_order=True).sort("started", "job_id").to_dicts()
        return [{**row, "started": row["started"].isoformat(sep=" ")} for row in rows]


def describe_condition(row: Mapping[str, object]) -> str:
    return f"{row['stack']} on {row['partition']}, {row['fabric']}, {row['nodes']} x {row['ppn']}, {row['pinning']}"


def slowness(values: pl.DataFrame) -> pl.Series:
    """Natural logarithm of each value, turned so that more is worse."""
    sign = pl.when(pl.col("direction") == LOWER).then(1.0).otherwise(-1.0)
    return values.select((sign * pl.col("value").log()).alias("slowness"))["slowness"]


def facts(cases: pl.DataFrame) -> dict[str, list[str]]:
    """What the sessions of a selection say about the machine and its software, each fact with all its values, sorted."""
    found: dict[str, set[str]] = {}
    for row in cases.select("stack", "mpi", "mpi_version", "lock_hash", "library_version", "condition").unique().to_dicts():
        condition = read_condition(row["condition"])
        said = {
            f"MPI of {row['stack']}": f"{row['mpi']} {row['mpi_version']}" if row["mpi"] else None,
            f"library of {row['stack']}": row["library_version"],
            f"lock hash of {row['stack']}": row["lock_hash"],
            f"suite options of {row['stack']}": condition.get("suite_options"),
            f"tuned settings of {row['stack']} on {condition.get('fabric')}": condition.get("tuned"),
            f"striping of {condition.get('fabric')}": "over all rails" if condition.get("striped") else None,
            f"network of {row['stack']} on {condition.get('fabric')}": condition.get("network"),
            f"oversubscription on {condition.get('fabric')}": condition.get("oversubscribed"),
            **{
                f"{name}{what and ' '}{what} of {row['stack']}": suite.get(what or "version")
                for name, suite in _suites(condition)
                for what in ("", *BUILD_FACTS)
            },
            **{str(name): value for name, value in _machine(condition)},
            **_measured_with(condition),
        }
        for name, value in said.items():
            if value:
                found.setdefault(name, set()).add(str(value))
    return {name: sorted(values) for name, values in sorted(found.items())}


#: Of a condition: its ranks often lost their core to other programs (:func:`dataset.lost_cores`).
LOST_CORES = (pl.col("condition").str.json_path_match("$.lost_cores") == "true").fill_null(False)


def busy_sentence(busy: int, timed: int) -> str:
    """Sentence on so many of so many timed cases whose ranks shared their cores with other programs; empty for none."""
    cases = f"{timed} case{'' if timed == 1 else 's'}"
    return f"In {busy} of {cases} ranks often lost their core to other programs: the machine was busy." if busy else ""


def busy(cases: pl.DataFrame) -> str:
    """The same of rows of the table ``cases``, of those that measured."""
    timed = cases.filter(pl.col("samples") > 0)
    return busy_sentence(timed.filter(LOST_CORES).height, timed.height).rstrip(".")


#: How a stack says that a suite of its was built (``suites`` of ``stack.json``), beside the version.
BUILD_FACTS = ("compiler", "target", "flags")
_YES_OR_NO: dict[object, str] = {True: "yes", False: "no"}


def _measured_with(condition: Mapping[str, object]) -> dict[str, object]:
    """Commit and versions of what ran and judged the tests (``sites.session.provenance``), each by a name for a reader."""
    stored = condition.get("measured_with")
    if not isinstance(stored, Mapping):
        return {}
    packages = stored.get("packages")
    unlike, extensions = stored.get("unlike_lock"), stored.get("extensions")
    return {
        "commit of the tests": stored.get("commit"),
        "tests changed since that commit": _YES_OR_NO.get(stored.get("modified")),
        "python": stored.get("python"),
        "requirements.lock": stored.get("lock"),
        "installed unlike requirements.lock": ", ".join(map(str, unlike)) if isinstance(unlike, list) else None,
        "the site's own extensions": ", ".join(map(str, extensions)) if isinstance(extensions, list) else None,
        **({f"package {name}": version for name, version in packages.items()} if isinstance(packages, Mapping) else {}),
    }


def _suites(condition: Mapping[str, object]) -> Sequence[tuple[str, Mapping[str, object]]]:
    suites = condition.get("suites")
    return [(name, row) for name, row in suites.items() if isinstance(row, Mapping)] if isinstance(suites, Mapping) else []


def _machine(condition: Mapping[str, object]) -> list[tuple[str, object]]:
    """Facts about nodes (kernel, driver, firmware, ...) and the settings the test chose."""
    machine = condition.get("machine")
    rows = list(machine.items()) if isinstance(machine, Mapping) else []
    environment = condition.get("environment")
    settings = [(f"setting {name}", value) for name, value in environment.items()] if isinstance(environment, Mapping) else []
    flat = [(name, ", ".join(map(str, value)) if isinstance(value, list) else value) for name, value in rows]
    return [*flat, *settings, *((name, condition.get(name)) for name in ("line_rate_gbit_per_s", "transport"))]


def changes(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> list[tuple[str, str, str]]:
    """Facts that differ between two sides: name, before, after; ``-`` where a side does not know."""
    names = sorted(set(before) | set(after))
    pairs = [(name, ", ".join(before.get(name, ["-"])), ", ".join(after.get(name, ["-"]))) for name in names]
    return [pair for pair in pairs if pair[1] != pair[2]]
