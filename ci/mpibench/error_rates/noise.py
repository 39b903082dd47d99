"""Recorded noise: repeats of many jobs under one condition, from a file or from a system's own history.

A **trace** holds all curves that were measured together. Their jobs stay together: what disturbed one curve of a job disturbed
the others, and whoever draws curves one by one finds fewer false alarms than there are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from reframe_tests.harness.vocabulary import JUDGED, LOWER, QUANTITIES, BadInput

from ..results import session_values
from ..results.session_values import CURVE
from ..statistics.two_sides import Array

#: Columns of a file of noise, with the types they are read as.
COLUMNS: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(("fabric", "benchmark", "quantity", "job"), pl.String),
    **dict.fromkeys(("repeat", "message_bytes"), pl.Int64),
    "value": pl.Float64,
}
#: Fewest jobs of a trace: one side and the other.
FEWEST_JOBS = 2
#: Quartiles of a normal distribution are this many standard deviations apart.
QUARTILES_APART = 1.349


@dataclass(frozen=True)
class NoiseCurve:
    """One quantity of one benchmark over its sizes.

    :param logs: slowness in log, shape (sizes, jobs, repeats), NaN where a job has none.
    """

    benchmark: str
    quantity: str
    sizes: list[int | None]
    logs: Array

    @property
    def direction(self) -> str:
        """Which way is better."""
        return QUANTITIES[self.quantity].direction


@dataclass(frozen=True)
class Trace:
    """All curves of one condition; axis 1 of each is the same jobs.

    :param fabric: as recorded; of a system's own history with stack, partition and version, which are never mixed.
    """

    fabric: str
    curves: tuple[NoiseCurve, ...]

    @property
    def jobs(self) -> int:
        """Jobs (of a history: sessions)."""
        return self.curves[0].logs.shape[1]

    @property
    def repeats(self) -> int:
        """Repeats of the job with the fewest, jobs that lack a curve aside."""
        counts = np.concatenate([np.sum(~np.isnan(one.logs), axis=2).max(axis=0) for one in self.curves])
        return int(counts[counts > 0].min())

    @property
    def metrics(self) -> int:
        """Sizes of all curves."""
        return sum(len(one.sizes) for one in self.curves)

    @property
    def spread(self) -> float:
        """Of the typical metric: distance of the quartiles of all its repeats, in log, as a standard deviation."""
        distances = [np.subtract(*np.nanquantile(one.logs, [0.75, 0.25], axis=(1, 2))) for one in self.curves]
        return float(np.median(np.concatenate(distances))) / QUARTILES_APART

    def scaled(self, spread: float | None) -> Trace:
        """The same noise, its typical metric with this spread; shape, outliers and common disturbances stay. ``None``: as is.

        :raises BadInput: the typical metric does not vary, so that there is nothing to scale.
        """
        if spread is None:
            return self
        if self.spread <= 0:
            raise BadInput(f"most metrics of {self.fabric} never vary: there is no noise to scale.")
        curves = []
        for one in self.curves:
            centre = np.nanmedian(one.logs, axis=(1, 2), keepdims=True)
            curves.append(replace(one, logs=(one.logs - centre) * (spread / self.spread)))
        return replace(self, curves=tuple(curves))


def read_file(path: Path) -> list[Trace]:
    """Traces of a Parquet or CSV file with the columns :data:`COLUMNS`; others are ignored.

    :raises BadInput: the file cannot be read, lacks a column, or holds what is no noise.
    """
    reader = pl.read_parquet if path.suffix == ".parquet" else pl.read_csv
    try:
        table = reader(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise BadInput(f"cannot read {path}: {str(error).splitlines()[0]}.") from None
    absent = [name for name in COLUMNS if name not in table.columns]
    if absent:
        raise BadInput(f"{path} has no column {', '.join(absent)}; noise has {', '.join(COLUMNS)}.")
    try:
        table = table.select(pl.col(name).cast(kind) for name, kind in COLUMNS.items())
    except pl.exceptions.PolarsError as error:
        raise BadInput(f"{path}: {str(error).splitlines()[0]}; expected {_types()}.") from None
    return traces(table, str(path))


def _types() -> str:
    return ", ".join(f"{name} ({kind.__name__})" for name, kind in COLUMNS.items())


def traces(table: pl.DataFrame, where: str) -> list[Trace]:
    """Traces of a table of noise.

    :param where: what it is, for messages.
    :raises BadInput: an unknown quantity, a value without a logarithm, a repeat that is there twice, or too few jobs.
    """
    keys = [name for name in COLUMNS if name != "value"]
    unknown = sorted(set(table["quantity"].drop_nulls()) - set(JUDGED))
    if unknown:
        raise BadInput(f"{where}: quantity {unknown[0]!r} is not one that is judged; these are: {', '.join(JUDGED)}.")
    holes = [name for name in keys if name != "message_bytes" and table[name].null_count()]
    if holes:
        raise BadInput(f"{where}: {table[holes[0]].null_count()} rows have no {holes[0]}.")
    odd = table.filter(~pl.col("value").is_finite().fill_null(False) | (pl.col("value") <= 0).fill_null(True))
    if odd.height:
        row = odd.row(0, named=True)
        raise BadInput(
            f"{where}: {row['benchmark']} {row['quantity']} of job {row['job']} is {row['value']}, expected a number above 0 "
            f"({odd.height} such rows): leave it out."
        )
    twice = table.filter(table.select(keys).is_duplicated())
    if twice.height:
        row = twice.row(0, named=True)
        raise BadInput(f"{where}: repeat {row['repeat']} of job {row['job']}, {row['benchmark']}, is there twice.")
    # The same number in other words is judged once, as in every verdict.
    rank = pl.col("quantity").replace_strict({name: place for place, name in enumerate(JUDGED)}, return_dtype=pl.Int32)
    table = table.filter(rank == rank.min().over("fabric", "benchmark", "message_bytes"))
    table = table.with_columns(pl.col("job").cast(pl.String))
    found = [_trace(str(fabric), part, where) for (fabric,), part in table.group_by("fabric", maintain_order=True)]
    if not found:
        raise BadInput(f"{where} holds no row.")
    return found


def _trace(fabric: str, table: pl.DataFrame, where: str) -> Trace:
    parts = dict(table.group_by("benchmark", "quantity", maintain_order=True))
    come = list(dict.fromkeys(table["job"]))
    order = sorted(come, key=int) if all(job.isdecimal() for job in come) else come
    columns = _columns([set(part["job"]) for part in parts.values()], order)
    count = min(len(set(one.values())) for one in columns)
    if count < FEWEST_JOBS:
        raise BadInput(f"{where}: {fabric} has {count} job: at least {FEWEST_JOBS} are needed, and 16 to say anything.")
    repeats = {name: place for place, name in enumerate(sorted(table["repeat"].unique()))}
    curves = []
    for ((benchmark, quantity), part), column in zip(parts.items(), columns, strict=True):
        sizes = sorted(part["message_bytes"].unique().to_list(), key=lambda size: -1 if size is None else size)
        rows = {size: place for place, size in enumerate(sizes)}
        logs = np.full((len(sizes), 1 + max(column.values()), len(repeats)), np.nan)
        sign = 1.0 if QUANTITIES[str(quantity)].direction == LOWER else -1.0
        at = [rows[size] for size in part["message_bytes"]], [column[job] for job in part["job"]]
        logs[at[0], at[1], [repeats[one] for one in part["repeat"]]] = sign * np.log(part["value"].to_numpy())
        curves.append(NoiseCurve(str(benchmark), str(quantity), sizes, logs[:, :count]))
    return Trace(fabric, tuple(curves))


def _columns(jobs: Sequence[set[str]], order: Sequence[str]) -> list[dict[str, int]]:
    """Column of each job of each curve: curves of the same jobs share them.

    :param jobs: of each curve.
    :param order: of all jobs, the first recorded first: by number, or as they come where they have none.

    Benchmarks of another job list never share a job; the n-th job of one list is then taken to be of the session of the n-th
    job of the other.
    """
    lists: list[set[str]] = []
    for one in jobs:
        apart = [known for known in lists if not known & one]
        lists = [*apart, one.union(*(known for known in lists if known & one))]
    places = [{job: place for place, job in enumerate(job for job in order if job in known)} for known in lists]
    return [next(known for known in places if known.keys() & one) for one in jobs]


#: What makes a history one of the same thing, beside the curve itself.
STRATUM = ("partition", "stack", "mpi_version", "lock_hash", "fabric", "depth")


def read_history(folder: Path, system: str | None, selector: str, where: str | None = None) -> tuple[list[Trace], list[str]]:
    """Traces of a system's own sessions; a session is a job of them.

    Conditions, versions and depths are strata, each with traces of its own.

    :returns: traces, and what was left out, one sentence each.
    :raises BadInput: no dataset, nothing selected, or nothing of it is proven.
    """
    name = session_values.system_of(folder, system)
    selection = session_values.read(folder, name, selector, where=where)
    depths = [json.loads(text or "{}").get("depth") or "" for text in selection.cases["condition"]]
    known = selection.cases.select("case", "mpi_version", "lock_hash").with_columns(depth=pl.Series(depths, dtype=pl.String))
    values = selection.values.sort("started").join(known.with_columns(pl.col(pl.String).fill_null("")), on="case")
    label = pl.concat_str([pl.col(one).fill_null("") for one in CURVE if one not in (*STRATUM, "quantity")], separator=" ")
    unit = pl.struct("case", "repeat").rank("dense").over([*CURVE, *(set(STRATUM) - set(CURVE)), "session", "message_bytes"])
    found, left = [], list(selection.notes)
    for key, part in values.group_by(STRATUM, maintain_order=True):
        title = _title(dict(zip(STRATUM, map(str, key), strict=True)))
        if part["session"].n_unique() < FEWEST_JOBS:
            left.append(f"{title}: one session, which says nothing of others")
            continue
        table = part.select(
            *(pl.lit(title).alias("fabric"), label.alias("benchmark"), "quantity", pl.col("session").alias("job")),
            *(unit.cast(pl.Int64).alias("repeat"), pl.col("message_bytes").cast(pl.Int64), "value"),
        )
        found += traces(table, f"the history of {name}")
    if not found:
        raise BadInput(f"the history of {name} has nothing that was measured in {FEWEST_JOBS} sessions: {'; '.join(left)}.")
    return found, left


def _title(key: dict[str, str]) -> str:
    version = f" {key['mpi_version']}" if key["mpi_version"] else ""
    depth = f", {key['depth']}" if key["depth"] else ""
    lock = f", lock {key['lock_hash'][:7]}" if key["lock_hash"] else ""
    return f"{key['fabric']} ({key['stack']}{version} on {key['partition']}{depth}{lock})"
