"""Recorded noise: repeats of many jobs under one condition, from a file or from a system's own history.

A **trace** holds all curves that were measured together. Their jobs stay together: what disturbed one curve of a job disturbed
the others, and whoever draws curves one by one finds fewer false alarms than there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from mpibench.judge.statistics.two_sides import Array
from reframe_tests.harness.vocabulary import JUDGED, LOWER, QUANTITIES, BadInput

#: Columns of a file of noise, with the types they are read as.
COLUMNS: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(("fabric", "benchmark", "quantity", "job"), pl.String),
    **dict.fromkeys(("repeat", "message_bytes"), pl.Int64),
    "value": pl.Float64,
}
#: Types that the first rows of a CSV file may not show.
_KNOWN = {name: kind for name, kind in COLUMNS.items() if kind is not pl.Int64}
#: Optional column: the unit of the value, which must be that of its quantity.
UNIT = "unit"
#: Values that are read at most, and cells of a trace; some GB.
MOST_ROWS = 20_000_000
#: Fewest jobs of a trace: one side and the other.
FEWEST_JOBS = 2
#: Quartiles of a normal distribution are this many standard deviations apart.
QUARTILES_APART = 1.349


@dataclass(frozen=True)
class NoiseCurve:
    """One quantity of one benchmark over its sizes.

    :param logs: slowness in log, shape (sizes, jobs, repeats), NaN where a job has none.
    :param stratum: number of what it was measured on.
    """

    benchmark: str
    quantity: str
    sizes: list[int | None]
    logs: Array
    stratum: int = 0

    @property
    def direction(self) -> str:
        """Which way is better."""
        return QUANTITIES[self.quantity].direction

    def of_sizes(self, places: Sequence[int]) -> NoiseCurve:
        """The same with some of its sizes."""
        return replace(self, sizes=[self.sizes[place] for place in places], logs=self.logs[list(places)])


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
            raise BadInput("noise-unusable", f"most metrics of {self.fabric} never vary: there is no noise to scale.")
        curves = []
        for one in self.curves:
            centre = np.nanmedian(one.logs, axis=(1, 2), keepdims=True)
            curves.append(replace(one, logs=(one.logs - centre) * (spread / self.spread)))
        return replace(self, curves=tuple(curves))


def read_file(path: Path) -> list[Trace]:
    """Traces of a Parquet or CSV file with the columns :data:`COLUMNS`; others but :data:`UNIT` are ignored.

    :raises BadInput: the file cannot be read, is too large, lacks a column, or holds what is no noise.
    """
    try:
        if path.stat().st_size == 0:
            raise BadInput("noise-unusable", f"{path} is empty; noise has the columns {', '.join(COLUMNS)}.")
        lazy = pl.scan_parquet(path) if path.suffix == ".parquet" else pl.scan_csv(path, schema_overrides=_KNOWN)
        names = lazy.collect_schema().names()
        absent = [name for name in COLUMNS if name not in names]
        if absent:
            raise BadInput(
                "noise-unusable",
                f"{path} has no column {', '.join(absent)}; it has {', '.join(names)}, noise has {', '.join(COLUMNS)}.",
            )
        rows = lazy.select(pl.len()).collect().item()
        if rows > MOST_ROWS:
            raise BadInput(
                "noise-unusable",
                f"{path} has {rows:,} rows, more than {MOST_ROWS:,}: give one fabric, or fewer repeats of each job.",
            )
        table = lazy.select([*COLUMNS, *filter(names.__contains__, [UNIT])]).collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise BadInput("noise-unusable", f"cannot read {path}: {str(error).splitlines()[0]}.") from None
    try:
        table = table.with_columns(pl.col(name).cast(kind) for name, kind in COLUMNS.items())
    except pl.exceptions.PolarsError as error:
        raise BadInput("noise-unusable", f"{path}: {str(error).splitlines()[0]}; expected {_types()}.") from None
    return traces(table, str(path))


def _types() -> str:
    return ", ".join(f"{name} ({kind.__name__})" for name, kind in COLUMNS.items())


def traces(table: pl.DataFrame, where: str) -> list[Trace]:
    """Traces of a table of noise.

    :param table: :data:`COLUMNS`; where it has :data:`UNIT` this is checked, and where it has ``stratum`` (whole numbers) kept.
    :param where: what it is, for messages.
    :raises BadInput: an unknown quantity, another unit, a value without a logarithm, a repeat that is there twice, or too few
        jobs.
    """
    keys = [name for name in COLUMNS if name != "value"]
    unknown = sorted(set(table["quantity"].drop_nulls()) - set(JUDGED))
    if unknown:
        raise BadInput(
            "noise-unusable", f"{where}: quantity {unknown[0]!r} is not one that is judged; these are: {', '.join(JUDGED)}."
        )
    holes = [name for name in keys if name != "message_bytes" and table[name].null_count()]
    if holes:
        raise BadInput("noise-unusable", f"{where}: {table[holes[0]].null_count()} rows have no {holes[0]}.")
    _check_units(table, where)
    odd = table.filter(~pl.col("value").is_finite().fill_null(False) | (pl.col("value") <= 0).fill_null(True))
    if odd.height:
        row = odd.row(0, named=True)
        raise BadInput(
            "noise-unusable",
            f"{where}: {row['benchmark']} {row['quantity']} of job {row['job']} is {row['value']}, expected a number above 0 "
            f"({odd.height} such rows): leave it out.",
        )
    minus = table.filter(pl.col("message_bytes") < 0)
    if minus.height:
        raise BadInput(
            "noise-unusable",
            f"{where}: message_bytes is {minus['message_bytes'][0]}, expected at least 0, or none for a barrier.",
        )
    twice = table.filter(table.select(keys).is_duplicated())
    if twice.height:
        row = twice.row(0, named=True)
        raise BadInput(
            "noise-unusable", f"{where}: repeat {row['repeat']} of job {row['job']}, {row['benchmark']}, is there twice."
        )
    # The same number in other words is judged once, as in every verdict.
    rank = pl.col("quantity").replace_strict({name: place for place, name in enumerate(JUDGED)}, return_dtype=pl.Int32)
    table = table.filter(rank == rank.min().over("fabric", "benchmark", "message_bytes"))
    # Repeats of a job by their order in it, whether a file counts them in each job or throughout.
    repeat = pl.col("repeat").rank("dense").over("fabric", "job").cast(pl.Int64) - 1
    table = table.with_columns(pl.col("job").cast(pl.String), repeat=repeat)
    found = [_trace(str(fabric), part, where) for (fabric,), part in table.group_by("fabric", maintain_order=True)]
    if not found:
        raise BadInput("noise-unusable", f"{where} holds no row.")
    return found


def _check_units(table: pl.DataFrame, where: str) -> None:
    if UNIT not in table.columns:
        return
    units = {name: QUANTITIES[name].unit for name in JUDGED}
    wanted = pl.col("quantity").replace_strict(units, return_dtype=pl.String)
    other = table.filter(pl.col(UNIT).cast(pl.String).fill_null("") != wanted)
    if other.height:
        row = other.row(0, named=True)
        raise BadInput(
            "noise-unusable",
            f"{where}: {row['benchmark']} {row['quantity']} of job {row['job']} is in {row[UNIT] or 'no unit'}, expected "
            f"{units[row['quantity']]} ({other.height} such rows): convert it.",
        )


def _trace(fabric: str, table: pl.DataFrame, where: str) -> Trace:
    parts = dict(table.group_by("benchmark", "quantity", maintain_order=True))
    come = list(dict.fromkeys(table["job"]))
    order = sorted(come, key=int) if all(job.isdecimal() for job in come) else come
    columns = _columns([set(part["job"]) for part in parts.values()], order)
    count = min(len(set(one.values())) for one in columns)
    if count < FEWEST_JOBS:
        raise BadInput(
            "noise-unusable", f"{where}: {fabric} has {count} job: at least {FEWEST_JOBS} are needed, and 16 to say anything."
        )
    repeats = 1 + int(table.select(pl.max("repeat")).item())
    points = table.select("benchmark", "quantity", "message_bytes").n_unique()
    if points * len(order) * repeats > MOST_ROWS:
        raise BadInput(
            "noise-unusable",
            f"{where}: {fabric} has {points} metrics, {len(order)} jobs and up to {repeats} repeats a job, more than "
            f"{MOST_ROWS:,} values in all: number the jobs as they ran, and leave some out.",
        )
    curves = []
    for ((benchmark, quantity), part), column in zip(parts.items(), columns, strict=True):
        sizes = sorted(part["message_bytes"].unique().to_list(), key=lambda size: -1 if size is None else size)
        rows = {size: place for place, size in enumerate(sizes)}
        logs = np.full((len(sizes), 1 + max(column.values()), repeats), np.nan)
        sign = 1.0 if QUANTITIES[str(quantity)].direction == LOWER else -1.0
        at = [rows[size] for size in part["message_bytes"]], [column[job] for job in part["job"]], part["repeat"].to_list()
        logs[at] = sign * np.log(part["value"].to_numpy())
        stratum = int(part["stratum"][0]) if "stratum" in part.columns else 0
        curves.append(NoiseCurve(str(benchmark), str(quantity), sizes, logs[:, :count], stratum))
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
