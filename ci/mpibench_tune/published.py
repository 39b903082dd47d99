"""What papers print about the bundled systems: ``site_configs/<system>/published/*.csv``, a row a
value, every digit printed.

Others measured these numbers on other machines and they prove nothing: they are compared with the
links of those machines (``mpibench doctor``), or drawn beside measured curves and divided by ("your
1GbE beside the white paper's"), and never judged, counted or learned from. Which data a fabric is
put beside is the site's choice: ``published`` of the fabric in ``system.py``, for instance
``["openhpc-mini/eth1g"]``, or ``mpibench report --published eth1g=openhpc-mini/eth1g``.
"""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mpibench.pages.additions import Curve
from mpibench.store.sessions import Case, Session
from reframe_tests.harness.machine.fabric import Fabric
from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.sites import references, site, systems
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import QUANTITIES, BadInput, meant

SCHEMA = site.ROOT / "site_configs" / "published.schema.json"
COLUMNS: tuple[str, ...] = tuple(json.loads(SCHEMA.read_text())["required"])
#: Columns whose cells make one curve of a table another than the next.
_CURVE = (
    "table",
    "benchmark",
    "quantity",
    "fabric",
    "node_type",
    "cores",
    "links",
    "nodes",
    "ppn",
    "conditions",
)
#: Quantities of the schema that are bandwidths of a size, and MB/s
#: (1e6 bytes per second) in one of their units.
MB_PER_S = {
    "bandwidth_mb_per_s": 1.0,
    "bandwidth_mib_per_s": 1.048576,
    "bandwidth_gb_per_s": 1000.0,
}


@dataclass(frozen=True)
class PublishedValue:
    """One printed value with its conditions: cells by column name."""

    file: str
    data: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.data[column]

    @property
    def number(self) -> float:
        """The value as a number, in the unit of the row.

        :raises BadInput: the paper prints no number there.
        """
        try:
            return float(self["value"].replace(",", ""))
        except ValueError:
            where = f"'{self['value']}' of {self['benchmark']} ({self['table']})"
            raise BadInput(
                "configuration-unusable", f"{self.file}: {where} is not a number."
            ) from None

    @property
    def message_bytes(self) -> int | None:
        return int(self["message_bytes"]) if self["message_bytes"] else None


def read(system: str, root: Path = site.ROOT) -> list[PublishedValue]:
    """All published values of a system, in the order of files and rows.

    :raises BadInput: the system has none, or a file has other columns or an incomplete row.
    """
    files = sorted((root / "site_configs").glob("*/published/*.csv"))
    own = [path for path in files if path.parent.parent.name == system]
    if not own:
        known = sorted({path.parent.parent.name for path in files})
        raise BadInput(
            "unknown-name",
            f"system '{system}' has no published data under site_configs/{meant(system, known)}; "
            f"those that have: {', '.join(known)}.",
        )
    values = []
    for path in own:
        with path.open(newline="") as stream:
            reader = csv.DictReader(stream)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise BadInput(
                    "configuration-unusable",
                    f"{path}: the columns must be {', '.join(COLUMNS)}; see {SCHEMA.name}.",
                )
            for line, row in enumerate(reader, 2):
                full = all(row[name] for name in ("table", "benchmark", "value", "source"))
                if None in row or None in row.values() or not full:
                    raise BadInput(
                        "configuration-unusable",
                        f"{path}, row {line}: wrong number of cells; see {SCHEMA.name}.",
                    )
                values.append(PublishedValue(str(path), row))
    return values


def _tables(values: Iterable[PublishedValue]) -> list[list[PublishedValue]]:
    """Values with a message size, those of one curve together."""
    found: dict[tuple[str, ...], list[PublishedValue]] = {}
    for value in values:
        if value.message_bytes is not None:
            found.setdefault(tuple(value[column] for column in _CURVE), []).append(value)
    return list(found.values())


