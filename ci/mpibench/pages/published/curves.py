"""Published curves beside measured ones: "your 1GbE beside the white paper's", with the ratio at each size.

Which published data a fabric is put beside is the site's choice: ``published`` of the fabric in ``system.py``, for instance
``["openhpc-mini/eth1g"]``, or ``mpibench report --published eth1g=openhpc-mini/eth1g``. Published values were measured by
others on another machine and prove nothing: they are drawn and divided by, and never judged, counted or learned from.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.sites import site, systems
from reframe_tests.harness.vocabulary import QUANTITIES, BadInput

from ...store.sessions import Case, Session
from . import figures_file

#: Columns whose values make one curve of a table another than the next.
_SERIES = ("table", "benchmark", "quantity", "node_type", "links", "nodes", "ppn", "conditions")


@dataclass(frozen=True)
class Curve:
    """One published curve, put beside the session's fabric ``fabric``.

    :param source: data set, ``<published system>/<its fabric>``.
    :param title: table of the paper, with what distinguishes it from others of the same table.
    :param quantity: key of ``vocabulary.QUANTITIES``; values are in its unit.
    :param points: message size in bytes to the value as printed, ascending.
    """

    source: str
    title: str
    conditions: str
    fabric: str
    benchmark: str
    quantity: str
    nodes: int
    ppn: int
    points: Mapping[int, str]

    def number(self, size: int) -> float:
        """Value at a size."""
        return float(self.points[size].replace(",", ""))


@dataclass(frozen=True)
class Beside:
    """A measured curve beside a published one of the same benchmark, quantity, nodes and processes per node.

    :param measured: message size in bytes to the median of the repeats.
    :param ratios: measured over published, at the sizes both have; none where either was printed as 0.
    """

    case: Case
    variant: str
    measured: Mapping[int, float]
    ratios: Mapping[int, float]


def choose(session: Session, given: Sequence[str] = (), root: Path = site.ROOT) -> list[Curve]:
    """Published curves for the fabrics of a session.

    :param given: ``FABRIC=SYSTEM/FABRIC`` each; for a fabric named here the site's own choice does not count.
    :raises BadInput: a choice names no fabric of the session or no published data.
    """
    measured = {case.fabric for case in session.cases if case.fabric}
    wanted: dict[str, list[str]] = {}
    for text in given:
        fabric, _, source = text.partition("=")
        if fabric not in measured:
            known = ", ".join(sorted(measured)) or "none"
            raise BadInput(f"--published {text}: the session has no fabric '{fabric}'; it has {known}.")
        wanted.setdefault(fabric, []).append(source)
    for system in session.systems:
        for fabric, sources in _declared(system, root).items():
            if fabric in measured and fabric not in {text.partition("=")[0] for text in given}:
                wanted.setdefault(fabric, []).extend(source for source in sources if source not in wanted.get(fabric, ()))
    return [curve for fabric, sources in wanted.items() for source in sources for curve in read(source, fabric, root)]


def _declared(system: str, root: Path) -> dict[str, list[str]]:
    """What each fabric of a system is put beside, as its description says; nothing where there is none here."""
    found: dict[str, list[str]] = {}
    for partition in (systems.find(system, root) or {}).get("partitions", ()):
        for fabric, row in partition["extras"].get("fabrics", {}).items():
            found.setdefault(fabric, []).extend(row.get("published", ()))
    return found


def read(source: str, fabric: str, root: Path = site.ROOT) -> list[Curve]:
    """Curves of a published data set, in the order of its tables.

    Single figures, values without a message size and quantities the tests do not measure are no curves and left out.

    :param source: ``<system>/<fabric>``.
    :param fabric: fabric of the session they are put beside.
    :raises BadInput: if there is no such data.
    """
    system, _, named = source.partition("/")
    values = figures_file.read(system, root)
    found: dict[tuple[str, ...], dict[int, str]] = {}
    for value in values:
        if value["fabric"] == named and value["quantity"] in QUANTITIES and value.message_bytes is not None and value["nodes"]:
            found.setdefault(tuple(value[column] for column in _SERIES), {})[value.message_bytes] = value["value"]
    curves = [_curve(source, fabric, key, points) for key, points in found.items() if len(points) > 1]
    if not curves:
        known = ", ".join(sorted({f"{system}/{value['fabric']}" for value in values if value["fabric"]}))
        raise BadInput(f"'{source}' names no published curve; of {system} there are {known or 'none'}.")
    return curves


def _curve(source: str, fabric: str, key: tuple[str, ...], points: Mapping[int, str]) -> Curve:
    row = dict(zip(_SERIES, key, strict=True))
    links = f"{row['links']} link{'s' * (row['links'] != '1')}" if row["links"] else ""
    title = ", ".join(filter(None, (row["table"], row["node_type"], links)))
    where = {"nodes": int(row["nodes"]), "ppn": int(row["ppn"])}
    ordered = dict(sorted(points.items()))
    return Curve(source, title, row["conditions"], fabric, row["benchmark"], row["quantity"], **where, points=ordered)


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
                medians.setdefault(sample.variant, {})[sample.message_bytes] = statistics.median(sample.measured)
        for variant, measured in medians.items():
            shared = [size for size in curve.points if measured.get(size) and curve.number(size)]
            ratios = {size: measured[size] / curve.number(size) for size in shared}
            if ratios:
                found.append(Beside(case, variant, measured, ratios))
    return found


def lines(session: Session, curves: Iterable[Curve]) -> list[str]:
    """One line for a terminal per published curve that a measured one stands beside."""
    lines = []
    for curve in curves:
        for one in beside(session, curve):
            low, high = min(one.ratios.values()), max(one.ratios.values())
            what = f"{curve.benchmark} {QUANTITIES[curve.quantity].short}"
            lines.append(
                f"  {one.case.stack} on {one.case.partition}: {what} is {low:.2f} to {high:.2f} times that of {curve.source} "
                f"({len(one.ratios)} sizes)"
            )
    return lines
