"""Every night's median and interval of each metric, kept beside the site so that a night is read once.

The interval is that of order statistics: lowest and highest repeat for up to five repeats (which hold the median with 75 % for
three and 94 % for five), and from six on the narrowest pair of repeats that holds it with 95 % at least (David and Nagaraja,
Order Statistics, section 7.1: the number of repeats below the median is binomial, whatever the distribution).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from scipy import special

from reframe_tests.harness.samples import FAIL
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.benchmark import metric_name
from reframe_tests.harness.vocabulary import JUDGED, MB_PER_GBIT, NONE, QUANTITIES, BadInput

from .. import whole_file
from ..results import dataset_layout, eligibility, session_values
from ..results.dataset_layout import read_condition
from ..results.session_values import CONDITION
from . import names

#: Changes when what is kept does: what an earlier program kept is computed again.
KEPT = f"1,{pl.__version__}"
#: What names a metric on the site: its condition, its benchmark, and the case that measures it.
IDENTITY = (*CONDITION, "suite", "benchmark", "variant", "ranks", "groups", "quantity", "message_bytes")
#: Columns of the kept values beside ``id``.
VALUES = ("n", "median", "low", "high", "lower", "upper", "line_rate", "missed", "judged")
#: Name of the file that has the values of many nights; it is written again when as many nights are new, or gone.
PACK, PACKED_AT = "many", 32
_BANDWIDTH = "bandwidth_mb_per_s"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class NightMedians:
    """What is kept of one night.

    :param values: ``id`` (a hash of :data:`IDENTITY`, ``name``, ``group``) and :data:`VALUES`, in the units of the quantities;
        ``lower`` and ``upper`` are the bounds of its reference that night, ``line_rate`` is in MB/s.
    :param metrics: ``id``, :data:`IDENTITY`, ``name``, ``group``, ``direction``.
    :param facts: what the night said of machine and software (:func:`~.session_values.facts`).
    :param spoiled: why the values cannot be used; empty where they can.
    """

    values: pl.DataFrame
    metrics: pl.DataFrame
    facts: Mapping[str, list[str]]
    spoiled: str = ""


class Kept:
    """Medians in a folder, a night in three files; what changed since is computed again."""

    def __init__(self, folder: Path, dataset: Path, system: str) -> None:
        self._folder, self._dataset, self._system = folder, dataset, system
        self._there = {path.name for path in folder.glob("*")} if folder.is_dir() else set()
        self._used: set[str] = set()
        self._about: dict[str, dict[str, Any]] = {}

    def stem(self, session: str, identity: str) -> str:
        """Name of the files of a night."""
        return names.digest(session, identity, KEPT)

    def bring(self, session: str, identity: str) -> str:
        """Make sure that a night is kept; the name of its files.

        :raises BadInput: the folder cannot be written.
        """
        stem = self.stem(session, identity)
        self._used.add(stem)
        if f"{stem}.json" not in self._there:
            self._keep(stem, compute(self._dataset, self._system, session))
        return stem

    def _keep(self, stem: str, night: NightMedians) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for kind, table in (("values", night.values), ("metrics", night.metrics)):
                with whole_file.replacing(self._folder / f"{stem}.{kind}.parquet") as partial:
                    whole_file.write_parquet(partial, table, compression="lz4", statistics=False)
            # The last one: without it the others do not count.
            with whole_file.replacing(self._folder / f"{stem}.json") as partial:
                partial.write_text(json.dumps({"facts": night.facts, "spoiled": night.spoiled}), encoding="utf-8")
        except OSError as error:
            raise BadInput(f"cannot write {self._folder}: {error.strerror}.") from None

    def about(self, stem: str) -> dict[str, Any]:
        """Facts of a night, and why its values cannot be used."""
        if stem not in self._about:
            self._about[stem] = json.loads((self._folder / f"{stem}.json").read_text(encoding="utf-8"))
        return self._about[stem]

    def values(self, stems: Sequence[str], series: str = "") -> pl.DataFrame:
        """Values of some nights with ``night``, the place of each among them.

        Of many nights most are in one file, as hundreds of files take longer to open than to read.

        :param series: whose nights they are; each series has such a file of its own.
        """
        places = {stem: place for place, stem in enumerate(stems)}
        name = f"{PACK}-{names.digest(series)}"
        pack, packed = self._pack(name)
        there = [stem for stem in packed if stem in places]
        new = [stem for stem in stems if stem not in set(there)]
        parts = [
            pl.read_parquet(self._folder / f"{stem}.values.parquet").with_columns(night=pl.lit(places[stem], pl.Int32))
            for stem in new
        ]
        if there:
            at = pl.DataFrame(
                {"packed": range(len(packed)), "night": [places.get(stem) for stem in packed]},
                schema={"packed": pl.Int32, "night": pl.Int32},
            )
            old = pl.read_parquet(pack).join(at.drop_nulls(), on="packed").select("id", *VALUES, "night")
            parts.insert(0, old)
        found = pl.concat(parts) if parts else _no_values().with_columns(night=pl.lit(0, pl.Int32)).clear()
        if len(new) >= PACKED_AT or len(packed) - len(there) >= PACKED_AT:
            self._write_pack(name, found, stems)
        elif packed:
            self._used.add(name)
        return found

    def _pack(self, name: str) -> tuple[Path, list[str]]:
        """The file of many nights, and their stems in the order of its column ``packed``."""
        path = self._folder / f"{name}.parquet"
        try:
            stored = json.loads((self._folder / f"{name}.json").read_text(encoding="utf-8"))
            stems = [str(one) for one in stored["stems"]]
            same = stored["kept"] == KEPT and stored["size"] == path.stat().st_size
        except (OSError, ValueError, KeyError, TypeError):
            return path, []
        return path, stems if same else []

    def _write_pack(self, name: str, values: pl.DataFrame, stems: Sequence[str]) -> None:
        """Put the values of some nights into one file; what says which is written last, and names its size."""
        path = self._folder / f"{name}.parquet"
        try:
            with whole_file.replacing(path) as partial:
                whole_file.write_parquet(partial, values.rename({"night": "packed"}), compression="lz4", statistics=False)
            with whole_file.replacing(self._folder / f"{name}.json") as partial:
                text = json.dumps({"kept": KEPT, "stems": list(stems), "size": path.stat().st_size})
                partial.write_text(text, encoding="utf-8")
        except OSError as error:
            raise BadInput(f"cannot write {self._folder}: {error.strerror}.") from None
        self._used.add(name)

    def metrics(self, stems: Sequence[str], values: pl.DataFrame) -> pl.DataFrame:
        """Names of all metrics of some nights, each once; few files are read, as nights are alike.

        :param values: of :meth:`values`.
        """
        newest = values.group_by("id").agg(pl.max("night"))
        wanted = newest["night"].unique().sort(descending=True).to_list()
        parts = [pl.read_parquet(self._folder / f"{stems[place]}.metrics.parquet") for place in wanted]
        return pl.concat(parts).unique("id", keep="first", maintain_order=True) if parts else _no_metrics()

    def forget_unused(self) -> None:
        """Remove what no night of this build was read from."""
        for name in self._there:
            if name.partition(".")[0] not in self._used:
                (self._folder / name).unlink(missing_ok=True)


def _no_values() -> pl.DataFrame:
    numbers = dict.fromkeys(("median", "low", "high", "lower", "upper", "line_rate"), pl.Float64())
    schema = {"id": pl.UInt64(), "n": pl.UInt32(), **numbers, "missed": pl.Boolean(), "judged": pl.Boolean()}
    return pl.DataFrame(schema={name: schema[name] for name in ("id", *VALUES)})


def _no_metrics() -> pl.DataFrame:
    integers = {"nodes": pl.Int32(), "ppn": pl.Int32(), "ranks": pl.Int32(), "groups": pl.Int32(), "message_bytes": pl.Int64()}
    columns = ("id", *IDENTITY, "name", "group", "direction")
    return pl.DataFrame(schema={name: pl.UInt64() if name == "id" else integers.get(name, pl.String()) for name in columns})


def compute(folder: Path, system: str, session: str) -> NightMedians:
    """Medians of the eligible cases of one session.

    :raises BadInput: the dataset cannot be read.
    """
    files = {table: _file(folder, table, system, session) for table in ("cases", "samples")}
    cases = dataset_layout.scan_files(files["cases"], "cases").collect()
    try:
        facts = session_values.facts(cases.filter(pl.col("result") != "skip"))
        eligible = eligibility.split_cases(cases).eligible
        samples = dataset_layout.scan_files(files["samples"], "samples").filter(
            pl.col("case").is_in(eligible["case"].to_list()), pl.col("direction") != NONE, pl.col("value").is_not_null()
        )
        columns = ("case", *(name for name in IDENTITY if name not in CONDITION), "unit", "direction", "value")
        values = _medians(session, samples.select(columns).collect())
        if not values.height:
            return NightMedians(_no_values(), _no_metrics(), facts)
        shared = pl.col("condition").str.json_path_match(f"$.{session_values.OVERSUBSCRIBED}").is_not_null()
        described = eligible.select("case", *CONDITION, "name", "group", "gates", shared=shared, rate=_rate(eligible))
    except BadInput as error:
        return NightMedians(_no_values(), _no_metrics(), {}, str(error).rstrip("."))
    table = values.join(described.drop("gates"), on="case")
    # Ranks that shared cores are another measurement, and no part of a history.
    variant = pl.when("shared").then(pl.format("{}oversubscribed", pl.col("variant").fill_null(""))).otherwise("variant")
    table = table.with_columns(variant=variant, judged=pl.col("judged") & ~pl.col("shared"))
    table = _bounded(table, described)
    table = table.with_columns(id=pl.struct(*IDENTITY, "name", "group").hash(seed=1)).unique("id", keep="last")
    return NightMedians(
        table.select("id", *VALUES).cast(_no_values().schema),
        table.select("id", *IDENTITY, "name", "group", "direction").cast(_no_metrics().schema),
        facts,
    )


def _file(folder: Path, table: str, system: str, session: str) -> list[Path]:
    return sorted(folder.glob(f"{table}/system={system}/date=*/{session}.parquet"))


def _rate(cases: pl.DataFrame) -> pl.Series:
    """Line rate of each case in Gbit/s; null where its fabric has none."""
    found = [read_condition(text).get("line_rate_gbit_per_s") for text in cases["condition"]]
    numbers = [float(one) if isinstance(one, (int, float)) and not isinstance(one, bool) else None for one in found]
    return pl.Series(numbers, dtype=pl.Float64)


def _medians(session: str, samples: pl.DataFrame) -> pl.DataFrame:
    """Median, interval and number of the repeats of each metric of each case.

    :raises BadInput: a value that is no number, or not in the unit of its quantity.
    """
    units = {one.name: one.unit for one in QUANTITIES.values()}
    wanted = pl.col("quantity").replace_strict(units, default=None, return_dtype=pl.String)
    odd = samples.filter(~pl.col("value").is_finite() | wanted.is_null() | (pl.col("unit") != wanted))
    if odd.height:
        row = odd.row(0, named=True)
        raise BadInput(
            f"session {session}: {row['benchmark']} {row['quantity']} is {row['value']} {row['unit']}: export it again."
        )
    point = ["case", *(name for name in IDENTITY if name not in CONDITION)]
    sorted_values = pl.col("value").sort()
    most = samples.group_by(point).len()["len"].max() or 0
    ranks = {n: _rank(n) for n in range(1, int(most) + 1)}  # type: ignore[arg-type]
    grouped = samples.group_by(point, maintain_order=True).agg(
        pl.len().alias("n"), pl.col("value").median().alias("median"), sorted_values.alias("all"), pl.col("direction").first()
    )
    below = pl.col("n").replace_strict(ranks, default=1, return_dtype=pl.Int64)
    table = grouped.with_columns(low=pl.col("all").list.get(below - 1), high=pl.col("all").list.get(pl.col("n") - below))
    # The same number in other words is judged once, and a median of nothing is none; as the watch over nights does.
    rank = pl.col("quantity").replace_strict(
        {one: place for place, one in enumerate(JUDGED)}, default=None, return_dtype=pl.Int8
    )
    table = table.with_columns(rank=pl.when(pl.col("median") > 0).then(rank))
    best = pl.col("rank") == pl.col("rank").min().over([name for name in point if name != "quantity"])
    return table.with_columns(judged=best.fill_null(False)).drop("all", "rank")


def _rank(n: int) -> int:
    """Which of ``n`` sorted repeats, counted from 1 at either end, bounds the interval of the median."""
    share = (1 - CONFIDENCE) / 2
    # The quantile of a binomial: special.bdtr(k, n, p) is its distribution function.
    return max(1, next(k for k in range(n + 1) if special.bdtr(k, n, 0.5) >= share))


def _bounded(table: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """The same with line rate and the bounds of the references of that night."""
    checks = [
        (case, check["metric"], check["layer"], check["value"], check["lower"], check["upper"], check["outcome"] == FAIL)
        for case, gates in cases.select("case", "gates").iter_rows()
        for check in gates or ()
    ]
    columns = ("case", "metric", "layer", "measured", "lower", "upper", "missed")
    numbers = dict.fromkeys(("measured", "lower", "upper"), pl.Float64())
    schema = {name: pl.Boolean() if name == "missed" else numbers.get(name, pl.String()) for name in columns}
    gates = pl.DataFrame(checks, schema=schema, orient="row").unique(["case", "metric", "layer"], keep="last")
    points = table.select("benchmark", "quantity", "message_bytes", "variant").unique()
    named = points.with_columns(
        metric=_names(points, lambda quantity: QUANTITIES[quantity].short),
        fraction=_names(points, lambda _: QUANTITIES["line_rate_fraction"].short),
    )
    joined = table.join(named, on=["benchmark", "quantity", "message_bytes", "variant"], nulls_equal=True, how="left")
    learned = gates.filter(pl.col("layer") == "learned").select("case", "metric", "lower", "upper", "missed")
    joined = joined.join(learned, on=["case", "metric"], how="left")
    physics = gates.filter(pl.col("layer") != "learned").select(
        "case", fraction="metric", share="measured", least="lower", short="missed"
    )
    joined = joined.join(physics, on=["case", "fraction"], how="left")
    bandwidth = pl.col("quantity") == _BANDWIDTH
    ways = pl.col("benchmark").replace_strict(_directions(points["benchmark"]), default=1.0, return_dtype=pl.Float64)
    # The check holds the median against line rate x directions x links; without one the rate of one link is drawn.
    checked = pl.when(pl.col("share") > 0).then(pl.col("median") / pl.col("share"))
    rate = pl.when(bandwidth).then(pl.coalesce(checked, pl.col("rate") * MB_PER_GBIT * ways))
    return joined.with_columns(
        line_rate=rate,
        lower=pl.when(bandwidth).then(pl.max_horizontal("lower", pl.col("least") * rate)).otherwise("lower"),
        missed=pl.col("missed").fill_null(False) | (bandwidth & pl.col("short").fill_null(False)),
    )


def _names(points: pl.DataFrame, short: Any) -> pl.Series:
    rows = points.select("benchmark", "quantity", "message_bytes", "variant").iter_rows()
    return pl.Series([metric_name(one, short(quantity), size, variant or "") for one, quantity, size, variant in rows])


def _directions(benchmarks: Iterable[str]) -> dict[str, float]:
    """How many ways data flow over a link at once, by benchmark; 1 where the catalogue does not know."""
    wanted = set(benchmarks)
    found = {
        row.name: float(row.directions)
        for suite in catalogue.SUITES.values()
        for row in suite.rows
        if row.name in wanted and row.directions
    }
    return {name: found.get(name, 1.0) for name in wanted}
