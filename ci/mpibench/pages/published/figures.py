"""``mpibench published``: bandwidths that papers print, held against the links of their machines.

The papers print tables and single figures, no whole outputs, and nobody has the machines. So nothing is run or parsed here, and
nothing is evidence of anything: each figure is compared, as printed, with the line rate, the payload limit and the least
efficiency of the fabric it was measured on (``site_configs/<system>/system.py``). Only figures with a message size on a
fabric with a line rate can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reframe_tests.harness.machine.fabric import Fabric
from reframe_tests.harness.sites import references, site, systems
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import BadInput

from . import figures_file

#: Quantities of ``published.schema.json`` that are bandwidths of a size, and MB/s (1e6 bytes per second) in one of their units.
MB_PER_S = {"bandwidth_mb_per_s": 1.0, "bandwidth_mib_per_s": 1.048576, "bandwidth_gb_per_s": 1000.0}
#: Columns whose cells make one curve of a table another than the next.
_CURVE = ("table", "benchmark", "fabric", "node_type", "cores", "links", "nodes", "ppn")


@dataclass(frozen=True)
class PrintedBandwidth:
    """Printed bandwidths of one benchmark under one condition.

    :param row: catalogue row of the benchmark.
    :param points: (message size in bytes, bandwidth in MB/s), in printed order.
    """

    table: str
    ppn: str
    row: catalogue.Benchmark
    fabric: Fabric
    points: tuple[tuple[int, float], ...]

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return self.row.name

    @property
    def best(self) -> tuple[int, float]:
        """Size and value of the largest bandwidth, which papers quote."""
        return max(self.points, key=lambda point: point[1])

    def problem(self) -> str:
        """Why the curve cannot be, or is not, the bandwidth of its fabric; empty if it can and is."""
        return self._too_high() or self._too_low()

    def fraction(self, value: float) -> float:
        """Of the line rate of all rails, both ways where the benchmark sends both ways."""
        fraction = references.line_rate_fraction(value, self.fabric, self.row.directions)
        assert fraction is not None  # curves of other fabrics are left out
        return fraction

    def _too_high(self) -> str:
        size, value = self.best
        return references.above_line_rate(f"{self.benchmark} of {size} bytes", value, self.fabric, self.row.directions)

    def _too_low(self) -> str:
        gate = references.physics_reference(self.fabric)
        for size, value in self.points:
            fraction = self.fraction(value)
            judged = references.judge(self.benchmark, "physics", fraction, gate, "1")
            if size >= self.row.line_rate_from_bytes and judged.lower is not None and fraction < judged.lower:
                return (
                    f"{self.benchmark} of {size} bytes shows {value:.1f} MB/s, {fraction:.3f} of the line rate of "
                    f"{self.fabric.name}; at least {judged.lower:g} are asked for."
                )
        return ""


def curves(system: str, root: Path = site.ROOT) -> list[PrintedBandwidth]:
    """Printed curves of a system that can be held against a link, in the order of its files.

    :raises BadInput: if there are none.
    """
    printed = figures_file.read(system, root)
    described = systems.find(system, root) or {}
    found: dict[tuple[str, ...], PrintedBandwidth] = {}
    for value in printed:
        row, fabric = _row(value["benchmark"]), _fabric(described, value["fabric"], value["links"])
        if row and fabric and value["quantity"] in MB_PER_S and value.message_bytes is not None:
            key = tuple(value[column] for column in _CURVE)
            curve = found.setdefault(key, PrintedBandwidth(value["table"], value["ppn"], row, fabric, ()))
            point = (value.message_bytes, value.number * MB_PER_S[value["quantity"]])
            found[key] = replace(curve, points=(*curve.points, point))
    if not found:
        raise BadInput(f"the paper of '{system}' prints no bandwidth of a size on a link with a line rate.")
    return list(found.values())


def _row(name: str) -> catalogue.Benchmark | None:
    """Catalogue row of a benchmark that says something about a link; suites that share a name mean the same by it."""
    rows = (row for row in (*catalogue.ROWS, *catalogue.READ_ONLY) if row.name == name and row.directions)
    return next(rows, None)


def _fabric(described: Mapping[str, Any], name: str, links: str) -> Fabric | None:
    """The fabric of this name, with as many rails as the paper counts links, if it has a line rate."""
    for partition in described.get("partitions", ()):
        fabric = site.fabrics_of(partition["extras"]).get(name)
        if fabric and fabric.line_rate_gbit_per_s and (not links or len(fabric.rails) == int(links)):
            return fabric
    return None


def lines(found: Sequence[PrintedBandwidth]) -> Iterator[str]:
    """What is said of the curves, for a terminal."""
    for curve in found:
        size, value = curve.best
        problem = curve.problem()
        shown = f"at best {value:.2f} MB/s at {size} bytes, {curve.fraction(value):.3f} of the line rate"
        rails = f" ({len(curve.fabric.rails)} links)" if len(curve.fabric.rails) > 1 else ""
        answer = "does not hold" if problem else "holds"
        yield f"{curve.fabric.name}{rails} {curve.benchmark}, {curve.ppn} a node: {shown}: {answer}"
        yield f"  {curve.table}"
        if problem:
            yield f"  {problem}"
    held = sum(not curve.problem() for curve in found)
    yield f"{held} of {len(found)} printed curves agree with their links as system.py has them; nothing was measured here."


def as_data(found: Sequence[PrintedBandwidth]) -> list[dict[str, Any]]:
    """The same of each curve; bandwidths in MB/s."""
    return [
        {
            **{"table": curve.table, "benchmark": curve.benchmark, "ppn": curve.ppn, "fabric": curve.fabric.name},
            **{"rails": len(curve.fabric.rails), "points": [list(point) for point in curve.points]},
            **{"best_mb_per_s": curve.best[1], "line_rate_fraction": curve.fraction(curve.best[1])},
            **{"holds": not curve.problem(), "problem": curve.problem()},
        }
        for curve in found
    ]


def status(found: Sequence[PrintedBandwidth]) -> int:
    """Exit status: 1 if a printed curve does not hold."""
    return int(any(curve.problem() for curve in found))