@dataclass(frozen=True)
class PrintedBandwidth:
    """Printed bandwidths of one benchmark under one condition.

    :param row: of the catalogue.
    :param points: message size in bytes and bandwidth in MB/s, in printed order.
    """

    table: str
    ppn: str
    row: catalogue.Benchmark
    fabric: Fabric
    points: tuple[tuple[int, float], ...]

    @property
    def benchmark(self) -> str:
        return self.row.name

    @property
    def best(self) -> tuple[int, float]:
        """Size and value of the largest bandwidth, which papers quote."""
        return max(self.points, key=lambda point: point[1])

    def fraction(self, value: float) -> float:
        """Of the line rate of all rails, both ways where the benchmark sends both ways."""
        fraction = references.line_rate_fraction(value, self.fabric, self.row.directions)
        assert fraction is not None  # curves of other fabrics are left out
        return fraction

    @cached_property
    def problem(self) -> str:
        """Why the curve cannot be, or is not, the bandwidth of its
        fabric; empty if it can and is.
        """
        size, value = self.best
        what = f"{self.benchmark} of {size} bytes"
        if too_high := references.above_line_rate(what, value, self.fabric, self.row.directions):
            return too_high
        gate = references.physics_reference(self.fabric)
        for size, value in self.points:
            fraction = self.fraction(value)
            least = references.judge(self.benchmark, "physics", fraction, gate, "1").lower
            if size >= self.row.line_rate_from_bytes and least is not None and fraction < least:
                return (
                    f"{self.benchmark} of {size} bytes shows {value:.1f} MB/s, {fraction:.3f} of "
                    f"the line rate of {self.fabric.name}; at least {least:g} is required."
                )
        return ""

    def as_data(self) -> dict[str, Any]:
        """For programs; bandwidths in MB/s."""
        return {
            "table": self.table,
            "benchmark": self.benchmark,
            "ppn": self.ppn,
            "fabric": self.fabric.name,
            "rails": len(self.fabric.rails),
            "points": [list(point) for point in self.points],
            "best_mb_per_s": self.best[1],
            "line_rate_fraction": self.fraction(self.best[1]),
            "holds": not self.problem,
            "problem": self.problem,
        }


def bandwidths(system: str) -> list[PrintedBandwidth]:
    """Printed curves of a system that can be compared with a link with a line
    rate, in the order of its files, if there are any.

    :raises BadInput: a file with other columns or an incomplete row.
    """
    if not any((site.ROOT / "site_configs" / system / "published").glob("*.csv")):
        return []
    # Catalogue rows of benchmarks that say something about a link;
    # suites that share a name mean the same by it.
    known = {
        row.name: row for row in reversed((*catalogue.ROWS, *catalogue.READ_ONLY)) if row.directions
    }
    partitions = [
        site.fabrics_of(part["extras"])
        for part in (systems.find(system) or {}).get("partitions", ())
    ]
    found = []
    for table in _tables(value for value in read(system) if value["quantity"] in MB_PER_S):
        first = table[0]
        for fabric in (
            fabrics[first["fabric"]] for fabrics in partitions if first["fabric"] in fabrics
        ):
            # With as many rails as the paper counts links.
            same = not first["links"] or len(fabric.rails) == int(first["links"])
            if first["benchmark"] in known and fabric.line_rate_gbit_per_s and same:
                points = tuple(
                    (value.message_bytes or 0, value.number * MB_PER_S[value["quantity"]])
                    for value in table
                )
                found.append(
                    PrintedBandwidth(
                        first["table"], first["ppn"], known[first["benchmark"]], fabric, points
                    )
                )
                break
    return found


def bandwidth_lines(found: Sequence[PrintedBandwidth]) -> Iterator[str]:
    """What the terminal shows of printed bandwidths."""
    for curve in found:
        size, value = curve.best
        shown = (
            f"at best {value:.2f} MB/s at {size} bytes, {curve.fraction(value):.3f} of the line "
            "rate"
        )
        rails = f" ({len(curve.fabric.rails)} links)" if len(curve.fabric.rails) > 1 else ""
        answer = "does not hold" if curve.problem else "holds"
        yield (
            f"{curve.fabric.name}{rails} {curve.benchmark}, {curve.ppn} a node: {shown}: {answer}"
        )
        yield f"  {curve.table}"
        if curve.problem:
            yield f"  {curve.problem}"
    held = sum(not curve.problem for curve in found)
    yield (
        f"{held} of {len(found)} printed curves agree with their links as system.py has them; "
        "nothing was measured here."
    )


def check(system: Mapping[str, Any], root: Path) -> None:
    """Read the published data of a system, if there are any.

    :raises BadInput: as :func:`read` does.
    """
    if any((root / "site_configs" / system["name"] / "published").glob("*.csv")):
        read(system["name"], root)


def shown(system: str) -> tuple[list[dict[str, Any]], list[str]]:
    """What ``doctor`` says of printed bandwidths: rows for programs, and lines."""
    found = bandwidths(system)
    return [curve.as_data() for curve in found], [*bandwidth_lines(found)] if found else []


@dataclass(frozen=True)
class Beside:
    """A measured curve beside a published one of the same benchmark,
    quantity, nodes and processes per node.

    :param measured: message size in bytes to the median of the repeats.
    :param ratios: measured over published, at the sizes both have;
        none where either was printed as 0.
    """

    case: Case
    variant: str
    measured: Mapping[int, float]
    ratios: Mapping[int, float]


