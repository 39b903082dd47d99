"""Section of the report: comparison with published figures."""

from __future__ import annotations

from collections.abc import Sequence

from reframe_tests.harness.vocabulary import QUANTITIES

from ...published.curves import Beside, Curve, beside
from ...results.quantity_text import unit_text
from ..section import Content, Section
from ..view import View


def show(view: View) -> Content | None:
    """Measured curves beside published ones, size by size; nothing where the site chose no published data."""
    if not view.published:
        return None
    shown = [(curve, found) for curve in view.published if (found := beside(view.session, curve))]
    alone = [curve for curve in view.published if curve not in [one for one, _ in shown]]
    return {"comparisons": [_comparison(curve, found) for curve, found in shown], "alone": alone, "quantities": QUANTITIES}


def _comparison(curve: Curve, found: Sequence[Beside]) -> Content:
    unit = unit_text(QUANTITIES[curve.quantity].unit)
    named = f" ({unit})" if unit else ""
    head = ["size", f"published{named}"]
    for one in found:
        where = ", ".join(filter(None, (one.case.stack, one.case.partition, one.case.pinning, one.variant)))
        head += [f"{where}{named}", "ratio"]
    return {"curve": curve, "found": found, "head": head}


SECTION = Section("published", 70, show, "Comparison with published figures", "Published")