def choose(session: Session, given: Sequence[str] = ()) -> list[Curve]:
    """Published curves for the fabrics of a session.

    :param given: ``FABRIC=SYSTEM/FABRIC`` each; for a fabric named here
        the site's own choice does not count.
    :raises BadInput: a choice names no fabric of the session or no published data.
    """
    measured = {case.fabric for case in session.cases if case.fabric}
    wanted: dict[str, list[str]] = {}
    for text in given:
        fabric, _, source = text.partition("=")
        if fabric not in measured:
            known = ", ".join(sorted(measured)) or "none"
            raise BadInput(
                "configuration-unusable",
                f"--published {text}: the session has no fabric '{fabric}'; it has {known}.",
            )
        wanted.setdefault(fabric, []).append(source)
    named = set(wanted)
    for system in session.systems:
        for fabric, sources in declared(system).items():
            if fabric in measured - named:
                wanted.setdefault(fabric, []).extend(sources)
    return [
        curve
        for fabric, sources in wanted.items()
        for source in dict.fromkeys(sources)
        for curve in curves(source, fabric)
    ]


def declared(system: str, root: Path = site.ROOT) -> dict[str, list[str]]:
    """What each fabric of a system is put beside, as its description
    says; nothing if there is none here.
    """
    found: dict[str, list[str]] = {}
    for partition in (systems.find(system, root) or {}).get("partitions", ()):
        for fabric, row in partition["extras"].get("fabrics", {}).items():
            found.setdefault(fabric, []).extend(row.get("published", ()))
    return found


def curves(source: str, fabric: str) -> list[Curve]:
    """Curves of a published data set, in the order of its tables.

    Single figures, values without a message size and quantities the tests
    do not measure are no curves and left out.

    :param source: ``<system>/<fabric>``.
    :param fabric: of the session, which they are put beside.
    :raises BadInput: there is no such data.
    """
    system, _, named = source.partition("/")
    values = read(system)
    own = (
        value
        for value in values
        if value["fabric"] == named and value["quantity"] in QUANTITIES and value["nodes"]
    )
    found = []
    for table in filter(lambda table: len(table) > 1, _tables(own)):
        row = table[0]
        links = f"{row['links']} link{'s' * (row['links'] != '1')}" if row["links"] else ""
        title = ", ".join(filter(None, (row["table"], row["node_type"], links)))
        measured = (row["benchmark"], row["quantity"], int(row["nodes"]), int(row["ppn"]))
        points = dict(sorted((value.message_bytes or 0, value["value"]) for value in table))
        found.append(Curve(source, title, row["conditions"], fabric, *measured, points))
    if not found:
        known = sorted({f"{system}/{value['fabric']}" for value in values if value["fabric"]})
        raise BadInput(
            "unknown-name",
            f"'{source}' is not a published curve{meant(source, known)}; of {system} there are "
            f"{', '.join(known) or 'none'}.",
        )
    return found


def beside(session: Session, curve: Curve) -> list[Beside]:
    """Measured curves of a session that stand beside a published one; only those with proof."""
    found = []
    for case in session.cases:
        if case.evidence != PROVEN or case.uuid in session.superseded:
            continue
        if (case.fabric, case.nodes, case.ppn) != (curve.fabric, curve.nodes, curve.ppn):
            continue
        medians: dict[str, dict[int, float]] = {}
        for sample in case.samples:
            same = (sample.benchmark, sample.quantity) == (curve.benchmark, curve.quantity)
            if same and sample.message_bytes is not None and sample.measured:
                medians.setdefault(sample.variant, {})[sample.message_bytes] = statistics.median(
                    sample.measured
                )
        for variant, measured in medians.items():
            shared = [size for size in curve.points if measured.get(size) and curve.number(size)]
            ratios = {size: measured[size] / curve.number(size) for size in shared}
            if ratios:
                found.append(Beside(case, variant, measured, ratios))
    return found


def beside_lines(session: Session, chosen: Iterable[Curve]) -> list[str]:
    """One line for a terminal per measured curve that stands beside a published one."""
    lines = []
    for curve in chosen:
        for measured in beside(session, curve):
            low = min(measured.ratios.values())
            high = max(measured.ratios.values())
            what = f"{curve.benchmark} {QUANTITIES[curve.quantity].title}"
            lines.append(
                f"  {measured.case.stack} on {measured.case.partition}: {what} is {low:.2f} to "
                f"{high:.2f} times that of {curve.source} ({len(measured.ratios)} sizes)"
            )
    return lines
